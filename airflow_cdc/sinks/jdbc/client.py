"""The tables that a JDBC sink connector fills: read as the source of their own kind reads tables, and never written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import SchemaError, SinkError, SourceError, UsageError
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.sinks.fed import FedSink
from airflow_cdc.sinks.jdbc.config import Place, SinkConfig
from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint
from airflow_cdc.sinks.jdbc.mapping import Paired, paired

if TYPE_CHECKING:
    from airflow_cdc.core.ports import Feeder, Source
    from airflow_cdc.core.table import Table

# a page's look at a table waits no longer for the number of its rows
_COUNT_SECONDS: Final = 2.0


class JdbcSink(FedSink):
    """The copies of a pipeline's tables. Raises SinkError for a database that fails or refuses.

    `source_database`: see SinkConfig.
    """

    def __init__(
        self,
        endpoint: JdbcEndpoint,
        database: Source | None = None,
        feeder: Feeder | None = None,
        source_database: str = "",
    ) -> None:
        self.endpoint, self._source_database = endpoint, source_database
        self.where = endpoint.where
        self._database, self._feeder = database, feeder

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        database = self._database and self._database.limited(limits)
        feeder = self._feeder and self._feeder.limited(limits)
        return type(self)(self.endpoint.limited(limits), database, feeder, self._source_database)

    @property
    def database(self) -> Source:
        """The database, read as a source of its kind."""
        if self._database is None:
            raise UsageError("this sink was opened without its database", where=self.where)
        return self._database

    def exists(self, namespace: str, table: str) -> bool:
        """Whether there is a table at this place of the database."""
        return self._definition(Place(namespace, table)) is not None

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the copy exists, and how many rows it has if they are counted soon."""
        place = Place(namespace, table)
        if self._definition(place) is None:
            return SinkTableFacts(exists=False)
        return SinkTableFacts(exists=True, rows=self._count(place))

    def row_count(self, namespace: str, table: str, version: int) -> int | None:  # noqa: ARG002
        """None: a database has no versions."""
        return None

    def places(self, topics: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Table → where its copy is, by the sink connector's settings. `topics`: table → its topic. Raises ConnectorError."""
        config = self.config()
        return {table: config.place(table, topic) for table, topic in topics.items()}

    def config(self) -> SinkConfig:
        """The sink connector's settings. Raises ConnectorError."""
        if self._feeder is None:
            raise UsageError("this sink was opened without its connector", where=self.where)
        settings = self._feeder.settings()
        return SinkConfig(settings, self.endpoint.database, self.endpoint.namespace, self._source_database)

    def losses(self, definitions: Mapping[str, Table], topics: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """(table, column, why it is not compared), of the copies that exist."""
        config = self.config()
        for name, table in definitions.items():
            if (copy := self._definition(config.place(name, topics[name]))) is not None:
                yield from ((name, *loss) for loss in paired(table, copy, config.column).losses)

    def pair(self, table: Table, topic: str) -> Paired:
        """A table of the source and its copy, column by column. Raises SchemaError where rows cannot be told apart."""
        config = self.config()
        place = config.place(table.full_name, topic)
        copy = self._definition(place)
        if copy is None:
            raise SinkError(
                f"the sink has no table {place.full_name}",
                where=f"table {table.full_name}, {self.where}",
                todo="See whether the sink connector runs and has written a row of it, or create the table.",
            )
        pair = paired(table, copy, config.column)
        if table.keyless or len(pair.source.key) < len(table.key):
            loss = next((f"{name}: {why}" for name, why in pair.losses if name in table.key), "the table has no key")
            raise SchemaError(
                f"rows cannot be compared by their key: {loss}",
                where=f"table {table.full_name} and {place.full_name}",
                todo="Give the copy a key column that holds the source's values.",
            )
        return pair

    def _definition(self, place: Place) -> Table | None:
        try:
            return self.database.definitions([place.full_name]).get(place.full_name)
        except SourceError as error:
            raise _explained(error) from error

    def _count(self, place: Place) -> int | None:
        try:
            return self.database.count_rows(place.full_name, _COUNT_SECONDS)
        except SourceError as error:
            raise _explained(error) from error


def _explained(error: SourceError) -> SinkError:
    return SinkError(error.what, where=error.where, todo=error.todo)
