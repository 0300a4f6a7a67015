"""A table of PostgreSQL in one transaction's read view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.chunk import batches
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.decisions.compare.leaves import Leaf, LeafScheme, leads_with_integer, read_leaves
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.row_sql import both
from airflow_cdc.sources.postgres.digests import PostgresRows, bounds_sql, digest_sql, rows_sql
from airflow_cdc.sources.postgres.facts import read_server
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.quoting import quote_table, text_literal
from airflow_cdc.sources.postgres.session import Session, open_connection
from airflow_cdc.sources.postgres.snapshot import reading_statements, same_server_sql
from airflow_cdc.sources.postgres.sql import key_predicate
from airflow_cdc.sources.postgres.types import value_sql

if TYPE_CHECKING:
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.sources.postgres.client import PostgresSource

KEYS_AT_ONCE = 1000
VIEW_SECONDS = 7200.0
_SHOWN = "SELECT pg_catalog.pg_current_snapshot()::text AS shown, pg_catalog.pg_current_wal_insert_lsn()::text AS lsn"


@dataclass(frozen=True, slots=True)
class PostgresView:
    """One table in one transaction's read view, as ports.SourceView."""

    session: Session
    table: Table
    position: Watermark | None = None

    def leaves(self, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        """See ports.SourceView."""
        return read_leaves(self._tuples(digest_sql(self.table, scheme, part), "scan"))

    def count(self) -> int:
        """See ports.SourceView."""
        ((rows,),) = self._tuples(f"SELECT count(*) AS n FROM {quote_table(self.table)}", "count")
        return int(rows)

    def bounds(self) -> tuple[int, int] | None:
        """See ports.SourceView."""
        if not leads_with_integer(self.table):
            return None
        ((low, high),) = self._tuples(bounds_sql(self.table), "read the key's ends of")
        return None if low is None else (int(low), int(high))

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE) -> list[tuple[str, str]]:
        """See ports.SourceView."""
        rows = self._tuples(rows_sql(self.table, scheme, leaves, part), "read leaves of")
        return [(str(key), str(h)) for key, h in rows]

    def images(self, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """See ports.SourceView."""
        table, images, sql = self.table, defaultdict(list), PostgresRows()
        others = "".join(f", {value_sql(table.column(name))} AS x{at}" for at, name in enumerate(outside_hash(table)))
        for some in batches(sorted(set(keys)), KEYS_AT_ONCE):
            where, asked = both(_where(table, some), sql.part_where(table, part)), set(some)
            query = f"SELECT {sql.columns(table)}{others} FROM {quote_table(table)} WHERE {where}"
            for key, h, *texts in self._tuples(query, "read keys of"):
                # a type that takes different values as equal finds more than was asked for
                if key in asked:
                    images[str(key)].append((str(h), *(t and json_canonical(str(t)) for t in texts)))
        return dict(images)

    def _tuples(self, sql: str, doing: str) -> list[tuple[Any, ...]]:
        return [row.in_order() for row in self.session.rows(sql, doing=f"{doing} {self.table.full_name}")]


def _where(table: Table, keys: Sequence[str]) -> str:
    if not table.keyless:
        return key_predicate(table, keys)
    hashes = ", ".join(text_literal(f"{int(h, 16):064x}") for h in keys)
    return f"{PostgresRows().row_hash(table)} IN ({hashes})"


@contextmanager
def open_view(source: PostgresSource, table: Table, at: Watermark) -> Iterator[PostgresView]:
    """One read view on a connection that proved its server (INV 9); ends with the block.

    Its position is exact: it is the server's own list of the transactions that the view shows.
    """
    with read_only(source, at) as session:
        yield PostgresView(session, table, position_of(session))


@contextmanager
def read_only(source: PostgresSource, at: Watermark | None) -> Iterator[Session]:
    """A session inside one read-only transaction with one view, on the server of `at`; None: on any."""
    session = Session(open_connection(source.endpoint, read_timeout=VIEW_SECONDS), source.where)
    try:
        session.run("BEGIN", doing="open a read view")
        for statement in reading_statements(""):
            session.run(statement, doing="open a read view")
        if at is not None:
            session.run(same_server_sql(at.server), doing="check that this is the watermark's server")
        yield session
    finally:
        session.close()


def position_of(session: Session) -> Watermark:
    """The exact position of a session's view, by the transactions that it shows; its place in the log is at or after it."""
    row, server = session.row(_SHOWN, doing="read what the view shows"), read_server(session)
    position = PgPosition(Lsn.parse(row.text("lsn")), server.timeline, server.system_id, row.text("shown"))
    return Watermark(position, server.name, datetime.fromisoformat(server.taken_at))
