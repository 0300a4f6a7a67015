"""Step 5: one table read into its stage, chunk group by chunk group, so that a killed run goes on where it was.

A table with a key is read in ranges of the key by rank. Rows may be newer than W: the replay from W repairs that. A
table without a key is a multiset, where a replay would count twice: it is read at one exact position instead.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.apply.stamp import ChunkLedger, Stamp
from airflow_cdc.core.apply.start import SNAPSHOT_AT
from airflow_cdc.core.chunk import Chunk, Key, boundary_sql, key_from_json, key_to_json, quote_table
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import row_count
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.session import Session
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.adapters.mysql import jdbc_options, rows_frame
from airflow_cdc.spark_apps.driver.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_cdc.snapshot")

CHUNK_ROWS = 50_000
GROUP_CHUNKS = 8
LOCK_WAIT_SECONDS = 30
VIEW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Reading:
    """One table on its way into a stage.

    Attributes:
        ledger: what the stage already holds of this read (INV 3).
        stamp: what the last commit says: the fence as the start of apply, under the new epoch and W.
        watermark: W; every connection proves that it reads W's server (INV 9).
    """

    table: Table
    stage: Stage
    ledger: ChunkLedger
    stamp: Stamp
    watermark: Watermark
    chunk_rows: int = CHUNK_ROWS
    group_chunks: int = GROUP_CHUNKS


@dataclass(frozen=True, slots=True)
class Tools:
    """The systems a snapshot works with; `cores` bounds the connections that read side by side."""

    spark: SparkSession
    source: MySqlSource
    lake: Lake


def read_table(tools: Tools, reading: Reading, progress: Progress) -> int:
    """Read what is left of the table into its stage. Returns the snapshot id of the complete stage."""
    if not reading.ledger.complete and reading.table.keyless:
        read_keyless(tools, reading)
    elif not reading.ledger.complete:
        read_keyed(tools, reading, progress)
    head = tools.lake.stage_head(reading.stage)
    progress.done(reading.table.full_name, staged_rows(tools.lake, reading.stage, head))
    return head


def staged_rows(lake: Lake, stage: Stage, snapshot_id: int) -> int:
    """Rows of a stage at a snapshot, by its summary."""
    return row_count(lake.table(*stage.identifier).metadata, snapshot_id) or 0


def read_keyed(tools: Tools, reading: Reading, progress: Progress) -> None:
    """Chunk group by chunk group; a group is finished exactly if its commit stands."""
    options = jdbc_options(tools.source, tools.source.init_statement(reading.watermark))
    ledger = reading.ledger
    for group in chunk_groups(tools.source, reading):
        frame = rows_frame(tools.spark, options, reading.table, [chunk.predicate(reading.table) for chunk in group])
        first = ledger.done_to is None and ledger.rows == 0
        ledger = after_group(ledger, group, reading.chunk_rows)
        write_group(frame, reading, ledger, overwrite=first, catalog=tools.lake.name)
        progress.rows(reading.table.full_name, ledger.rows)


def after_group(ledger: ChunkLedger, group: Sequence[Chunk], chunk_rows: int) -> ChunkLedger:
    """The ledger once `group` is committed. `rows` is what the ranks say: full chunks, and an unknown last one."""
    last = group[-1].hi
    full = sum(chunk.hi is not None for chunk in group)
    done_to = ledger.done_to if last is None else tuple(key_to_json(last) or ())
    return replace(ledger, done_to=done_to, rows=ledger.rows + full * chunk_rows, complete=last is None)


def chunk_groups(source: MySqlSource, reading: Reading) -> Iterator[list[Chunk]]:
    """The table's chunks after what the ledger has, a group at a time; the last chunk is open-ended (INV 25).

    Boundaries are looked up one group ahead, while Spark reads the group before.
    """
    with closing(source.connect()) as connection, ThreadPoolExecutor(1) as ahead:
        session = Session(connection, source.where)
        session.run(source.init_statement(reading.watermark), doing="check that this is the watermark's server")
        lo = key_from_json(reading.ledger.done_to)
        waiting: Future[list[Chunk]] | None = ahead.submit(next_group, session, reading, lo)
        while waiting is not None:
            group = waiting.result()
            hi = group[-1].hi
            waiting = None if hi is None else ahead.submit(next_group, session, reading, hi)
            yield group


def next_group(session: Session, reading: Reading, lo: Key | None) -> list[Chunk]:
    """Up to `group_chunks` chunks after the key `lo`, found by rank along the key's index."""
    group: list[Chunk] = []
    while len(group) < reading.group_chunks:
        found = session.rows(boundary_sql(reading.table, lo, reading.chunk_rows), doing="look up a chunk boundary")
        hi = tuple(found[0].values()) if found else None
        group.append(Chunk(lo, hi))
        if hi is None:
            break
        lo = hi
    return group


