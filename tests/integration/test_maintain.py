"""Sink tables tidied up while everything else goes on: no row changes, and nobody's start or base is lost (INV 15, 20)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.pipeline import MaintenancePolicy
from airflow_cdc.flows.publish import publish
from airflow_cdc.sinks.iceberg.snapshots import head_of, newest_stamp, summary_of
from airflow_cdc.spark_apps.adapters import iceberg_keeper
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.events import FEW
from airflow_cdc.spark_apps.maintain import maintain
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.stages import waiting
from tests.integration.apply_scene import Scene
from tests.integration.rig import Rig
from tests.integration.test_inv_apply import ORDERS, order, put_in, source_rows
from tests.integration.test_inv_recovery import items, run, take_out, verified

__all__ = ["run", "take_out"]  # fixtures

SMALL = MaintenancePolicy(small_files=2, expire_after=86400)


@pytest.fixture
def scene(rig: Rig, kafka: str, tmp_path: Path) -> Scene:
    return Scene(rig, kafka, tmp_path)


def in_days(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def tidied(scene: Scene, now: datetime | None = None) -> dict[str, int]:
    """One run of the application over `orders`; its counts."""
    made = scene.run(run_id="tidy")
    policy = replace(made.pipeline.policy, maintenance=SMALL)
    done = maintain(replace(made, pipeline=replace(made.pipeline, policy=policy)), scene.rig.spark, now)
    return dict(done["tables"][f"{scene.rig.schema}.orders"])


def filled(scene: Scene, applies: int = 3) -> Any:
    """`orders` after some applies, each of which changes every row: small files, each with deletes. Returns its topic."""
    topic = scene.table(ORDERS)
    put_in(scene, topic, *(order(number) for number in range(1, 5)))
    scene.apply(run_id="run-0")
    for turn in range(1, applies):
        changed(scene, topic, turn)
        scene.apply(run_id=f"run-{turn}")
    return topic


def changed(scene: Scene, topic: Any, turn: int) -> None:
    """All rows but the last get a new quantity, at the source and in the topic."""
    for number in range(1, 4):
        scene.rig.run(f"UPDATE orders SET qty = {turn + 1} WHERE id = {number}")
        topic.update(order(number, qty=turn), **order(number, qty=turn + 1))
    scene.send(topic)


def files(scene: Scene) -> tuple[int, int]:
    """Data files and files of deletes of main."""
    metadata = scene.rig.lake.table(scene.rig.schema, "orders").metadata
    summary = summary_of(metadata.snapshot_by_id(head_of(metadata) or 0))
    return int(summary["total-data-files"]), int(summary["total-delete-files"])


def test_inv_20_small_files_and_deletes_are_compacted_and_apply_goes_on(scene: Scene) -> None:
    topic = filled(scene)
    before = files(scene)
    done = tidied(scene)
    assert done["rewritten"] >= 3
    assert before[0] > files(scene)[0] == 1
    assert (before[1] > 0, files(scene)[1]) == (True, 0)
    assert scene.rows("orders") == source_rows(scene, "orders")
    changed(scene, topic, 3)
    assert scene.apply(run_id="run-9")["orders"]["records"] == 3
    assert scene.rows("orders") == source_rows(scene, "orders")


def test_inv_15_expiry_keeps_the_newest_stamp_and_what_lies_above_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(scene)
    count = len(scene.rig.lake.table(scene.rig.schema, "orders").metadata.snapshots)
    done = tidied(scene, in_days(3))
    metadata = scene.rig.lake.table(scene.rig.schema, "orders").metadata
    assert done["expired"] > 0
    assert len(metadata.snapshots) < count
    assert newest_stamp(metadata, head_of(metadata)) is not None
    assert scene.rows("orders") == source_rows(scene, "orders")

    monkeypatch.setattr(iceberg_keeper, "to_keep", lambda _: 1)
    tidied(scene, in_days(6))
    metadata = scene.rig.lake.table(scene.rig.schema, "orders").metadata
    assert newest_stamp(metadata, head_of(metadata)) is None  # only its mirror in the control table is left


@pytest.mark.parametrize(
    ("most", "last_step", "said"),
    [(0, "_publish", "replace"), (FEW, "apply_few", "main moved")],
    ids=["stage", "few"],
)
def test_inv_20_an_apply_that_tidying_overtakes_is_done_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, most: int, last_step: str, said: str
) -> None:
    """By Spark and a stage, and by one commit on the table itself."""
    topic = filled(scene)
    changed(scene, topic, 3)
    monkeypatch.setattr(few, "FEW", most)
    real = getattr(waiting, last_step)

    def overtaken(*args: Any) -> Any:
        tidied(scene, in_days(3))
        return real(*args)

    monkeypatch.setattr(waiting, last_step, overtaken)
    first = scene.apply(run_id="run-8")["orders"]
    assert not first["published"]
    assert said in first["not_published"]
    monkeypatch.setattr(waiting, last_step, real)
    assert scene.apply(run_id="run-9")["orders"]["records"] == 3
    assert scene.rows("orders") == source_rows(scene, "orders")


def test_inv_20_an_apply_that_is_faster_than_tidying_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(scene)
    changed(scene, topic, 3)
    real = iceberg_keeper._compact

    def after_it(call: Any, small_files: int) -> Any:
        assert scene.apply(run_id="run-8")["orders"]["published"]
        return real(call, small_files)

    monkeypatch.setattr(iceberg_keeper, "_compact", after_it)
    tidied(scene, in_days(3))
    assert scene.rows("orders") == source_rows(scene, "orders")


def test_inv_20_a_recovery_is_published_over_what_was_tidied(rig: Rig, run: Any) -> None:
    """Also if it was opened only after the tables to tidy had been chosen."""
    for number in (8, 9):
        rig.spark.sql(f"INSERT INTO lake.{rig.schema}.items VALUES ({number}, 'a')")
    first = recover(run, rig.spark)
    keeper = iceberg_keeper.IcebergKeeper(rig.lake)
    done = keeper.tidy(rig.spark, (rig.schema, "items"), SMALL, in_days(3), lambda: None)
    assert done.rewritten >= 2
    assert done.expired > 0
    verified(rig, run, first)
    publish(run)
    assert items(rig) == [1, 2, 3]


def test_a_table_that_a_recovery_replaces_is_left_out(rig: Rig, run: Any) -> None:
    done = maintain(run, rig.spark)
    assert done == {"tables": {}, "left_out": [f"{rig.schema}.items"]}
