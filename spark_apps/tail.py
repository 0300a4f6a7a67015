"""The records of one table between two ends of its topic, read and decoded in one small job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.connector_config import ConnectorSettings
from airflow_cdc.core.digest import LeafScheme, spark_leaf
from airflow_cdc.core.encoding import spark_key_text, spark_row_hash
from airflow_cdc.core.logtail import Event, Tail
from airflow_cdc.core.table import TableDef
from airflow_cdc.core.verdict import Image
from airflow_cdc.spark_apps.apply import RangeReader
from airflow_cdc.spark_apps.changes import origin, rank
from airflow_cdc.spark_apps.envelope import TOMBSTONE, decode
from airflow_cdc.spark_apps.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.sides import unpushed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Records before the ends that are looked at to learn how far the source's order had come there.
LOOK_BACK = 200


@dataclass(frozen=True, slots=True)
class Topic:
    """Where one table's events are, from its first kept offset (`begins`) on."""

    table: TableDef
    name: str
    begins: Mapping[int, int]
    settings: ConnectorSettings
    read: RangeReader


def read_tail(spark: SparkSession, topic: Topic, start: Mapping[int, int], stop: Mapping[int, int]) -> Tail:
    """The table's records in [start, stop). Costs nothing where there are none."""
    if all(end <= start.get(partition, 0) for partition, end in stop.items()):
        return Tail()
    back = {p: max(topic.begins.get(p, 0), start.get(p, 0) - LOOK_BACK) for p in stop}
    raw = topic.read(sibling(spark, SMALL_BATCH), {topic.name: {p: (back[p], end) for p, end in stop.items()}})
    # No where() on what was decoded: Spark would push it below the decoding, and plan that for half a minute.
    rows = images(topic.table, decode(raw, topic.table, topic.settings, sides_of(topic.table))).collect()
    return Tail.of((_event(topic.table, row) for row in rows if _is_own(row["cdc__facts"]["cdc"])), start)


def touched_leaves(raw: DataFrame, table: TableDef, settings: ConnectorSettings, scheme: LeafScheme) -> frozenset[int]:
    """The leaves of all keys that stand in raw records. A record whose key cannot be read names none."""
    leaves = decode(raw, table, settings, ()).select("key.*").selectExpr(f"{spark_leaf(scheme, table)} AS leaf")
    return frozenset(int(row["leaf"]) for row in leaves.distinct().collect() if row["leaf"] is not None)


def _is_own(cdc: Row) -> bool:
    """Whether a record is a change of this table; one without an op is no change event, and kept as a doubt."""
    return cdc["stranger"] is None and cdc["op"] != TOMBSTONE


def sides_of(table: TableDef) -> tuple[str, ...]:
    """The images that are evidence: a key is judged by what its first change found, a row without one by both."""
    return ("before", "after") if table.keyless else ("before",)


def images(table: TableDef, events: DataFrame) -> DataFrame:
    """Decoded records with the key's text and the row images (`sides_of`) in the comparison's own form."""
    facts = fn.struct(fn.col("cdc"), origin().alias("origin"), rank().alias("place")).alias("cdc__facts")
    sides = sides_of(table)
    opened = events.select(facts, *sides, *(["key.*"] if table.key else []))
    key = fn.expr(spark_key_text(table)) if table.key else fn.lit(None)
    texts = opened.select("cdc__facts", *(fn.col(side).alias(f"cdc__{side}") for side in sides), key.alias("cdc__key"))
    for side in sides:
        texts = _with_image(texts, side, table)
    return texts


def _with_image(frame: DataFrame, side: str, table: TableDef) -> DataFrame:
    """Replace the struct `cdc__<side>` by an array of its hash and the columns outside it, or NULL."""
    kept = [name for name in frame.columns if name != f"cdc__{side}"]
    opened = frame.select(*kept, fn.col(f"cdc__{side}").isNotNull().alias("cdc__there"), f"cdc__{side}.*")
    parts = fn.array(fn.expr(spark_row_hash(table)), *(fn.col(quote_ident(name)) for name in unpushed(table)))
    return opened.select(*kept, fn.when(fn.col("cdc__there"), parts).alias(f"cdc__{side}"))


def _event(table: TableDef, row: Row) -> Event:
    cdc, place = row["cdc__facts"]["cdc"], row["cdc__facts"]["place"]
    return Event(
        partition=cdc["partition"],
        offset=cdc["offset"],
        op=cdc["op"],
        origin=row["cdc__facts"]["origin"],
        place=(place["n"] or 0, place["pos"] or 0, place["row"] or 0),
        gtid=cdc["gtid"],
        server_id=cdc["server_id"] or 0,
        file=cdc["file"] or "",
        pos=cdc["pos"] or 0,
        key=row["cdc__key"] if table.key else None,
        before=_image(row["cdc__before"]),
        after=_image(row["cdc__after"]) if table.keyless else None,
        bad=cdc["bad"] is not None,
    )


def _image(parts: list[str | None] | None) -> Image | None:
    return None if parts is None else tuple(parts)