def write_group(frame: DataFrame, reading: Reading, ledger: ChunkLedger, *, overwrite: bool, catalog: str) -> None:
    """One commit to the stage: the first replaces what the base held, the last carries the stamp."""
    from pyspark.sql.functions import lit

    stamp = reading.stamp.to_summary() if ledger.complete else {}
    writer = frame.writeTo(reading.stage.spark_name(catalog))
    for key, value in (ledger.to_summary() | stamp).items():
        writer = writer.option(f"snapshot-property.{key}", value)
    if overwrite:
        writer.overwrite(lit(True))
    else:
        writer.append()


def read_keyless(tools: Tools, reading: Reading) -> None:
    """The whole table in one read view whose position is known exactly (INV 19).

    The table is locked against writes only until Spark's connection has opened its view: the named lock that its
    init statement takes after that is what the holder of the table lock waits for. The rows' commit says nothing of
    completeness; a second, empty one does, so that rows of a view that was opened too late never count.
    """
    token = f"cdc_{uuid.uuid4().hex}"
    opened = f"START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT GET_LOCK('{token}', 0)"
    init = f"{tools.source.init_statement(reading.watermark)}; {opened}"
    frame = rows_frame(tools.spark, jdbc_options(tools.source, init, several_statements=True), reading.table)
    frame.schema  # noqa: B018 - asks the server for the columns now, and not while the table is locked

    def write() -> None:
        write_group(frame, reading, reading.ledger, overwrite=True, catalog=tools.lake.name)

    position = exact_view(tools.source, reading.table, token, write)
    log.info("%s: read at exactly %s", reading.table.full_name, position)
    done = replace(reading.ledger, complete=True).to_summary() | reading.stamp.to_summary()
    at = {SNAPSHOT_AT: json.dumps(position.to_json())}
    append_nothing(tools.spark, reading.stage.spark_name(tools.lake.name), done | at)


def exact_view(source: MySqlSource, table: Table, token: str, read: Callable[[], None]) -> Watermark:
    """Run `read` in a thread; its connection opens its view, and takes the lock `token`, while `table` stands still.

    Returns the position of that view once `read` is through. Raises SourceError if the table lock cannot be had, and
    what `read` raises; it may still have read something then, which must not count.
    """
    with ThreadPoolExecutor(1) as pool:
        with locked(source, table) as session:
            position = source.position()
            running = pool.submit(read)
            poll_until(
                lambda: _view_open(session, token, running),
                timeout=VIEW_SECONDS,
                interval=0.01,
                what=f"Spark to open its read view of {table.full_name}",
            )
        running.result()
    return position


def _view_open(session: Session, token: str, running: Future[None]) -> bool | None:
    if running.done():
        running.result()  # raises what went wrong; a read that is through already was within the lock
        return True
    held = session.row("SELECT IS_USED_LOCK(%s) AS id", (token,), doing="look for the read view")["id"]
    return None if held is None else True


@contextmanager
def locked(source: MySqlSource, table: Table) -> Iterator[Session]:
    """The table locked against writes; a commit under way is through, and visible, once the lock is granted."""
    with source.session() as session:
        session.run(f"SET @@SESSION.lock_wait_timeout = {LOCK_WAIT_SECONDS}", doing="bound the wait for the lock")
        try:
            session.run(f"LOCK TABLES {quote_table(table)} READ", doing=f"lock {table.full_name} for a moment")
        except SourceError as error:
            raise SourceError(
                f"{table.full_name} has no key and could not be locked: {error.what}",
                where=error.where,
                todo="Grant LOCK TABLES on it, end the long transaction that uses it, or give it a primary key.",
            ) from error
        try:
            yield session
        finally:
            session.run("UNLOCK TABLES", doing="unlock the table")


def estimated_rows(source: MySqlSource, tables: Sequence[Table]) -> dict[str, int]:
    """The server's own estimate per table: for progress and order only."""
    with source.session() as session:
        session.run("SET @@SESSION.information_schema_stats_expiry = 0", doing="ask for fresh estimates")
        return {table.full_name: _estimate(session, table) for table in tables}


def _estimate(session: Session, table: Table) -> int:
    query = "SELECT TABLE_ROWS AS n FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    found: list[dict[str, Any]] = session.rows(query, (table.schema, table.name), doing="estimate the rows")
    return int(found[0]["n"] or 0) if found else 0
