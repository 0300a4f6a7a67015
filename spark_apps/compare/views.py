"""The two sides of a comparison: the source in one read view, and the sink pinned to one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.cursors import Cursor

from airflow_cdc.core.chunk import quote_ident, quote_table
from airflow_cdc.core.compare.digest import (
    Leaf,
    LeafScheme,
    both,
    bounds_sql,
    choose_scheme,
    leads_with_integer,
    mysql_digest_sql,
    mysql_rows_sql,
    read_leaves,
    spark_digest_sql,
    spark_rows_sql,
)
from airflow_cdc.core.compare.part import WHOLE, Part
from airflow_cdc.core.compare.verdict import Image
from airflow_cdc.core.encoding import mysql_key_text, mysql_row_hash, not_pushed, spark_key_text, spark_row_hash
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import read_sql
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.mysql.key_text import key_predicate
from airflow_cdc.sources.mysql.session import Session
from airflow_cdc.spark_apps.driver.functions import json_canonical
from airflow_cdc.spark_apps.driver.views import view_of
from airflow_cdc.spark_apps.snapshot.read import locked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Keys per statement: each literal has up to a few hundred bytes, far below max_allowed_packet's default.
KEYS_AT_ONCE = 1000
VIEW_SECONDS = 7200.0

# key text → every row image that stands under it; a table without a key has its row hash there
Rows = dict[str, list[Image]]


def unpushed(table: Table) -> tuple[str, ...]:
    """Columns outside the row hash; an image has their canonical texts after the hash, in this order."""
    return tuple(name for name, _ in not_pushed(table))


@dataclass(frozen=True, slots=True)
class SourceView:
    """The source in one transaction's read view: every statement sees the same rows.

    `position`, of a view on a table without a key: every change of the table at or before it is in the view, no other.
    """

    session: Session
    position: Watermark | None = None

    def leaves(self, table: Table, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """The digest of every leaf, in one scan."""
        return read_leaves(self._tuples(mysql_digest_sql(table, scheme, part.mysql), f"scan {table.full_name}"))

    def count(self, table: Table) -> int:
        """How many rows the table has."""
        ((rows,),) = self._tuples(f"SELECT COUNT(*) FROM {quote_table(table)}", f"count {table.full_name}")
        return int(rows)

    def scheme(self, table: Table, rows: int) -> LeafScheme:
        """A scheme with leaves of the usual size for about `rows` rows."""
        return choose_scheme(table, rows, self.bounds(table))

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """The smallest and greatest id, of a table whose key begins with one; None for any other, or an empty one."""
        if not leads_with_integer(table):
            return None
        ((low, high),) = self._tuples(bounds_sql(table), f"read the key's ends of {table.full_name}")
        return None if low is None else (int(low), int(high))

    def hashes(
        self, table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE
    ) -> list[tuple[str, str]]:
        """(key text, hash) of every row in these leaves."""
        found = self._tuples(mysql_rows_sql(table, scheme, leaves, part.mysql), f"read leaves of {table.full_name}")
        return [(_text(key), _text(h)) for key, h in found]

    def images(self, table: Table, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """The rows under these key texts (of a table without a key: under these hashes)."""
        wanted, found = set(keys), defaultdict(list)
        columns = [mysql_key_text(table), mysql_row_hash(table), *(read_sql(table.column(c)) for c in unpushed(table))]
        for some in batches(sorted(wanted), KEYS_AT_ONCE):
            where, asked = both(_where(table, some), part.mysql), set(some)
            sql = f"SELECT {', '.join(columns)} FROM {quote_table(table)} WHERE {where}"
            for key, row_hash, *texts in self._tuples(sql, f"read keys of {table.full_name}"):
                # a case-insensitive collation finds more than was asked for, and what another batch asks for too
                if _text(key) in asked:
                    found[_text(key)].append((_text(row_hash), *(_canonical(text) for text in texts)))
        return dict(found)

    def _tuples(self, sql: str, doing: str) -> list[tuple[Any, ...]]:
        try:
            with self.session.connection.cursor(Cursor) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            raise explain(error, where=self.session.where, doing=doing) from error


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _canonical(text: Any) -> str | None:
    return None if text is None else json_canonical(_text(text))


def _where(table: Table, keys: Sequence[str]) -> str:
    if table.keyless:
        hashes = ", ".join(f"'{int(h, 16):064x}'" for h in keys)
        return f"{mysql_row_hash(table)} IN ({hashes})"
    return key_predicate(table, keys)


def batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """`items` in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextmanager
def source_view(source: MySqlSource, init_statement: str, table: Table) -> Iterator[SourceView]:
    """One read view on a connection that proved its server (INV 9); ends with the block.

    Of a table without a key the view's exact position is known: the table is locked for the moment in which the view
    opens. Copies of one row image cannot be told apart, so on a busy image nothing less would ever settle (INV 19).
    """
    with source.session(read_timeout=VIEW_SECONDS) as session:
        session.run(init_statement, doing="check that this is the watermark's server")
        if not table.keyless:
            _open_view(session)
            yield SourceView(session)
            return
        with locked(source, table):
            position = source.position()
            _open_view(session)
        yield SourceView(session, position)


def _open_view(session: Session) -> None:
    session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT", doing="open a read view")


@dataclass(frozen=True, slots=True)
class SinkView:
    """A stage pinned to one snapshot: whatever is committed later, this is what is read (INV 4)."""

    spark: SparkSession
    name: str
    snapshot_id: int

    @property
    def relation(self) -> str:
        """The pinned table in Spark SQL."""
        return f"{self.name} VERSION AS OF {self.snapshot_id}"

    def frame(self) -> DataFrame:
        """All rows."""
        return self.spark.sql(f"SELECT * FROM {self.relation}")

    def leaves(self, table: Table, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """The digest of every leaf, in one scan."""
        sql = spark_digest_sql(table, scheme, self.relation, part.spark)
        return read_leaves(tuple(row) for row in self.spark.sql(sql).collect())

    def count(self) -> int:
        """How many rows the snapshot has."""
        return int(self.frame().count())

    def hashes(
        self, table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE
    ) -> list[tuple[str, str]]:
        """(key text, hash) of every row in these leaves."""
        found = self.spark.sql(spark_rows_sql(table, scheme, leaves, self.relation, part.spark)).collect()
        return [(str(row[0]), str(row[1])) for row in found]

    def images_frame(self, table: Table, part: Part = WHOLE) -> DataFrame:
        """(key_text, h, x0, x1 …) of all rows; x are the columns outside the hash, canonical as they are stored."""
        others = "".join(f", {quote_ident(name)} AS x{at}" for at, name in enumerate(unpushed(table)))
        where = f" WHERE {part.spark}" if part.spark else ""
        return self.spark.sql(
            f"SELECT {spark_key_text(table)} AS key_text, {spark_row_hash(table)} AS h{others} FROM {self.relation}{where}"
        )

    def images(self, table: Table, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """The rows under these key texts."""
        wanted, found = sorted(set(keys)), defaultdict(list)
        if not wanted:
            return {}
        asked = self.spark.createDataFrame([(key,) for key in wanted], "key_text string")
        with view_of(asked) as view, view_of(self.images_frame(table, part)) as rows:
            sql = f"SELECT /*+ BROADCAST(k) */ r.* FROM {rows} r LEFT SEMI JOIN {view} k ON r.key_text = k.key_text"
            for key, *image in self.spark.sql(sql).collect():
                found[key].append(tuple(image))
        return dict(found)
