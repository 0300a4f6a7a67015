"""The change logs that Iceberg's sink connector appends to: found by its settings, read, and never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import SinkError, UsageError
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.sinks.fed import FedSink
from airflow_cdc.sinks.iceberg.catalog import MissingTableError
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg_changelog.commits import committed_up_to, written
from airflow_cdc.sinks.iceberg_changelog.config import ChangelogConfig, Form, Place

if TYPE_CHECKING:
    from airflow_cdc.core.ports import Feeder, Transport
    from airflow_cdc.core.table import Table


@dataclass(frozen=True, slots=True)
class Log:
    """A table of the source and the log of its changes. The rows that are left of the log have the source's columns."""

    source: Table
    place: Place
    form: Form

    @property
    def copy(self) -> Table:
        """The definition of the rows that are left."""
        return self.source

    @property
    def losses(self) -> Sequence[tuple[str, str]]:
        """(column, why it is not compared): none."""
        return ()


class ChangelogSink(FedSink):
    """The change logs of a pipeline's tables. Raises SinkError, and UnknownStateError if the catalog cannot be read."""

    def __init__(self, endpoint: IcebergEndpoint, feeder: Feeder | None = None) -> None:
        self.endpoint, self._feeder = endpoint, feeder
        self.lake = Lake(endpoint.name, dict(endpoint.properties))
        self.where = endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits), self._feeder and self._feeder.limited(limits))

    def spark_conf(self) -> dict[str, str]:
        """Spark's settings for the catalog; they may hold credentials."""
        return self.lake.spark_conf()

    def exists(self, namespace: str, table: str) -> bool:
        """Whether there is a table at this place of the catalog."""
        return self.lake.exists(namespace, table)

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the log exists. How many rows are left of it takes a comparison to know."""
        return SinkTableFacts(exists=self.lake.exists(namespace, table))

    def row_count(self, namespace: str, table: str, version: int) -> int | None:  # noqa: ARG002 - as Sink asks
        """None: a version counts changes, not rows."""
        return None

    def config(self) -> ChangelogConfig:
        """The sink connector's settings. Raises ConnectorError."""
        if self._feeder is None:
            raise UsageError(
                "this sink was opened without its connector",
                where=self.where,
                todo="Open it as a part of its pipeline.",
            )
        return ChangelogConfig(self._feeder.settings(), self._feeder.name)

    def places(self, topics: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Table → where its log is, by the sink connector's settings. `topics`: table → its topic."""
        config = self.config()
        return {table: self._place(config, table, topic) for table, topic in topics.items()}

    def losses(
        self,
        definitions: Mapping[str, Table],  # noqa: ARG002 - as sinks with copies are asked
        topics: Mapping[str, str],  # noqa: ARG002
    ) -> Iterator[tuple[str, str, str]]:
        """(table, column, why it is not compared): none."""
        return iter(())

    def pair(self, table: Table, topic: str) -> Log:
        """A table of the source and its log. Raises SinkError where there is none, or it doesn't say what is newer."""
        config = self.config()
        if faults := [f"{name} is {means}" for name, means in (*config.faults(), *config.table_faults(table, topic))]:
            raise SinkError(
                f"the change log of {table.full_name} can't be followed: {'; '.join(faults)}",
                where=self.where,
                todo="Correct the sink connector's settings.",
            )
        place = self._place(config, table.full_name, topic)
        if not self.exists(*place):
            raise SinkError(
                f"the catalog has no table {place.full_name}",
                where=f"table {table.full_name}, {self.where}",
                todo="See whether the sink connector runs and has written a change of it.",
            )
        return Log(table, place, config.form)

    def uncommitted(self, transport: Transport, topics: Mapping[str, str]) -> dict[str, int]:
        """Table → how many files the sink connector has written for it that are not in it yet (INV 48)."""
        config = self.config()
        states = transport.topic_states([config.control])
        if config.control not in states:
            return {}
        spans = states[config.control].partitions
        places = {table: self._up_to(self._place(config, table, topic), config) for table, topic in topics.items()}
        low = {
            partition: (max(first, min((up_to.get(partition, 0) for _, up_to in places.values()), default=0)), end)
            for partition, (first, end) in spans.items()
        }
        ranges = {partition: (begin, end) for partition, (begin, end) in low.items() if begin < end}
        if not ranges:
            return {}
        files = list(written(transport.records(config.control, ranges), config.group, config.control))
        counts = {
            table: sum(
                one.files for one in files if one.table == identifier and one.offset >= up_to.get(one.partition, 0)
            )
            for table, (identifier, up_to) in places.items()
        }
        return {table: count for table, count in counts.items() if count}

    def _up_to(self, place: Place, config: ChangelogConfig) -> tuple[tuple[str, ...], Mapping[int, int]]:
        """A log's identifier, and up to where in the control topic it has what was written."""
        identifier = (*place.namespace.split("."), place.name)
        try:
            metadata = self.lake.table(*place).metadata
        except MissingTableError:
            return identifier, {}
        return identifier, committed_up_to(metadata, config.committed) or {}

    def _place(self, config: ChangelogConfig, table: str, topic: str) -> Place:
        place = config.place(table, topic)
        if place is None:
            raise SinkError(
                f"the sink connector's settings lead {table} to no table that is known",
                where=self.where,
                todo="Set iceberg.tables.route-field to _cdc.target or _cdc.source, or let it read one topic.",
            )
        return place
