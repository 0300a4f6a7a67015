"""A table of MySQL in one transaction's read view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.cursors import Cursor

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.chunk import batches
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.decisions.compare.leaves import Leaf, LeafScheme, read_leaves
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.row_sql import both
from airflow_cdc.sources.mysql import encoding
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.mysql.quoting import quote_table
from airflow_cdc.sources.mysql.sql import key_predicate
from airflow_cdc.sources.mysql.types import read_sql

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.sources.mysql.client import BinlogSource
    from airflow_cdc.sources.mysql.facts import BinlogFacts
    from airflow_cdc.sources.mysql.session import Session

# Keys per statement: each literal has up to a few hundred bytes, far below max_allowed_packet's default.
KEYS_AT_ONCE = 1000
VIEW_SECONDS = 7200.0
LOCK_WAIT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class MySqlView:
    """One table in one transaction's read view, as ports.SourceView. Tables that share a connection take `turn`s."""

    session: Session
    table: Table
    position: Watermark | None = None
    turn: Lock = field(default_factory=Lock, repr=False, compare=False)

    def leaves(self, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """See ports.SourceView."""
        return read_leaves(self._tuples(encoding.digest_sql(self.table, scheme, part), "scan"))

    def count(self) -> int:
        """See ports.SourceView."""
        ((rows,),) = self._tuples(f"SELECT COUNT(*) FROM {quote_table(self.table)}", "count")
        return int(rows)

    def bounds(self) -> tuple[int, int] | None:
        """See ports.SourceView."""
        if not encoding.has_ranges(self.table):
            return None
        ((low, high),) = self._tuples(encoding.bounds_sql(self.table), "read the key's ends of")
        return None if low is None else (int(low), int(high))

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE) -> list[tuple[str, str]]:
        """See ports.SourceView."""
        rows = self._tuples(encoding.rows_sql(self.table, scheme, leaves, part), "read leaves of")
        return [(_text(key), _text(h)) for key, h in rows]

    def images(self, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """See ports.SourceView."""
        table, images = self.table, defaultdict(list)
        others = (read_sql(table.column(name)) for name in outside_hash(table))
        columns = ", ".join((encoding.key_text(table), encoding.row_hash(table), *others))
        for some in batches(sorted(set(keys)), KEYS_AT_ONCE):
            where, batch_keys = both(_where(table, some), encoding.ROWS.part_where(table, part)), set(some)
            sql = f"SELECT {columns} FROM {quote_table(table)} WHERE {where}"
            for key, h, *texts in self._tuples(sql, "read keys of"):
                # a case-insensitive collation finds rows that were not asked for, or that another batch asks for
                if _text(key) in batch_keys:
                    images[_text(key)].append((_text(h), *(_canonical(text) for text in texts)))
        return dict(images)

    def _tuples(self, sql: str, doing: str) -> list[tuple[Any, ...]]:
        try:
            with self.turn, self.session.connection.cursor(Cursor) as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            raise explain(error, where=self.session.where, doing=f"{doing} {self.table.full_name}") from error


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _canonical(text: object) -> str | None:
    return None if text is None else json_canonical(_text(text))


def _where(table: Table, keys: Sequence[str]) -> str:
    if table.keyless:
        hashes = ", ".join(f"'{int(h, 16):064x}'" for h in keys)
        return f"{encoding.row_hash(table)} IN ({hashes})"
    return key_predicate(table, keys)


@contextmanager
def open_view(
    source: BinlogSource[BinlogFacts], table: Table, init: str, *, exact: bool = False
) -> Iterator[MySqlView]:
    """One read view on a connection that proved its server by `init` (INV 9); closed at the end of the block.

    For a table without a key, and if it is to be `exact`, the view's exact position is known, because the table is locked
    while the view is opened. Copies of one row image cannot be told apart, so on a busy image nothing less would ever settle
    (INV 19); nor would a key in flight whose events do not show the row before.
    """
    with source.session(read_timeout=VIEW_SECONDS) as session:
        session.run(init, doing="check that this is the watermark's server")
        if not (table.keyless or exact):
            _begin(session)
            yield MySqlView(session, table)
            return
        with locked(source, table):
            position = source.position()
            _begin(session)
        yield MySqlView(session, table, position)


@contextmanager
def open_views(
    source: BinlogSource[BinlogFacts], tables: Sequence[Table], init: str, *, exact: bool = False
) -> Iterator[list[MySqlView]]:
    """A view of each table, as open_view opens it; the tables with a key share one, and so one connection, unless exact."""
    shared = [table for table in tables if not (table.keyless or exact)]
    turn, views = Lock(), dict[str, MySqlView]()
    with ExitStack() as stack:
        if shared:
            session = stack.enter_context(open_view(source, shared[0], init)).session
            views = {table.full_name: MySqlView(session, table, turn=turn) for table in shared}
        yield [
            views.get(table.full_name) or stack.enter_context(open_view(source, table, init, exact=exact))
            for table in tables
        ]


def _begin(session: Session) -> None:
    session.run("START TRANSACTION WITH CONSISTENT SNAPSHOT", doing="open a read view")


def _why_locked(table: Table) -> str:
    return "has no key" if table.keyless else "has events without the rows before changes"


@contextmanager
def locked(source: BinlogSource[BinlogFacts], table: Table) -> Iterator[Session]:
    """Lock the table against writes; once the lock is granted, commits that were under way are done and visible."""
    with source.session() as session:
        session.run(f"SET @@SESSION.lock_wait_timeout = {LOCK_WAIT_SECONDS}", doing="bound the wait for the lock")
        try:
            session.run(f"LOCK TABLES {quote_table(table)} READ", doing=f"lock {table.full_name} for a moment")
        except SourceError as error:
            raise SourceError(
                f"{table.full_name}, which {_why_locked(table)}, could not be locked: {error.what}",
                where=error.where,
                todo="Grant LOCK TABLES on it, end the long transaction that uses it, or give it a primary key.",
            ) from error
        try:
            yield session
        finally:
            session.run("UNLOCK TABLES", doing="unlock the table")
