"""How a connection type's form in Airflow is declared: as airflow/provider_info.schema.json describes it."""

from __future__ import annotations

from typing import Any


def field(label: str, description: str = "", **schema: Any) -> dict[str, Any]:
    """One form field; text unless `schema` says otherwise."""
    shown: dict[str, Any] = {"label": label, "schema": {"type": ["string", "null"], **schema}}
    return {**shown, "description": description} if description else shown
