"""How a connection type's form in Airflow is declared: as airflow/provider_info.schema.json describes it."""

from __future__ import annotations

# a JSON schema's value: a type or its name, a list of allowed values, a default
SchemaValue = str | int | list[str] | list[str | None] | None


def field(label: str, description: str = "", **schema: SchemaValue) -> dict[str, object]:
    """One form field; text unless `schema` says otherwise."""
    shown: dict[str, object] = {"label": label, "schema": {"type": ["string", "null"], **schema}}
    return {**shown, "description": description} if description else shown
