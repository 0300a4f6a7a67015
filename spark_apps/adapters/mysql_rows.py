"""Rows of MySQL for Spark: in chunks of the key, of some keys, and all of a table at one exact position."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.chunk import Chunk, Key, TableSize, batches
from airflow_cdc.decisions.compare.part import Part
from airflow_cdc.sources.mysql.encoding import outside_sql
from airflow_cdc.sources.mysql.session import Session
from airflow_cdc.sources.mysql.sql import boundary_sql, chunk_predicate, key_predicate
from airflow_cdc.spark_apps.adapters.jdbc import groups_ahead, query_frame, values_outside_hash
from airflow_cdc.spark_apps.adapters.mysql_exact import exact_view, open_once
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options, rows_frame
from airflow_cdc.spark_apps.adapters.mysql_values import from_read
from airflow_cdc.spark_apps.adapters.mysql_view import KEYS_AT_ONCE, MySqlView, open_view, open_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.sources.mysql.client import BinlogSource
    from airflow_cdc.sources.mysql.facts import BinlogFacts

VISIBLE_SECONDS = 60.0


class MySqlRows:
    """Rows of a MySQL server, as ports.RowReader."""

    exact_views = False
    fresh_estimates = "SET @@SESSION.information_schema_stats_expiry = 0"  # else a day old

    def __init__(self, source: BinlogSource[BinlogFacts]) -> None:
        self._source = source
        self._last_init = ("", "")
        self._known = dict[str, TableSize]()

    def chunks(
        self, table: Table, after: Key | None, rows: int, *, at: Watermark, ahead: int, beside: bool = True
    ) -> Generator[list[Chunk]]:
        """See ports.RowReader. Boundaries are looked up one group ahead, while Spark reads the group before."""
        with closing(self._source.connect()) as connection:
            session = Session(connection, self._source.where)
            session.run(self._init(at), doing="check that this is the watermark's server")
            yield from groups_ahead(lambda low: _chunk_end(session, table, low, rows), after, ahead, beside=beside)

    def rows(self, spark: SparkSession, table: Table, chunks: Sequence[Chunk], *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        return rows_frame(spark, self._options(table, at), table, [chunk_predicate(table, c.lo, c.hi) for c in chunks])

    def rows_of_keys(
        self, spark: SparkSession, table: Table, keys: Sequence[str], *, at: Watermark | None
    ) -> DataFrame:
        """See ports.RowReader."""
        if at is None:
            at = self._source.position()
            self._source.wait_visible(at, VISIBLE_SECONDS)
        predicates = [key_predicate(table, some) for some in batches(sorted(keys), KEYS_AT_ONCE)] or ["FALSE"]
        return rows_frame(spark, self._options(table, at), table, predicates)

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """See ports.RowReader.

        The table is locked against writes only until Spark's connection has opened its view. Its init statement then
        takes a named lock, and the holder of the table lock waits for that. A task that Spark runs again later fails.
        """
        token = f"cdc_{uuid.uuid4().hex}"
        init = f"{self._source.init_statement(at)}; {open_once(token, self._source.version())}"
        fetched = self._size(table).fetched_rows()
        frame = rows_frame(spark, jdbc_options(self._source, init, fetched, several_statements=True), table)
        frame.schema  # noqa: B018 - asks the server for the columns now, not while the table is locked
        return exact_view(self._source, table, token, lambda: use(frame))

    def outside_hash(self, spark: SparkSession, table: Table, part: Part, *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        raw = query_frame(spark, self._options(table, at), f"({outside_sql(table, part)}) AS cdc_rest")
        return values_outside_hash(raw, table, from_read)

    def view(self, table: Table, *, at: Watermark) -> AbstractContextManager[MySqlView]:
        """See ports.RowReader."""
        return open_view(self._source, table, self._init(at), exact=self.exact_views)

    def views(self, tables: Sequence[Table], *, at: Watermark) -> AbstractContextManager[Sequence[MySqlView]]:
        """See ports.RowReader."""
        return open_views(self._source, tables, self._init(at), exact=self.exact_views)

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """See ports.RowReader."""
        with self._source.session() as session:
            return MySqlView(session, table).bounds()

    def wait_visible(self, at: Watermark, timeout: float) -> None:
        """See ports.RowReader."""
        self._source.wait_visible(at, timeout)

    def sizes(self, tables: Sequence[Table]) -> dict[str, TableSize]:
        """See ports.RowReader."""
        with self._source.session() as session:
            if self.fresh_estimates:
                session.run(self.fresh_estimates, doing="ask for fresh estimates")
            self._known |= {table.full_name: size_of(session, table) for table in tables}
        return {table.full_name: self._known[table.full_name] for table in tables}

    def _size(self, table: Table) -> TableSize:
        return self._known.get(table.full_name) or self.sizes([table])[table.full_name]

    def _options(self, table: Table, at: Watermark) -> dict[str, str]:
        return jdbc_options(self._source, self._init(at), self._size(table).fetched_rows())

    def _init(self, at: Watermark) -> str:
        """The statement with which a connection proves its server. Making it takes a connection, so the last one is kept."""
        last_hash, init = self._last_init
        if last_hash != at.hash:
            init = self._source.init_statement(at)
            self._last_init = (at.hash, init)
        return init


def _chunk_end(session: Session, table: Table, low: Key | None, rows: int) -> Key | None:
    """The key that ends a chunk of `rows` rows after `low`, by rank along the key's index; None for the last one."""
    ends = session.rows(boundary_sql(table, low, rows), doing="look up a chunk boundary")
    return ends[0].in_order() if ends else None


def size_of(session: Session, table: Table) -> TableSize:
    query = (
        "SELECT TABLE_ROWS AS n, DATA_LENGTH AS b FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    answer = session.rows(query, (table.schema, table.name), doing="estimate the table's size")
    return TableSize(answer[0].number_or_null("n") or 0, answer[0].number_or_null("b") or 0) if answer else TableSize()
