"""A SQL database for the suite of control stores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.ports import ControlStore
from tests.contract.control_worker import opened


@dataclass(frozen=True)
class SqlBench:
    """A database that nobody has used yet."""

    endpoint: SqlEndpoint

    @property
    def spec(self) -> dict[str, Any]:
        return asdict(self.endpoint)

    def open(self) -> ControlStore:
        return opened(self.spec)
