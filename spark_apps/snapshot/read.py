"""Step 5: read one table into its stage, chunk group by chunk group, so that a killed run continues where it stopped.

A table with a key is read in ranges of the key by rank. Rows may be newer than W: the replay from W repairs that. A
table without a key is a multiset, where a replay would count twice: it is read at one exact position instead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from airflow_cdc.core.ports import Stage
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.stamp import READ_EPOCH, ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.start import SNAPSHOT_AT
from airflow_cdc.decisions.compare.chunk import Chunk, key_from_json, key_to_json
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.session import sibling
from airflow_cdc.spark_apps.ports import RowReader, StageWriter
from airflow_cdc.spark_apps.ports_few import CommitsFew, FewRowsReader, ReadsFewRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_cdc.snapshot")

S_co = TypeVar("S_co", bound=Stage, covariant=True)

CHUNK_ROWS = 50_000
GROUP_CHUNKS = 8
# A table of more rows or bytes than this is worth a Spark job.
FEW_ROWS = 5_000
FEW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Reading(Generic[S_co]):
    """One table on its way into a stage.

    Attributes:
        ledger: what the stage already holds of this read (INV 3).
        stamp: the last commit's stamp: the fence as the start of apply, under the new epoch and W.
        watermark: W; every connection proves that it reads W's server (INV 9).
    """

    table: Table
    stage: S_co
    ledger: ChunkLedger
    stamp: Stamp
    watermark: Watermark
    chunk_rows: int = CHUNK_ROWS
    group_chunks: int = GROUP_CHUNKS


@dataclass(frozen=True, slots=True)
class Tools:
    """The systems a snapshot works with. `few`: reads small tables on connections that last; None: on one per table."""

    spark: SparkSession
    reader: RowReader
    writer: StageWriter
    few: FewRowsReader | None = None

    def beside(self) -> Tools:
        """Tools for one table's thread, with a session of its own. Making it costs more than a small table's rows."""
        return replace(self, spark=sibling(self.spark))

    @contextmanager
    def for_many(self, at: Watermark) -> Iterator[Tools]:
        """Tools whose connections for small tables last until the block ends, if the source can be read like that."""
        if self.few is not None or not isinstance(self.reader, ReadsFewRows):
            yield self
            return
        with self.reader.few_rows(at=at) as few:
            yield replace(self, few=few)


def read_table(tools: Tools, reading: Reading[Stage], progress: Progress) -> int:
    """Read the rest of the table into its stage. Returns the snapshot id of the complete stage."""
    if not reading.ledger.complete and reading.table.keyless:
        read_keyless(tools, reading)
    elif not reading.ledger.complete:
        if head := read_few(tools, reading, progress):
            return head
        read_keyed(tools.beside(), reading, progress)
    head = tools.writer.version(reading.stage)
    progress.done(reading.table.full_name, staged_rows(tools.writer, reading.stage, head))
    return head


def staged_rows(writer: StageWriter, stage: Stage, version: int) -> int:
    """Rows of a stage at a snapshot, by its summary."""
    return writer.row_count(stage, version) or 0


def read_few(tools: Tools, reading: Reading[Stage], progress: Progress) -> int | None:
    """Read a table of at most one chunk, and few rows, into its empty stage in one commit without a Spark job.

    Returns the commit. None if it is left to `read_keyed`; nothing was written then.
    """
    table, writer, most = reading.table, tools.writer, min(FEW_ROWS, reading.chunk_rows)
    # an estimate may be wrong by half
    if reading.ledger.rows or progress.estimate(table.full_name) > 2 * most or not isinstance(writer, CommitsFew):
        return None
    with tools.for_many(reading.watermark) as ready:
        opened = writer.open_table(reading.stage.identifier) if ready.few else None
        # a stage with rows is replaced by Spark
        if ready.few is None or opened is None or opened.rows != 0 or not opened.takes(table):
            return None
        rows = ready.few(table, most_rows=most, most_bytes=FEW_BYTES)
    if rows is None:
        return None
    ledger = after_group(reading.ledger, [Chunk(None, None)], reading.chunk_rows)
    head = opened.write(table, pa.table({}), rows, ledger.to_summary() | reading.stamp.to_summary())
    if head is not None:
        progress.done(table.full_name, rows.num_rows)
    return head


def read_keyed(tools: Tools, reading: Reading[Stage], progress: Progress) -> None:
    """Read chunk group by chunk group; a group is finished if and only if its commit exists."""
    ledger = reading.ledger
    for group in chunk_groups(tools.reader, reading):
        frame = tools.reader.rows(tools.spark, reading.table, group, at=reading.watermark)
        first = ledger.done_to is None and ledger.rows == 0
        ledger = after_group(ledger, group, reading.chunk_rows)
        write_group(tools.writer, frame, reading, ledger, first=first)
        progress.rows(reading.table.full_name, ledger.rows)


def after_group(ledger: ChunkLedger, group: Sequence[Chunk], chunk_rows: int) -> ChunkLedger:
    """The ledger once `group` is committed. `rows` follows from the ranks: full chunks, and an unknown last one."""
    last = group[-1].hi
    full = sum(chunk.hi is not None for chunk in group)
    done_to = ledger.done_to if last is None else tuple(key_to_json(last) or ())
    return replace(ledger, done_to=done_to, rows=ledger.rows + full * chunk_rows, complete=last is None)


def chunk_groups(reader: RowReader, reading: Reading[Stage]) -> Iterator[list[Chunk]]:
    """The table's chunks after those in the ledger, a group at a time; the last chunk is open-ended (INV 25)."""
    done_to = key_from_json(reading.ledger.done_to)
    return reader.chunks(reading.table, done_to, reading.chunk_rows, at=reading.watermark, ahead=reading.group_chunks)


def write_group(
    writer: StageWriter, frame: DataFrame, reading: Reading[Stage], ledger: ChunkLedger, *, first: bool
) -> None:
    """One commit to the stage: the first replaces the base's rows, the last carries the stamp."""
    stamp = reading.stamp.to_summary() if ledger.complete else {READ_EPOCH: str(reading.stamp.epoch)}
    writer.snapshot(reading.stage, frame, ledger.to_summary() | stamp, first=first)


def read_keyless(tools: Tools, reading: Reading[Stage]) -> None:
    """Read the whole table in one read view whose position is known exactly (INV 19).

    The commit with the rows does not mark the read as complete. A second, empty commit does, so that rows of a view
    that was opened too late never count.
    """

    def write(frame: DataFrame) -> None:
        write_group(tools.writer, frame, reading, reading.ledger, first=True)

    position = tools.reader.rows_at_exactly(tools.spark, reading.table, write, at=reading.watermark)
    log.info("%s: read at exactly %s", reading.table.full_name, position)
    summary = replace(reading.ledger, complete=True).to_summary() | reading.stamp.to_summary()
    at = {SNAPSHOT_AT: json.dumps(position.to_json())}
    tools.writer.nothing(tools.spark, reading.stage, summary | at)
