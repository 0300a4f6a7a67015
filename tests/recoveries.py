"""Open recoveries in the middle of their work, for tests that begin there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_cdc.control.control import Control
from airflow_cdc.core.recovery import OpenRecovery, upgraded_from_json
from airflow_cdc.kinds import read_position


def advance_to(control: Control, run_id: str, **fields: Any) -> OpenRecovery:
    """The run's open recovery after its steps brought it to these fields, as a document of the first format names them."""
    brought = OpenRecovery.from_json({"run_id": run_id, **fields}, read_position)
    names = {name for name, value in upgraded_from_json(fields).items() if value} | (
        fields.keys() & set(OpenRecovery.__slots__)
    )
    values = {name: getattr(brought, name) for name in names}
    return control.change_recovery(run_id, lambda now: replace(now, **values), read_position)
