"""A few changes, netted in memory and written by Arrow: the same rows, counts and stamps as by Spark's jobs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.sinks.iceberg import catalog, row_delta
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import head_of, operation_of, snapshot_at, summary_of
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.apply.batch import apply_batch
from tests.integration.apply_support import ITEMS, Bench, Topic, column, stamp_at, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.table import Table

PAIRS = table(
    "pairs", [column("a", "int", nullable=False), column("b", nullable=False), column("n", "int")], ("a", "b")
)


@pytest.fixture
def bench(spark: SparkSession, lake_properties: dict[str, str]) -> Bench:
    return Bench(spark, Lake("lake", lake_properties))


def history(made: Table, seed: int) -> Topic:
    """Creates, updates, deletes and deletes with a tombstone, of few keys again and again."""
    rng, topic, rows = random.Random(seed), Topic(made), dict[Any, dict[str, Any]]()
    for number in range(120):
        key = rng.randrange(12)
        names = (
            {"a": key % 4, "b": f"k{key // 4}", "n": number}
            if made is PAIRS
            else {"id": key, "name": f"n{number}", "qty": None}
        )
        if key in rows and rng.random() < 0.3:
            topic.delete(**rows.pop(key), tombstone=rng.random() < 0.5)
        elif key in rows:
            topic.update(rows[key], **names)
            rows[key] = names
        else:
            topic.create(**names)
            rows[key] = names
    return topic


@pytest.mark.parametrize("made", [ITEMS, PAIRS], ids=lambda made: made.name)
def test_batch_after_batch_gives_the_same_as_by_spark(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, made: Table
) -> None:
    topic, seen = history(made, 7), []
    ends = [*range(25, len(topic.records), 25), len(topic.records)]
    for most in (few.FEW, -1):
        monkeypatch.setattr(few, "FEW", most)
        target = bench.target(made, stamp_at(topic), label=f"t_{most + 2}")
        results, rows = [], []
        for end in ends:
            done = apply_batch(bench.context([topic]), [target], {topic.name: {0: end}})[made.full_name]
            results.append({name: value for name, value in done.items() if name not in {"snapshot_id", "seconds"}})
            rows.append(bench.rows(target.stage))
        by_spark = bench.spark.table(f"lake.cdc_stage.`{target.stage.name}`").collect()
        assert sorted((tuple(row) for row in by_spark), key=repr) == rows[-1]
        metadata = bench.lake.table(*target.stage.identifier).metadata
        stamp = bench.lake.stamp(*target.stage.identifier)
        assert stamp is not None
        seen.append((results, rows, stamp.offsets, bench.lake.stamped_summary(*target.stage.identifier)["cdc.applied"]))
        assert bench.lake.row_count(*target.stage.identifier, head_of(metadata) or 0) == len(rows[-1])
    assert seen[0] == seen[1]


def test_it_is_one_commit_with_position_deletes(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.update({}, id=1, name="new", qty=1)
    topic.delete(id=2, name="b", qty=2)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    metadata = bench.lake.table(*target.stage.identifier).metadata
    head = snapshot_at(metadata, head_of(metadata))
    assert head is not None
    summary = summary_of(head)
    assert (operation_of(head), head.parent_snapshot_id) == ("overwrite", target.stage.base_head)
    assert (summary["added-position-deletes"], summary["added-records"]) == ("2", "1")
    assert bench.rows(target.stage) == [(1, "new", 1), (3, "c", 3)]


def test_a_table_that_only_spark_can_write_is_written_by_spark(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(ITEMS)
    topic.update({}, id=1, name="new", qty=1)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1), (2, "b", 2)])
    monkeypatch.setattr(row_delta, "MOST_MANIFESTS", 0)
    apply_batch(bench.context([topic]), [target], topic.upto)
    metadata = bench.lake.table(*target.stage.identifier).metadata
    head = snapshot_at(metadata, head_of(metadata))
    assert head is not None
    assert head.parent_snapshot_id != target.stage.base_head  # a delete and an append
    assert bench.rows(target.stage) == [(1, "new", 1), (2, "b", 2)]


def test_a_stage_that_somebody_else_moved_is_not_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_cdc.core.errors import SinkError

    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    target = bench.target(ITEMS, stamp_at(topic), [(9, "nine", 9)])
    writes = catalog.commit

    def moved(*args: Any, **named: Any) -> Any:
        bench.lake.commit_nothing(*target.stage.identifier, {})
        return writes(*args, **named)

    monkeypatch.setattr(row_delta, "commit", moved)
    with pytest.raises(SinkError, match="moved from"):
        apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(replace(target.stage)) == [(9, "nine", 9)]
