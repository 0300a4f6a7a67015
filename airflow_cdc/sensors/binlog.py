"""Waits until a binlog file and position can be read from the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.sensors.base import AvailabilitySensor
from airflow_cdc.triggers.availability import PositionTrigger

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import DataEndpoint


class BinlogAvailableSensor(AvailabilitySensor):
    """Succeeds when `file`:`position` can be read from the source, fails at once when it was purged.

    :param file: binlog file name, e.g. `binlog.000042` (templated).
    :param position: byte offset in it, 4 is its beginning (templated).
    """

    template_fields: Sequence[str] = ("conn_id", "file", "position")

    def __init__(self, *, file: str, position: int | str = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.position = position

    def trigger(self) -> PositionTrigger:
        return PositionTrigger(
            conn_id=self.conn_id,
            position={"kind": "mysql", "file": self.file, "pos": int(self.position), "gtids": None, "server_id": None},
            asked={"file": self.file, "position": int(self.position)},
            poke_interval=float(self.poke_interval),
            timeout=float(self.timeout),
        )

    def prepared(self) -> DataEndpoint:
        return CdcMySqlHook(self.conn_id).endpoint()
