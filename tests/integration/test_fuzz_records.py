"""Thousands of damaged records between good ones: each is applied or set aside with a reason, and none stops the apply."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.sinks.iceberg import dead_letters
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.apply.batch import apply_batch
from tests.apply_support import EVENTS, ITEMS, Bench, Topic, stamp_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 4_000
FIRST_GOOD = 1_000_000
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**400, 1e308, float("inf"), "", "x", "\x00", "é😀", "9" * 400, "a" * 100_000, [], {}, [1], {"a": 1},
)  # fmt: skip
OPS: tuple[Any, ...] = ("c", "u", "d", "x", "", "C", None, 7, "truncate", [], {"op": "c"})


@pytest.fixture
def bench(spark: SparkSession, lake_properties: dict[str, str]) -> Bench:
    return Bench(spark, Lake("lake", lake_properties))


def good_event(topic: Topic, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": number, "name": f"n{number}", "qty": number % 9}
    image = row if topic.table.key else {"kind": row["name"], "n": row["qty"]}
    return {"before": None, "after": image, "source": topic.source(), "op": "c", "ts_ms": topic.ts_ms}


def damaged(rng: random.Random, topic: Topic, number: int) -> bytes:
    """A record's value with something wrong in it, or nothing (now and then the damage changes nothing)."""
    event = good_event(topic, number)
    kind = rng.randrange(7)
    if kind == 0:
        event["op"] = rng.choice(OPS)
    elif kind == 1:
        event[rng.choice(["before", "after"])] = rng.choice([one for one in ODD if not isinstance(one, dict)])
    elif kind == 2:
        event["after"] = {name: rng.choice(ODD) for name in event["after"]}
    elif kind == 3:
        event["source"][rng.choice(["file", "pos", "gtid", "server_id", "row", "ts_ms", "snapshot"])] = rng.choice(ODD)
    elif kind == 4:
        event["source"] = rng.choice(ODD)
    text = json.dumps(event).encode()
    if kind == 5:
        return text[: rng.randrange(len(text))]
    return rng.randbytes(rng.randrange(40)) + text if kind == 6 else text


def key_of(rng: random.Random, number: int) -> bytes | None:
    good = json.dumps({"id": number}).encode()
    return rng.choice([good, good, good, good, None, b"", b"\xff\xfe", b"{", b'{"id":"x"}', b'{"id":1e999}', b"[1]"])


def filled(topic: Topic, rng: random.Random) -> int:
    """Every tenth record is good; the damaged ones are of other keys. Returns how many good ones there are."""
    good = 0
    for number in range(RECORDS):
        if number % 10 == 0:
            event = good_event(topic, FIRST_GOOD + number)
            key = json.dumps({"id": FIRST_GOOD + number}).encode() if topic.table.key else None
            topic.raw(key, json.dumps(event).encode())
            good += 1
        else:
            topic.raw(key_of(rng, number) if topic.table.key else None, damaged(rng, topic, number))
    return good


@pytest.mark.parametrize("table", [ITEMS, EVENTS], ids=["with_a_key", "without_a_key"])
def test_each_record_is_applied_or_set_aside_with_a_reason(table: Any, bench: Bench) -> None:
    topic = Topic(table)
    good = filled(topic, random.Random(20261121))
    target = bench.target(table, stamp_at(topic))
    context = bench.context([topic], max_dead_letters=RECORDS, most_unreadable=1.0)
    result = apply_batch(context, [target], topic.upto)[table.full_name]

    letters = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert len({letter.offset for letter in letters}) == len(letters) == result["dead_letters"]
    assert all(letter.reason for letter in letters)
    applied = sum(result[name] for name in ("creates", "updates", "deletes", "reads", "tombstones", "truncates"))
    assert applied + len(letters) == result["records"] == RECORDS
    assert len(letters) > RECORDS // 4
    assert len(Counter(letter.reason for letter in letters)) >= 6
    kept = {(offset, value) for _, offset, _, value in topic.records}
    assert all((letter.offset, letter.value) in kept for letter in letters)

    rows = bench.rows(target.stage)
    if table.key:
        assert sum(row[0] is not None and row[0] >= FIRST_GOOD for row in rows) == good
    else:
        assert sum(str(row[0]).startswith("n1") and len(str(row[0])) == 8 for row in rows) >= good
