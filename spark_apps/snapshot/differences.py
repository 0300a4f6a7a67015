"""Strategy diff_repair: read only the rows that differ, and rewrite them in a stage that holds all the others.

A recovery after a gap uses it instead of a full read: the stage starts as a copy of main, both sides are digested,
unequal leaves are narrowed down to keys, and these keys are read from the source. Rows may be newer than W, as after a
full read; the replay from W repairs that. A row that is equal now is equal however often it changed in the gap.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.ports import Stage
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.verdict import leaf_caveat
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.compare.judge import drill_keys
from airflow_cdc.spark_apps.compare.scan import Subject, rows_in, scan
from airflow_cdc.spark_apps.compare.views import pinned
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, kept, sibling
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.snapshot.read import Reading, Tools, staged_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_cdc.differences")

# Beyond this share of its leaves, or of its rows, a table is read whole: that costs less than looking up keys.
MOST = 0.5
FEW_LEAVES = 4  # up to this many differing leaves are always examined
_KEY = own_name("key_text")


def read_differences(tools: Tools, reading: Reading[Stage], progress: Progress) -> int | None:
    """Bring the reading's stage up to the source by reading only the rows that differ, in one stamped commit.

    Returns the stage's head. Returns None, leaving the stage unchanged, where the whole table has to be read: it has no
    key, the stage holds no rows, or most of it differs.
    """
    table, writer = reading.table, tools.writer
    rows = staged_rows(writer, reading.stage, writer.version(reading.stage))
    if table.keyless or not rows:
        return None
    version = writer.readable_version(tools.spark, reading.stage)
    sink = pinned(tools.spark, writer, reading.stage, version)
    with tools.reader.view(table, at=reading.watermark) as view:
        scanned = scan(tools.reader, reading.watermark, Subject(table, sink, None, {}, reading.watermark, rows), view)
        leaves, unequal = len(scanned.source.keys() | scanned.sink.keys()), scanned.unequal
        if len(unequal) > FEW_LEAVES and leaves * MOST < len(unequal):
            log.info("%s: %d of %d leaves differ: the whole table is read", table.full_name, len(unequal), leaves)
            return None
        drilled = drill_keys(scanned, scanned.source, scanned.sink)
        keys = sorted(drilled.keys.keys() | scanned.others)
    if drilled.unexplained:
        log.info("%s: the whole table is read: %s", table.full_name, leaf_caveat(drilled.unexplained))
        return None
    if drilled.beyond or len(keys) > rows * MOST:
        log.info("%s: %d of %d rows differ: the whole table is read", table.full_name, len(keys), rows)
        return None
    stamp = replace(reading.ledger, rows=rows_in(scanned.source), complete=True).to_summary()
    to_read = Wanted(table, keys, reading.watermark)
    rewrite_keys(tools, reading.stage, to_read, stamp | reading.stamp.to_summary())
    log.info("%s: %d of %d leaves and %d rows differed", table.full_name, len(unequal), leaves, len(keys))
    progress.done(table.full_name, rows_in(scanned.source))
    return writer.version(reading.stage)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows to read: key texts of a table, on connections that show all up to `position` on its server (INV 9)."""

    table: Table
    keys: Sequence[str]
    position: Watermark


def rewrite_keys(tools: Tools, stage: Stage, wanted: Wanted, summary: Mapping[str, str]) -> None:
    """Replace these rows of the stage with the source's current rows; the commit carries `summary`."""
    session = sibling(tools.spark, SMALL_BATCH)
    tools.writer.changeable(stage)
    tools.writer.changes(stage, wanted.table, rows_now(tools, session, wanted, stage), summary)


def rows_now(tools: Tools, session: SparkSession, wanted: Wanted, stage: Stage) -> DataFrame:
    """(key, deleted, after) of the wanted rows: upserts for rows in the source, deletes for rows only in `stage`."""
    table, keys = wanted.table, wanted.keys
    asked_for = session.createDataFrame([(key,) for key in keys], f"{quote_ident(_KEY)} string")
    # a collation that ignores case finds rows of other keys too
    rows = tools.reader.rows_of_keys(session, table, keys, at=wanted.position)
    current = _with_key(rows, table).join(asked_for, _KEY, "left_semi")
    current = kept(current)
    key = fn.struct(*(quote_ident(name) for name in table.key)).alias("key")
    after = fn.struct(*(quote_ident(column.name) for column in table.mirrored)).alias("after")
    upserts = current.select(key, fn.lit(False).alias("deleted"), after)
    gone = kept(asked_for.join(current.select(_KEY), _KEY, "left_anti"))
    if gone.isEmpty():  # to find their keys in the stage, all of it is read
        return upserts
    left = _with_key(tools.writer.rows(session, stage), table).join(fn.broadcast(gone), _KEY, "left_semi")
    kind = upserts.schema["after"].dataType
    removals = left.select(key, fn.lit(True).alias("deleted"), fn.lit(None).cast(kind).alias("after"))
    return upserts.unionByName(kept(removals))


def _with_key(rows: DataFrame, table: Table) -> DataFrame:
    return rows.withColumn(_KEY, fn.expr(key_text(table)))
