"""Dead letters put right: their keys are read from the source again and merged; the old events are never applied.

The stage stands before the source is read (INV 20): had the table changed in between, the publish would be refused
and the keys read anew. A row read now may be newer than the table's offsets; the events still to come run forward to
it, as they do after a snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from airflow_cdc.core.types import Date, Instant, LocalDateTime, Time
from airflow_cdc.sources.mysql.quoting import quote_ident, sql_literal
from airflow_cdc.sources.mysql.types import time_micros
from airflow_cdc.spark_apps.adapters.debezium import decode
from airflow_cdc.spark_apps.adapters.mysql_jdbc import jdbc_options, rows_frame
from airflow_cdc.spark_apps.apply.changes import meta
from airflow_cdc.spark_apps.apply.dead_letters import DeadLetter, as_records
from airflow_cdc.spark_apps.apply.merge import write_by_key
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.apply.start import Start
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.sources.mysql.client import MySqlSource
    from airflow_cdc.spark_apps.apply.batch import ApplyContext, ApplyTarget

log = logging.getLogger("airflow_cdc.replay")

KEYS_PER_QUERY = 200
VISIBLE_SECONDS = 60.0

# (session, table, keys as a DataFrame of the key's columns) → these keys' rows in the source now, in sink types. It may
# return rows of other keys that the source takes for equal (a collation that ignores case).
KeyReader = Callable[["SparkSession", "Table", "DataFrame"], "DataFrame"]


def replay(
    ctx: ApplyContext, target: ApplyTarget, start: Start, letters: Sequence[DeadLetter], read_rows: KeyReader
) -> tuple[DeadLetter, ...]:
    """Merge what the source holds now under the letters' keys into the target's stage, stamped.

    `start` is where the stage stands; its offsets are stamped again. Returns the letters that are put right once
    the stage is published: those whose key could be read, none for a table without a key.
    """
    if target.table.keyless or not letters:
        return ()
    session = sibling(ctx.spark, SMALL_BATCH)
    decoded = decode(as_records(session, letters, start.topic), target.table, ctx.settings)
    readable = decoded.where(meta("bad").isNull() & meta("stranger").isNull()).select("key", "cdc.offset").persist()
    try:
        right = tuple(letters[row["offset"]] for row in readable.select("offset").collect())
        if right:
            keys = readable.select("key.*").distinct()
            changes = rows_as_changes(target.table, keys, read_rows(session, target.table, keys))
            name = target.stage.spark_name(ctx.lake.name)
            write_by_key(name, target.table, changes, start.summary(start.applied))
    finally:
        readable.unpersist()
    return right


def rows_as_changes(table: Table, keys: DataFrame, rows: DataFrame) -> DataFrame:
    """(key, deleted, after): each row found is an upsert, each key without a row of just that key a delete."""
    columns = [quote_ident(column.name) for column in table.mirrored]
    key = fn.struct(*(quote_ident(name) for name in table.key)).alias("key")
    found = rows.select(key, fn.lit(False).alias("deleted"), fn.struct(*columns).alias("after")).persist()
    kind = found.schema["after"].dataType
    gone = keys.select(key).join(found.select("key"), "key", "left_anti")
    return found.unionByName(gone.select("key", fn.lit(True).alias("deleted"), fn.lit(None).cast(kind).alias("after")))


def source_reader(source: MySqlSource) -> KeyReader:
    """Read keys over JDBC from the source, by connections that prove to reach it and to show all of it (INV 9)."""

    def read(session: SparkSession, table: Table, keys: DataFrame) -> DataFrame:
        position = source.position()
        source.wait_visible(position, VISIBLE_SECONDS)
        options = jdbc_options(source, source.init_statement(position))
        return rows_frame(session, options, table, list(key_predicates(table, keys)))

    return read


def key_predicates(table: Table, keys: DataFrame) -> Iterator[str]:
    """MySQL conditions that find the keys, some hundred of them each."""
    values = [_as_text(column).alias(f"k{at}") for at, column in enumerate(table.key_columns)]
    found = [tuple(row) for row in keys.select(*values).collect()]
    for start in range(0, len(found), KEYS_PER_QUERY):
        yield " OR ".join(f"({_equals(table, key)})" for key in found[start : start + KEYS_PER_QUERY])


def _as_text(column: Column) -> Any:
    # Python would shift a timestamp into its own time zone; the session's is UTC
    value = fn.col(quote_ident(column.name))
    return value.cast("string") if isinstance(column.type, Date | LocalDateTime | Instant) else value


def _equals(table: Table, key: Sequence[Any]) -> str:
    return " AND ".join(_equal(column, value) for column, value in zip(table.key_columns, key, strict=True))


def _equal(column: Column, value: Any) -> str:
    name = quote_ident(column.name)
    left = time_micros(name) if isinstance(column.type, Time) else name
    return f"{left} = {sql_literal(bytes(value) if isinstance(value, bytearray) else value)}"
