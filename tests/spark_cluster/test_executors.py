"""The applications on a real Spark cluster: executors have nothing of the driver's but what it ships, and they may die."""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.start import SNAPSHOT_AT
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.position import mysql_position, read_position
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.spark_apps.adapters.mysql_view import MySqlView
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.snapshot.read import Tools, read_keyless
from stack.process import wait_until
from stack.spark_cluster import SparkCluster
from tests.integration.mirror import NUMBERS, Mirror
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
EVENTS = "CREATE TABLE events (n INT, kind VARCHAR(20))"
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
ROWS = 12_000
CHANGES = 6_000  # more than a batch that is applied without Spark


def fill(table: str, rows: int) -> str:
    return f"INSERT INTO {table} {NUMBERS.format(rows)} SELECT i, CONCAT('n', i), i % 9 FROM n"


@pytest.fixture
def mirror(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    return Mirror(rig, tmp_path).opened(monkeypatch)


def kill_executors(cluster: SparkCluster) -> int:
    """Kill the executors that run now, each by its own id; returns how many."""
    pids = [pid for worker in cluster.workers for pid in cluster.executors(worker)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def test_executors_run_this_package_from_what_the_driver_shipped(spark: SparkSession) -> None:
    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import sys

        import pyarrow as pa

        import airflow_cdc.spark_apps.adapters.rabbitmq as shipped

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"file": [shipped.__file__], "pid": [os.getpid()], "python": [sys.executable]}
            )

    rows = spark.range(0, 2, 1, 2).mapInArrow(where, "file string, pid bigint, python string").collect()
    assert {Path(row["file"]).parts[-5:-3] for row in rows} == {("airflow_cdc_shipped.zip", "airflow_cdc")}
    assert os.getpid() not in {row["pid"] for row in rows}


class FailsOnce(MySqlReader):
    """Its first task fails once it has read the table, when `then` has come to be."""

    def __init__(self, source: MySqlSource, failed: Path, then: Path) -> None:
        super().__init__(source)
        self.failed, self.then = failed, then

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        failed, then = str(self.failed), str(self.then)

        def once(batches: Iterator[Any]) -> Iterator[Any]:
            import threading
            from pathlib import Path

            yield from list(batches)
            if not Path(failed).exists():
                Path(failed).touch()
                for _ in range(3000):
                    if Path(then).exists():
                        break
                    threading.Event().wait(0.01)
                raise RuntimeError("this attempt is lost")

        return super().rows_at_exactly(spark, table, lambda rows: use(rows.mapInArrow(once, rows.schema)), at=at)


def test_inv_19_a_task_that_spark_runs_again_reads_no_later_view(rig: Rig, tmp_path: Path) -> None:
    """Between the two attempts a row is written that the first one's position does not know."""
    rig.run(EVENTS, "INSERT INTO events VALUES (1, 'a'), (2, 'b')")
    failed, written = tmp_path / "failed", tmp_path / "written"
    reading = rig.reading(rig.table("events"), rig.source.watermark())
    tools = Tools(rig.spark, FailsOnce(rig.source, failed, written), IcebergWriter(rig.lake))
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(begun_again, lambda: read_keyless(tools, reading), "the snapshot")
        wait_until(lambda: failed.exists() or None, timeout=120, what="the first attempt to fail")
        rig.run("INSERT INTO events VALUES (3, 'late')")
        late = rig.source.position().position
        written.touch()
        read.result()
    position = Watermark.from_json(rig.lake.stage_chain(reading.stage)[-1].summary[SNAPSHOT_AT], read_position).position
    rows = sorted(n for n, _ in rig.staged(reading.stage))
    assert (rows, mysql_position(position).covers(mysql_position(late))) == ([1, 2, 3], True)


@pytest.mark.minutes
def test_a_snapshot_goes_on_with_other_executors(
    rig: Rig, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.run(ORDERS, fill("orders", ROWS))
    killed = on_call(monkeypatch, MySqlReader, "rows", 2, lambda: kill_executors(cluster))
    stage, _ = rig.snapshot(rig.table("orders"), chunk_rows=3_000, group_chunks=1)
    assert killed == [2]
    assert [row[0] for row in rig.staged(stage, "count(distinct id)")] == [ROWS]


@pytest.mark.minutes
def test_a_batch_whose_executors_die_is_begun_again_and_the_night_agrees(
    mirror: Mirror, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They die with the decoded events, which only they have; then once more while the tables are compared."""
    table = mirror.table("orders", ORDERS, fill("orders", ROWS))
    topic = mirror.topic(table)
    mirror.rig.run(f"UPDATE orders SET qty = 100 WHERE id <= {CHANGES}", "DELETE FROM orders WHERE id = 7")
    for number in range(1, CHANGES + 1):
        row = {"id": number, "name": f"n{number}", "qty": number % 9}
        topic.update(row, **{**row, "qty": 100})
    topic.delete(id=7, name="n7", qty=100)
    killed = on_call(monkeypatch, IcebergWriter, "changes", 1, lambda: kill_executors(cluster))
    with caplog.at_level(logging.WARNING, logger="airflow_cdc.lost"):
        done = apply_changes(mirror.run(), mirror.rig.spark)["tables"][table.full_name]
    assert (killed, done["published"]) == ([2], True)
    assert f"the batch of {table.full_name} begins again" in caplog.text
    assert mirror.rows(table) == mirror.source_rows(table)
    killed = on_call(monkeypatch, MySqlView, "leaves", 1, lambda: kill_executors(cluster))
    assert nightly(mirror.run("night"), mirror.rig.spark, {"leaf_rows": 500}, NIGHT)["verdict"] == "MATCH"
    assert killed == [2]


def on_call(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, number: int, do: Callable[[], int]) -> list[int]:
    """Before the `number`-th call of a method, `do` something; the list then holds its result."""
    results: list[int] = []
    calls = itertools.count(1)
    real = getattr(owner, name)

    def hooked(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            results.append(do())
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, hooked)
    return results
