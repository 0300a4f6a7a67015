"""Waits until everything after a GTID set can be read from the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.sensors.base import AvailabilitySensor
from airflow_cdc.triggers.availability import PositionTrigger

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import DataEndpoint


class GtidSetAvailableSensor(AvailabilitySensor):
    """Succeeds when the server has executed `gtid_set` and purged nothing beyond it; fails at once if it has purged more.

    :param gtid_set: the set that a consumer stored, e.g. a connector's offset (templated).
    """

    template_fields: Sequence[str] = ("conn_id", "gtid_set")

    def __init__(self, *, gtid_set: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gtid_set = gtid_set

    def trigger(self) -> PositionTrigger:
        return PositionTrigger(
            conn_id=self.conn_id,
            position={"kind": "mysql", "file": "", "pos": 0, "gtids": self.gtid_set, "server_id": None},
            asked={"gtid_set": self.gtid_set},
            poke_interval=float(self.poke_interval),
            timeout=float(self.timeout),
        )

    def prepared(self) -> DataEndpoint:
        return CdcMySqlHook(self.conn_id).endpoint()
