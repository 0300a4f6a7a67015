"""What happened after the compared ends: a table's events in the topic, as evidence about what the source held there.

A connector that restarts sends changes again; such a repeat would show an older image as a key's first. Repeats are
left out by the source's own order, partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.connector_config import ConnectorSettings
from airflow_cdc.core.encoding import spark_key_text, spark_row_hash
from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.position import BinlogPosition, Watermark
from airflow_cdc.core.table import TableDef
from airflow_cdc.core.verdict import FirstEvent, Image
from airflow_cdc.spark_apps.apply import RangeReader
from airflow_cdc.spark_apps.changes import meta, origin, rank, without_repeats
from airflow_cdc.spark_apps.envelope import CREATE, DELETE, READ, TOMBSTONE, TRUNCATE, UPDATE, decode
from airflow_cdc.spark_apps.sides import unpushed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Records before the ends that are looked at to learn how far the source's order had come there.
LOOK_BACK = 200

Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """Where one table's events are, from its first kept offset (`begins`) on."""

    table: TableDef
    name: str
    begins: Mapping[int, int]
    settings: ConnectorSettings
    read: RangeReader


@dataclass(frozen=True, slots=True)
class Change:
    """One row image that came (+1) or went (-1) in a table without a key, and where the source logged it."""

    image: Image
    sign: int
    gtid: str | None
    server_id: int
    file: str
    pos: int

    def is_before(self, position: Watermark) -> bool:
        """Whether the change is at or before `position`, for certain."""
        if position.gtids is not None:
            return self.gtid is not None and GtidSet.parse(self.gtid).issubset(position.gtids)
        here = BinlogPosition(self.file, self.pos)
        return self.server_id == position.server_id and here.comparable(position.position) and here < position.position


@contextmanager
def events_between(
    spark: SparkSession, topic: Topic, start: Mapping[int, int], stop: Mapping[int, int]
) -> Iterator[DataFrame]:
    """The table's decoded records in [start, stop) without repeats of what came before `start`; kept until the end."""
    back = {p: max(topic.begins.get(p, 0), start.get(p, 0) - LOOK_BACK) for p in stop}
    decoded = decode(
        topic.read(spark, {topic.name: {p: (back[p], stop[p]) for p in stop}}), topic.table, topic.settings
    )
    own = decoded.where(meta("stranger").isNull() & (meta("op") != TOMBSTONE)).persist()
    try:
        after = _any(meta("partition").eqNullSafe(p) & (meta("offset") >= start.get(p, 0)) for p in stop)
        yield own.where(after & ~_is_repeat(_reached(own.where(~after))))
    finally:
        own.unpersist()


def _any(conditions: Iterator[Column]) -> Column:
    result = fn.lit(False)
    for condition in conditions:
        result = result | condition
    return result


def _reached(before: DataFrame) -> dict[tuple[int, str], Place]:
    """(partition, origin) → the highest place before the ends."""
    keys = (meta("partition").alias("p"), origin().alias("o"))
    rows = before.where(meta("file").isNotNull()).groupBy(*keys).agg(fn.max(rank()).alias("r")).collect()
    return {(row["p"], row["o"]): (row["r"]["n"], row["r"]["pos"], row["r"]["row"] or 0) for row in rows}


def _is_repeat(reached: Mapping[tuple[int, str], Place]) -> Column:
    def one(partition: int, name: str, place: Place) -> Column:
        here, (n, pos, row) = rank(), place
        later_row = (here["pos"] > pos) | ((here["pos"] == pos) & (fn.coalesce(here["row"], fn.lit(0)) > row))
        older = (here["n"] < n) | ((here["n"] == n) & ~later_row)
        return (meta("partition") == partition) & (origin() == fn.lit(name)) & older

    return fn.coalesce(_any(one(p, name, place) for (p, name), place in reached.items()), fn.lit(False))


def first_events(table: TableDef, events: DataFrame) -> dict[str, FirstEvent]:
    """Key text → its first event: what the source held for that key before all of these events."""
    changes = events.where(meta("op").isin(CREATE, UPDATE, DELETE))
    keyed = changes.select(fn.col("cdc").alias("cdc__meta"), fn.col("before").alias("cdc__before"), "key.*")
    texts = keyed.select("cdc__meta", "cdc__before", fn.expr(spark_key_text(table)).alias("cdc__key"))
    order = Window.partitionBy("cdc__key").orderBy(fn.col("cdc__meta.partition"), fn.col("cdc__meta.offset"))
    first = texts.withColumn("cdc__at", fn.row_number().over(order)).where("cdc__at = 1")
    opened = first.select("cdc__key", (fn.col("cdc__meta.op") != CREATE).alias("cdc__there"), fn.col("cdc__before.*"))
    rows = opened.select("cdc__key", "cdc__there", *_image(table)).collect()
    return {row[0]: FirstEvent(tuple(row[2:]) if row[1] else None) for row in rows}


def _image(table: TableDef) -> list[Column]:
    """A row's image from its columns: the hash, then what the hash does not hold."""
    return [fn.expr(spark_row_hash(table)), *(fn.col(f"`{name}`") for name in unpushed(table))]


def image_changes(table: TableDef, events: DataFrame) -> list[Change]:
    """Every row image that came or went in a table without a key, in the source's order."""
    once = without_repeats(events)
    found: list[tuple[Place, Change]] = []
    for side, sign, ops in (("before", -1, (UPDATE, DELETE)), ("after", 1, (CREATE, UPDATE))):
        wanted = once.where(meta("op").isin(*ops))
        opened = wanted.select(fn.col("cdc").alias("cdc__meta"), rank().alias("cdc__rank"), f"{side}.*")
        for row in opened.select("cdc__meta", "cdc__rank", *_image(table)).collect():
            at, place = row[0], (row[1]["n"], row[1]["pos"], row[1]["row"] or 0)
            found.append((place, Change(tuple(row[2:]), sign, at["gtid"], at["server_id"], at["file"], at["pos"])))
    return [change for _, change in sorted(found, key=lambda pair: pair[0])]


def doubts(table: TableDef, events: DataFrame) -> tuple[str, ...]:
    """Why these events are no sound evidence; () if they are."""
    op = meta("op")
    without_before = op.isin(UPDATE, DELETE) & fn.col("before").isNull()
    asked: dict[str, Column] = {
        "a record after the compared ends cannot be decoded": meta("bad").isNotNull(),
        "the table was truncated during the comparison": op == TRUNCATE,
        "the connector read the table anew during the comparison": op == READ,
        "events carry no image of the row before the change (binlog_row_image is not FULL)": without_before,
    }
    counts: Any = events.agg(
        *(fn.count_if(condition).alias(f"c{at}") for at, condition in enumerate(asked.values()))
    ).first()
    return tuple(f"{table.full_name}: {text}" for text, number in zip(asked, counts, strict=True) if number)
