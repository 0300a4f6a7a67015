"""A PostgreSQL server for Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.schema_change import SchemaChange, refused
from airflow_cdc.decisions.compare.chunk import Chunk, Key, TableSize, batches
from airflow_cdc.decisions.compare.part import Part
from airflow_cdc.sources.postgres.digests import KEY_HASH, outside_sql
from airflow_cdc.sources.postgres.position import PgPosition, read_position
from airflow_cdc.sources.postgres.quoting import quote_table
from airflow_cdc.sources.postgres.sql import boundary_sql, chunk_predicate, key_predicate
from airflow_cdc.sources.postgres.visible import covered
from airflow_cdc.spark_apps.adapters.jdbc import groups_ahead, one_each, query_frame, values_outside_hash
from airflow_cdc.spark_apps.adapters.postgres_jdbc import NO_ROWS, jdbc_options, rows_frame
from airflow_cdc.spark_apps.adapters.postgres_values import from_read
from airflow_cdc.spark_apps.adapters.postgres_view import (
    KEYS_AT_ONCE,
    PostgresView,
    open_view,
    position_of,
    read_only,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Covered, JsonObject, Watermark
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.sources.postgres.client import PostgresSource
    from airflow_cdc.sources.postgres.session import Session
    from airflow_cdc.spark_apps.ports import Defaults

VISIBLE_SECONDS = 60.0
BLOCKS_EACH = 8192  # 64 MB of a table without a key is one partition


class PostgresLog:
    """What positions of PostgreSQL mean, as ports.SourceLog. Its log holds no DDL."""

    def read_position(self, value: JsonObject) -> PgPosition:
        """See ports.SourceLog."""
        return read_position(value)

    def covered(self, watermark: Watermark | None) -> Covered:
        """See ports.SourceLog."""
        return covered(watermark)

    def judge_ddl(self, stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:  # noqa: ARG002
        """See ports.SourceLog: the log holds no DDL, so a changed definition always requires a re-read."""
        if stored is None or stored == now:
            return SchemaChange()
        raise refused(now, "its definition changed, and the log does not say how")


class PostgresReader(PostgresLog):
    """A PostgreSQL server for Spark, as ports.RowReader."""

    key_hash = KEY_HASH
    exact_views = True

    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._known = dict[str, TableSize]()

    def chunks(
        self, table: Table, after: Key | None, rows: int, *, at: Watermark, ahead: int, beside: bool = True
    ) -> Generator[list[Chunk]]:
        """See ports.RowReader. Boundaries are looked up one group ahead, while Spark reads the group before."""
        with read_only(self._source, at) as session:
            yield from groups_ahead(lambda low: _chunk_end(session, table, low, rows), after, ahead, beside=beside)

    def rows(self, spark: SparkSession, table: Table, chunks: Sequence[Chunk], *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        predicates = [chunk_predicate(table, chunk.lo, chunk.hi) for chunk in chunks]
        return rows_frame(spark, self._options(table, at), table, predicates)

    def rows_of_keys(
        self, spark: SparkSession, table: Table, keys: Sequence[str], *, at: Watermark | None
    ) -> DataFrame:
        """See ports.RowReader."""
        if at is None:
            at = self._source.position()
            self._source.wait_visible(at, VISIBLE_SECONDS)
        predicates = [key_predicate(table, some) for some in batches(sorted(keys), KEYS_AT_ONCE)] or [NO_ROWS]
        return rows_frame(spark, self._options(table, at), table, predicates)

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """See ports.RowReader. All partitions read under one exported snapshot; nothing is locked and nobody waits."""
        with read_only(self._source, at) as session, ThreadPoolExecutor(1) as pool:
            snapshot = session.row("SELECT pg_catalog.pg_export_snapshot() AS name", doing="export the read view")
            position = position_of(session)
            options = jdbc_options(self._source, at, self._size(table).fetched_rows(), str(snapshot["name"]))
            frame = rows_frame(spark, options, table, _places(session, table), place=True)
            pool.submit(use, frame).result()
        return position

    def outside_hash(self, spark: SparkSession, table: Table, part: Part, *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        raw = query_frame(spark, self._options(table, at), f"({outside_sql(table, part)}) AS cdc_rest")
        return values_outside_hash(raw, table, from_read)

    def view(self, table: Table, *, at: Watermark) -> AbstractContextManager[PostgresView]:
        """See ports.RowReader."""
        return open_view(self._source, table, at)

    def views(self, tables: Sequence[Table], *, at: Watermark) -> AbstractContextManager[Sequence[PostgresView]]:
        """See ports.RowReader. Each has a position of its own, and so a connection."""
        return one_each(self.view, tables, at)

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """See ports.RowReader."""
        with self._source.session() as session:
            return PostgresView(session, table).bounds()

    def wait_visible(self, at: Watermark, timeout: float) -> None:
        """See ports.RowReader."""
        self._source.wait_visible(at, timeout)

    def sizes(self, tables: Sequence[Table]) -> dict[str, TableSize]:
        """See ports.RowReader."""
        with self._source.session() as session:
            self._known |= {table.full_name: _size_of(session, table) for table in tables}
        return {table.full_name: self._known[table.full_name] for table in tables}

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """See ports.RowReader."""
        _definitions, defaults = self._source.definitions_and_defaults([table.full_name for table in tables])
        return defaults

    def _size(self, table: Table) -> TableSize:
        return self._known.get(table.full_name) or self.sizes([table])[table.full_name]

    def _options(self, table: Table, at: Watermark) -> dict[str, str]:
        return jdbc_options(self._source, at, self._size(table).fetched_rows())


def _chunk_end(session: Session, table: Table, low: Key | None, rows: int) -> Key | None:
    """The key that ends a chunk of `rows` rows after `low`, by rank along the key's index; None for the last one."""
    ends = session.rows(boundary_sql(table, low, rows), doing="look up a chunk boundary")
    return ends[0].in_order() if ends else None


def _places(session: Session, table: Table) -> list[str]:
    """Conditions that cut a table by where its rows are stored: every row of one view meets one of them."""
    # of a partitioned table the size is 0: it is read as one
    sql = "SELECT pg_catalog.pg_relation_size(%s::regclass) / pg_catalog.current_setting('block_size')::int AS blocks"
    blocks = session.row(sql, (quote_table(table),), doing="read the size of the table").number("blocks")
    ends = [f"'({block},0)'::tid" for block in range(BLOCKS_EACH, blocks, BLOCKS_EACH)]
    if not ends:
        return []
    between = [f"ctid >= {low} AND ctid < {high}" for low, high in pairwise(ends)]
    return [f"ctid < {ends[0]}", *between, f"ctid >= {ends[-1]}"]


def _size_of(session: Session, table: Table) -> TableSize:
    """Of a partitioned table the bytes are 0: not known."""
    sql = (
        "SELECT reltuples::bigint AS n, pg_catalog.pg_table_size(oid) AS b FROM pg_catalog.pg_class"
        " WHERE oid = %s::regclass"
    )
    answer = session.row(sql, (quote_table(table),), doing="estimate the table's size")
    return TableSize(max(0, answer.number("n")), answer.number_or_null("b") or 0)
