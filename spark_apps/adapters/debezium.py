"""Debezium's events for Spark applications: the one decoder, with the frame and the values that the connector's settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_cdc.connectors.debezium.events.appended import Appended
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.connectors.debezium.null_defaults import nulls_at_risk
from airflow_cdc.connectors.debezium.schema_changes import read_statements
from airflow_cdc.events.decoder import Plan
from airflow_cdc.events.encoder import encoder
from airflow_cdc.sources.mariadb.position import place_of
from airflow_cdc.spark_apps.events import SIDES, InMemory, Texts, decode, want_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.events.encoder import Encoder
    from airflow_cdc.events.frame import Seal, Standing
    from airflow_cdc.events.record import Record, Want
    from airflow_cdc.spark_apps.ports import Defaults

# records of the schema-change topic, and where they are → their DDL, by the kind of source; a log of PostgreSQL has none
_STATEMENTS: Final[Mapping[str, Callable[[Iterable[TopicRecord], str], Sequence[Ddl]]]] = {
    "mysql": read_statements,
    "mariadb": partial(read_statements, places=place_of),
}


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a Debezium connector. Satisfies ports.EventDecoder and ports.DecodesFew.

    `texts`: asks the registry that its converters write schemas to; None where they write none.
    """

    routing: ConnectorSettings
    texts: Texts | None = None

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = SIDES) -> DataFrame:
        """See ports.EventDecoder."""
        topic = self.routing.topic_of(table.full_name)
        return decode(raw, topic, self._plan(table, want_of(sides)), sides, self.texts)

    def appended(self, raw: DataFrame, table: Table) -> DataFrame:
        """See ports.ReadsAppended."""
        sides = ("after",)
        plan = Plan(table, Appended(), self.routing.values, want_of(sides))
        return decode(raw, self.routing.topic_of(table.full_name), plan, sides)

    def plain(self, table: Table) -> InMemory:
        """See ports.DecodesFew."""
        return InMemory(partial(self._plan, table), self.texts)

    def encoder(self, table: Table) -> Encoder:
        """See ports_corrections.WritesEvents."""
        return encoder(table, self.routing.values)

    def sealer(self, table: Table, template: Record, place: Standing) -> Seal:
        """See ports_corrections.WritesEvents."""
        frame = frame_of(self.routing, table.full_name)
        schemas = {} if self.texts is None else self.texts(sorted(frame.schemas_of(template)))
        return frame.sealer(table, self.routing.values, template, schemas, place)

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """See ports.EventDecoder."""
        reader = _STATEMENTS.get(self.routing.source)
        return () if reader is None else reader(records, where)

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:
        """See ports.EventDecoder."""
        return nulls_at_risk(table, defaults)

    def _plan(self, table: Table, want: Want) -> Plan:
        return Plan(table, frame_of(self.routing, table.full_name), self.routing.values, want)
