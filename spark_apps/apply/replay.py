"""Repair dead letters: read their keys from the source again and merge the rows; the old events are never applied.

The stage is created before the source is read (INV 20): if the table changes in between, the publish is refused and
the keys are read again. A row read now may be newer than the table's offsets; later events catch up with it, as they do
after a snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.events import RAW_HEADERS, RAW_SCHEMA, meta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import Stage
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget
    from airflow_cdc.spark_apps.ports import RowReader

log = logging.getLogger("airflow_cdc.replay")


def replay(
    ctx: ApplyContext, target: ApplyTarget[Stage], start: Start, letters: Sequence[DeadLetter], source: RowReader
) -> tuple[DeadLetter, ...]:
    """Merge the source's current rows under the letters' keys into the target's stage, with a stamp.

    `start` is the stage's current position; its offsets are stamped again. Returns the letters that are repaired once
    the stage is published: those whose key could be read, none for a table without a key.
    """
    if target.table.keyless or not letters:
        return ()
    session = sibling(ctx.spark, SMALL_BATCH)
    decoded = ctx.events.decode(as_records(session, letters, start.topic), target.table)
    whole = fn.max(meta("bad")).over(Window.partitionBy(meta("offset"))).isNull()  # every change of the record
    marked = decoded.where(meta("other_table").isNull()).select("key", "cdc.offset", whole.alias("whole"))
    readable = marked.where("whole").persist()
    try:
        right = tuple(letters[row["offset"]] for row in readable.select("offset").distinct().collect())
        if right:
            keys = readable.select("key.*").distinct()
            texts = [row[0] for row in keys.selectExpr(key_text(target.table)).collect()]
            rows = source.rows_of_keys(session, target.table, texts, at=None)
            changes = rows_as_changes(target.table, keys, rows)
            ctx.writer.changes(target.stage, target.table, changes, start.summary(start.applied))
    finally:
        readable.unpersist()
    return right


def rows_as_changes(table: Table, keys: DataFrame, rows: DataFrame) -> DataFrame:
    """(key, deleted, after): each row found is an upsert, each key without a row of exactly that key is a delete."""
    columns = [quote_ident(column.name) for column in table.mirrored]
    key = fn.struct(*(quote_ident(name) for name in table.key)).alias("key")
    changes = rows.select(key, fn.lit(False).alias("deleted"), fn.struct(*columns).alias("after")).persist()
    kind = changes.schema["after"].dataType
    gone = keys.select(key).join(changes.select("key"), "key", "left_anti")
    return changes.unionByName(
        gone.select("key", fn.lit(True).alias("deleted"), fn.lit(None).cast(kind).alias("after"))
    )


def as_records(spark: SparkSession, some: Sequence[DeadLetter], topic: str) -> DataFrame:
    """Dead letters as tombstones of their keys (RAW_SCHEMA, RAW_HEADERS); the offset is the index in `some`.

    Decoding them gives the keys only, nothing of the old rows.
    """
    rows = []
    for at, one in enumerate(some):
        headers = [(name, bytearray(data)) for name, data in one.headers]
        rows.append((topic, 0, at, None if one.key is None else bytearray(one.key), None, headers))
    return spark.createDataFrame(rows, f"{RAW_SCHEMA}, {RAW_HEADERS}")
