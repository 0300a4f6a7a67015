"""Canal's events for Spark applications: the one decoder, with the frame and the values that the server's settings say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_cdc.connectors.canal.events.frames import Flat, Packets
from airflow_cdc.connectors.canal.events.packets import check_installed
from airflow_cdc.connectors.canal.statements import read_statements
from airflow_cdc.events.decoder import Plan
from airflow_cdc.spark_apps.events import SIDES, InMemory, decode, want_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.canal.capture import CanalCapture
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.events.record import Want
    from airflow_cdc.spark_apps.ports import Defaults


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a Canal server that reads MySQL. Satisfies ports.EventDecoder and ports.DecodesFew."""

    routing: CanalCapture

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        return decode(raw, self.routing.topic_of(table.full_name), self._plan(table, want_of(sides)), sides)

    def plain(self, table: Table) -> InMemory:
        """See ports.DecodesFew. Changes of other tables, which share the topic, are passed over."""
        return InMemory(partial(self._plan, table, others=False))

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """See ports.EventDecoder."""
        return read_statements(records, where)

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:  # noqa: ARG002
        """See ports.EventDecoder: NULL arrives as NULL."""
        return ()

    def _plan(self, table: Table, want: Want, *, others: bool = True) -> Plan:
        """Raises ConfigError if packets are to be read, and the package that reads protobuf is not installed."""
        if self.routing.protobuf:
            check_installed()
        frame = Packets(others) if self.routing.protobuf else Flat(others)
        return Plan(table, frame, self.routing.values, want)
