"""Where a decoded event stands, and whether a watermark covers it: Spark and Python must say the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.position import Covered, Watermark
from airflow_cdc.sources.mysql.position import covered, place_of, read_position
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.apply.changes import is_covered
from airflow_cdc.spark_apps.events import RAW_SCHEMA, meta
from tests.apply_support import ITEMS, UUID, Topic, settings, watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER = UUID[:-1] + "2"
GTIDS = [None, f"{UUID}:50", f"{UUID}:51", f"{UUID}:7", f"{UUID}:tag:50", f"{OTHER}:3", f"{OTHER}:4000000000"]
FILES = ["mysql-bin.000003", "mysql-bin.000002", "mysql-bin.1000000", "other.000003"]


def topic_of_everything() -> Topic:
    """Events at many places, in a fixed random order, with a tombstone and a record without a place among them."""
    topic, chance = Topic(ITEMS), random.Random(3)
    places = [(g, f, p, s) for g in GTIDS for f in FILES for p in (4, 499, 500, 501) for s in (1, 2)]
    for gtid, file, pos, server_id in chance.sample(places, len(places)):
        place: dict[str, Any] = {"gtid": gtid, "file": file, "pos": pos, "server_id": server_id, "row": 2}
        topic.event("c", None, {"id": 1, "name": "a", "qty": 1}, source=topic.source(**place))
    topic.tombstone(id=1)
    topic.event("c", None, {"id": 1, "name": "a", "qty": 1}, source=topic.source(gtid=None, file=None))
    return topic


@pytest.mark.parametrize(
    "w",
    [
        None,
        watermark(),
        watermark(gtids=f"{UUID}:1-6:8-50:tag:1-50,{OTHER}:1-3"),
        watermark(gtids=""),
        watermark(gtids=None),
        watermark(gtids=None, file="mysql-bin.1000000", pos=500),
    ],
)
def test_spark_and_python_agree_on_what_a_watermark_covers(spark: SparkSession, w: dict[str, Any] | None) -> None:
    topic = topic_of_everything()
    raw = spark.createDataFrame(
        [(topic.name, p, o, bytearray(k or b""), None if v is None else bytearray(v)) for p, o, k, v in topic.records],
        RAW_SCHEMA,
    )
    within: Covered = covered(None if w is None else Watermark.from_json(w, read_position))
    decoded = Events(settings()).decode(raw, ITEMS, ())
    rows = decoded.select(meta("origin"), meta("place"), is_covered(within).alias("covered")).collect()
    said = [(row["origin"], row["covered"]) for row in rows]
    places = [None if row["place"]["n"] is None else tuple(row["place"]) for row in rows]
    assert said == [(origin, within.holds(origin, place)) for (origin, _), place in zip(said, places, strict=True)]
    assert any(yes for _, yes in said) == (w not in (None, watermark(gtids="")))
    assert not all(yes for _, yes in said)


def test_a_statement_stands_where_an_event_of_the_same_place_stands(spark: SparkSession) -> None:
    topic = topic_of_everything()
    raw = spark.createDataFrame(
        [(topic.name, p, o, bytearray(k or b""), None if v is None else bytearray(v)) for p, o, k, v in topic.records],
        RAW_SCHEMA,
    )
    source = "get_json_object(CAST(value AS string), '$.source.{}')"
    named = {n: source.format(n) for n in ("gtid", "server_id", "file", "pos")}
    given = raw.selectExpr("offset", *(f"{e} AS {n}" for n, e in named.items())).collect()
    decoded = {row["offset"]: row for row in Events(settings()).decode(raw, ITEMS, ()).select("cdc.*").collect()}
    for row in given:
        found, event = place_of(row["gtid"], row["server_id"], row["file"], row["pos"]), decoded[row["offset"]]
        assert (found is None) == (event["origin"] is None)
        if found is not None:
            assert (found[0], found[1][0]) == (event["origin"], event["place"]["n"])
            assert row["gtid"] or found[1][1] == event["place"]["pos"]
