"""Step 5: read one table into its stage, chunk group by chunk group, so that a killed run continues where it stopped.

A table with a key is read in ranges of the key by rank. Rows may be newer than W: the replay from W repairs that. A
table without a key is a multiset, where a replay would count twice: it is read at one exact position instead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
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
from airflow_cdc.spark_apps.ports import CommitsFew, ReadsFewRows, RowReader, StageWriter

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
    """The systems a snapshot works with; `cores` limits how many connections read in parallel."""

    spark: SparkSession
    reader: RowReader
    writer: StageWriter


def read_table(tools: Tools, reading: Reading[Stage], progress: Progress) -> int:
    """Read the rest of the table into its stage. Returns the snapshot id of the complete stage."""
    if not reading.ledger.complete and reading.table.keyless:
        read_keyless(tools, reading)
    elif not reading.ledger.complete and not read_few(tools, reading, progress):
        read_keyed(tools, reading, progress)
    head = tools.writer.version(reading.stage)
    progress.done(reading.table.full_name, staged_rows(tools.writer, reading.stage, head))
    return head


def staged_rows(writer: StageWriter, stage: Stage, version: int) -> int:
    """Rows of a stage at a snapshot, by its summary."""
    return writer.row_count(stage, version) or 0


def read_few(tools: Tools, reading: Reading[Stage], progress: Progress) -> bool:
    """Read a table of at most one chunk, and few rows, into its empty stage in one commit without a Spark job.

    False if it is left to `read_keyed`; nothing was written then.
    """
    table, stage, reader, writer = reading.table, reading.stage, tools.reader, tools.writer
    if not isinstance(reader, ReadsFewRows) or not isinstance(writer, CommitsFew) or reading.ledger.rows:
        return False
    most = min(FEW_ROWS, reading.chunk_rows)
    # an estimate may be wrong by half; a stage with rows is replaced by Spark
    if progress.estimate(table.full_name) > 2 * most or writer.row_count(stage, writer.version(stage)) != 0:
        return False
    opened = writer.open_table(stage.identifier)
    if not opened.takes(table):
        return False
    rows = reader.few_rows(table, at=reading.watermark, most_rows=most, most_bytes=FEW_BYTES)
    if rows is None:
        return False
    ledger = after_group(reading.ledger, [Chunk(None, None)], reading.chunk_rows)
    summary = ledger.to_summary() | reading.stamp.to_summary()
    return opened.write(table, pa.table({}), rows, summary) is not None


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
    done = replace(reading.ledger, complete=True).to_summary() | reading.stamp.to_summary()
    at = {SNAPSHOT_AT: json.dumps(position.to_json())}
    tools.writer.nothing(tools.spark, reading.stage, done | at)
