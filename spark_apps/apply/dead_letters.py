"""Records that could not be applied: kept with the reason, counted, and put right by reading their key again.

They are written before the offsets are stamped past them, so a record is either applied or here. The old event is
never applied later (INV 20): what counts then is what the source holds.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import SinkError
from airflow_cdc.sinks.iceberg.dead_letters import NAMESPACE, table_name
from airflow_cdc.spark_apps.apply.merge import view_of
from airflow_cdc.spark_apps.apply.record import RAW_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

_CONFLICT_TRIES = 5

COLUMNS = (
    ("topic", "string"),
    ("topic_id", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("key", "string"),
    ("value", "string"),
    ("table", "string"),
    ("reason", "string"),
    ("attempts", "int"),
    ("first_seen", "timestamp"),
    ("resolved_at", "timestamp"),
)
_IDENTITY = ("topic", "topic_id", "partition", "offset", "table")

# Writers of one process take turns: the table is small and shared by all tables of the pipeline.
_TURN = threading.Lock()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record that was not applied. `key` and `value` are the record's bytes, None where it had none."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    table: str
    reason: str
    attempts: int
    first_seen: datetime
    resolved_at: datetime | None = None

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Where the record is: topic, the topic's id, partition, offset."""
        return self.topic, self.topic_id, self.partition, self.offset

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for commands: bytes as text where they are UTF-8, else base64 behind "base64:"."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        times = {name: value.isoformat() for name, value in plain.items() if isinstance(value, datetime)}
        return plain | {"key": _shown(self.key), "value": _shown(self.value)} | times


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"


def _spark_name(lake: Lake, pipeline: str) -> str:
    return f"`{lake.name}`.`{NAMESPACE}`.`{table_name(pipeline)}`"


def record(lake: Lake, pipeline: str, bad: DataFrame) -> None:
    """Keep bad records: (topic, topic_id, partition, offset, key, value as bytes, table, reason).

    A record that is here already counts one more attempt, so that a batch done again adds nothing.
    """
    lake.ensure_table(NAMESPACE, table_name(pipeline), COLUMNS, format_version=2)
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


def unresolved(lake: Lake, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
    """The dead letters that nothing has put right yet, of one table or of all, oldest first. No Spark needed."""
    return tuple(letter for letter in letters(lake, pipeline, table) if letter.resolved_at is None)


def letters(lake: Lake, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
    """All dead letters, resolved ones too."""
    if not lake.exists(NAMESPACE, table_name(pipeline)):
        return ()
    rows = lake.read_arrow(NAMESPACE, table_name(pipeline)).to_pylist()
    found = [DeadLetter(**{**row, "key": _bytes(row["key"]), "value": _bytes(row["value"])}) for row in rows]
    mine = (letter for letter in found if table in {None, letter.table})
    return tuple(sorted(mine, key=lambda one: (one.first_seen, one.topic, one.partition, one.offset)))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def resolve(spark: SparkSession, lake: Lake, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Mark letters as put right: their keys were read again, or their whole table was."""
    _mark(spark, lake, pipeline, some, f"resolved_at = timestamp '{datetime.now(UTC).isoformat()}'")


def count_attempt(spark: SparkSession, lake: Lake, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Count a try that did not put the letters right; after MAX_ATTEMPTS only a person asks for another."""
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
    """Run a MERGE again if another process changed the table meanwhile; every such MERGE is idempotent."""
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


def as_records(spark: SparkSession, some: Sequence[DeadLetter], topic: str) -> DataFrame:
    """Letters as tombstones of their keys (RAW_SCHEMA), the offset being the place in `some`.

    Decoding them gives the keys, and nothing of the old rows.
    """
    rows = [(topic, 0, at, None if one.key is None else bytearray(one.key), None) for at, one in enumerate(some)]
    return spark.createDataFrame(rows, RAW_SCHEMA)
