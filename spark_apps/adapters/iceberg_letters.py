"""The dead letters of a pipeline, kept in a table of the lake by Spark."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import SinkError
from airflow_cdc.sinks.iceberg.dead_letters import COLUMNS, HEADERS, NAMESPACE, table_name, unresolved
from airflow_cdc.spark_apps.driver.sql import view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.sinks.iceberg.client import Lake

_CONFLICT_TRIES = 5
_IDENTITY = ("topic", "topic_id", "partition", "offset", "table")

# Writers of one process take turns: the table is small and shared by all tables of the pipeline.
_TURN = threading.Lock()


class IcebergLetters:
    """The letters of one pipeline, as ports.DeadLetters."""

    def __init__(self, lake: Lake, pipeline: str) -> None:
        self._lake = lake
        self._pipeline = pipeline

    def record(self, bad: DataFrame) -> None:
        """See ports.DeadLetters."""
        record(self._lake, self._pipeline, bad)

    def unresolved(self, table: str | None = None) -> tuple[DeadLetter, ...]:
        """See ports.DeadLetters."""
        return unresolved(self._lake, self._pipeline, table)

    def resolve(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        resolve(spark, self._lake, self._pipeline, some)

    def count_attempt(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        count_attempt(spark, self._lake, self._pipeline, some)


def _spark_name(lake: Lake, pipeline: str) -> str:
    return f"`{lake.name}`.`{NAMESPACE}`.`{table_name(pipeline)}`"


def record(lake: Lake, pipeline: str, bad: DataFrame) -> None:
    """Keep bad records: (topic, topic_id, partition, offset, key, value as bytes, headers as text, table, reason).

    For a record already stored one more attempt is counted, so that a repeated batch adds no rows.
    """
    if not lake.ensure_table(NAMESPACE, table_name(pipeline), COLUMNS, format_version=2):
        _add_headers(bad.sparkSession, lake, pipeline)
    rows = bad.select(
        "topic",
        "topic_id",
        "partition",
        "offset",
        fn.base64("key").alias("key"),
        fn.base64("value").alias("value"),
        "table",
        "reason",
        fn.lit(1).alias("attempts"),
        fn.lit(datetime.now(UTC)).alias("first_seen"),
        fn.lit(None).cast("timestamp").alias("resolved_at"),
        HEADERS,
    )
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in _IDENTITY)
    names = ", ".join(f"`{name}`" for name, _ in COLUMNS)
    values = ", ".join(f"s.`{name}`" for name, _ in COLUMNS)
    with view_of(rows) as view:
        _write(
            bad.sparkSession,
            f"MERGE INTO {_spark_name(lake, pipeline)} t USING {view} s ON {same} "
            "WHEN MATCHED THEN UPDATE SET t.attempts = t.attempts + 1, t.reason = s.reason "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})",
        )


def _add_headers(spark: SparkSession, lake: Lake, pipeline: str) -> None:
    """Give a table of an earlier version the column that it lacks."""
    with _TURN:
        if HEADERS not in lake.table(NAMESPACE, table_name(pipeline)).schema().column_names:
            spark.sql(f"ALTER TABLE {_spark_name(lake, pipeline)} ADD COLUMN {HEADERS} string")


def resolve(spark: SparkSession, lake: Lake, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Mark letters as resolved: their keys, or their whole table, were read again."""
    _mark(spark, lake, pipeline, some, f"resolved_at = timestamp '{datetime.now(UTC).isoformat()}'")


def count_attempt(spark: SparkSession, lake: Lake, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Count a failed attempt to resolve the letters; after MAX_ATTEMPTS only a person can ask for another."""
    _mark(spark, lake, pipeline, some, "attempts = t.attempts + 1")


def _mark(spark: SparkSession, lake: Lake, pipeline: str, some: Sequence[DeadLetter], change: str) -> None:
    if not some:
        return
    schema = "topic string, topic_id string, partition int, offset bigint, `table` string"
    rows = spark.createDataFrame([(s.topic, s.topic_id, s.partition, s.offset, s.table) for s in some], schema)
    same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in _IDENTITY)
    with view_of(rows) as view:
        target = _spark_name(lake, pipeline)
        _write(spark, f"MERGE INTO {target} t USING {view} s ON {same} WHEN MATCHED THEN UPDATE SET t.{change}")


def _write(spark: SparkSession, statement: str) -> None:
    """Run a MERGE, repeating it if another process changed the table meanwhile; each of these MERGEs is idempotent."""
    with _TURN:
        for tries_left in reversed(range(_CONFLICT_TRIES)):
            try:
                spark.sql(statement)
            except Exception as error:
                conflict = any(name in str(error) for name in ("ValidationException", "CommitFailed"))
                if not (tries_left and conflict):
                    raise SinkError(
                        f"dead letters could not be written: {type(error).__name__}",
                        where=f"namespace {NAMESPACE}",
                        todo="Nothing was applied; run the job again.",
                    ) from error
            else:
                return
