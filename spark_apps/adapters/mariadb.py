"""A MariaDB server for Spark: MySQL's reader, with read views that report their own position, so nothing is locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SourceError
from airflow_cdc.decisions.compare.leaves import KeyHash
from airflow_cdc.sources.mariadb.log import OPEN_VIEW, Place, as_watermark, open_view, position_at, settled_prepares
from airflow_cdc.sources.mariadb.position import MariaDbPosition, covered, read_position
from airflow_cdc.sources.mysql.schema_steps import judge_ddl
from airflow_cdc.spark_apps.adapters.jdbc import one_each
from airflow_cdc.spark_apps.adapters.mariadb_exact import placed_rows
from airflow_cdc.spark_apps.adapters.mysql import source_defaults
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options
from airflow_cdc.spark_apps.adapters.mysql_rows import MySqlRows
from airflow_cdc.spark_apps.adapters.mysql_view import VIEW_SECONDS, MySqlView

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Covered, JsonObject, Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.decisions.apply.schema_change import SchemaChange
    from airflow_cdc.sources.mariadb.client import MariaDbSource
    from airflow_cdc.spark_apps.ports import Defaults


class MariaDbLog:
    """What positions and DDL of MariaDB mean, as ports.SourceLog."""

    def read_position(self, value: JsonObject) -> MariaDbPosition:
        """See ports.SourceLog."""
        return read_position(value)

    def covered(self, watermark: Watermark | None) -> Covered:
        """See ports.SourceLog."""
        return covered(watermark)

    def judge_ddl(self, stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:
        """See ports.SourceLog."""
        return judge_ddl(stored, statements, now)


class MariaDbReader(MySqlRows, MariaDbLog):
    """A MariaDB server for Spark, as ports.RowReader."""

    key_hash = KeyHash.CRC32
    exact_views = True
    fresh_estimates = ""  # it keeps none

    def __init__(self, source: MariaDbSource) -> None:
        super().__init__(source)

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """See ports.RowReader. Spark's own connection opens the view, and its rows carry the view's position."""
        init = f"{self._source.init_statement(at)}; {OPEN_VIEW}"
        fetched = self._size(table).fetched_rows()
        frame, place = placed_rows(spark, jdbc_options(self._source, init, fetched, several_statements=True), table)
        with self._source.session() as session:
            prepares = settled_prepares(session)
        use(frame)
        if place().prepares != prepares:
            raise SourceError(
                f"an XA transaction was prepared when the read view of {table.full_name} was opened",
                where=self._source.where,
                todo="Try again.",
            )
        return self._watermark(table, place(), at)

    def view(self, table: Table, *, at: Watermark) -> AbstractContextManager[MySqlView]:
        """See ports.RowReader."""
        return self._view(table, at)

    def views(self, tables: Sequence[Table], *, at: Watermark) -> AbstractContextManager[Sequence[MySqlView]]:
        """See ports.RowReader. Each has a position of its own, and so a connection."""
        return one_each(self.view, tables, at)

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """See ports.RowReader."""
        return source_defaults(self._source, tables)

    @contextmanager
    def _view(self, table: Table, at: Watermark) -> Iterator[MySqlView]:
        with self._source.session(read_timeout=VIEW_SECONDS) as session:
            session.run(self._init(at), doing="check that this is the watermark's server")
            yield MySqlView(session, table, self._watermark(table, open_view(session), at))

    def _watermark(self, table: Table, place: Place, at: Watermark) -> Watermark:
        """The position of a view, on the server of `at`: the view's own connection proved that it is the same one."""
        with self._source.session() as session:
            position = position_at(session, place.file, place.pos)
            here = as_watermark(position, self._source.identity())
        if here.server != at.server:
            raise SourceError(
                f"the server was restarted while {table.full_name} was read",
                where=self._source.where,
                todo="Clear the task: it reads again.",
            )
        return here
