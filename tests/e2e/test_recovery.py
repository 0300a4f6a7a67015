"""cdc_recovery on a real scheduler: a healthy pipeline, bad input, and a purge with every task killed once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from airflow_cdc.control.control import Control
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from demo.world import NAMESPACE, PIPELINE
from stack.process import wait_until
from stack.shop import connectors, dataset
from stack.shop.check import check
from stack.shop.dataset import CATALOG
from stack.shop.gap import make_gap
from tests.e2e.conftest import EVENTS, Shop, again_and_again

# in the order in which they are met; `verify` runs beside reset_offset and resume_connector
KILLED = (
    "diagnose",
    "open_recovery",
    "stop_connector",
    "hold_binlog",
    "fence_and_watermark",
    "recover",
    "reset_offset",
    "resume_connector",
    "verify",
    "publish",
    "close",
)


def control(shop: Shop) -> Control:
    return Control(IcebergControlStore(Lake(CATALOG, shop.world.lake)), PIPELINE)


def report(shop: Shop, run_id: str) -> dict[str, object]:
    reports = [json.loads(p.read_text()) for p in (shop.world.folder / "reports").rglob("report.json")]
    return next(one for one in reports if one["run_id"] == run_id)


def test_a_healthy_pipeline_is_left_alone(shop: Shop) -> None:
    before, offset = control(shop).state()["epoch"], connectors.stored(shop.worker, "shop")
    run_id = shop.trigger()
    assert shop.finish(run_id) == "success"
    states = shop.client.states("cdc_recovery", run_id)
    assert states["diagnose"] == "success"
    assert {states[task] for task in KILLED if task != "diagnose"} == {"skipped"}
    assert "nothing to do" in shop.client.log("cdc_recovery", run_id, "diagnose").lower()
    assert control(shop).state()["epoch"] == before
    assert connectors.state(shop.worker, "shop")[0] == "RUNNING"
    assert connectors.stored(shop.worker, "shop")["gtids"].startswith(offset["gtids"].rpartition("-")[0])


def test_an_unknown_pipeline_fails_at_once_with_one_clear_error(shop: Shop) -> None:
    run_id = shop.trigger(pipeline="shopp")
    assert shop.finish(run_id) == "failed"
    assert shop.client.states("cdc_recovery", run_id)["diagnose"] == "failed"
    said = shop.client.log("cdc_recovery", run_id, "diagnose")
    assert "shopp" in said
    assert "shop" in said.replace("shopp", "")


@pytest.mark.timeout(1800)
def test_a_purge_is_recovered_though_every_task_is_killed_once(shop: Shop) -> None:
    worker = shop.worker
    connectors.stop(worker, "shop")
    gap = make_gap(shop.world.mysql.connect())
    assert len(gap.purged) >= 3
    assert "no longer available" in connectors.failure(worker, "shop")
    with reader(shop, "customers", "orders") as seen:
        run_id = shop.trigger()
        for task in KILLED:
            kill_and_clear(shop, run_id, task)
        state = shop.finish(run_id)
        states = shop.client.states("cdc_recovery", run_id)
        failed = [task for task, found in states.items() if found == "failed"]
        assert state == "success", f"{states}\n{''.join(shop.said(run_id, task) for task in failed)}"
    made = report(shop, run_id)
    assert (made["verdict"], made["problem"]) == ("MATCH", "GTID_PURGED"), made
    assert all(table["missing"] == table["ghosts"] == table["different"] == 0 for table in made["tables"])  # type: ignore[attr-defined]
    assert {table: len(states) for table, states in seen.items()} == {"customers": 2, "orders": 2}
    assert control(shop).state()["recovery"] is None


def test_the_sink_equals_the_source_once_the_writer_rests(shop: Shop) -> None:
    """By other means: no code shared with the product. The writer is held still by a lock while all is applied."""
    connection = shop.world.mysql.connect()
    with connection.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        target = str(cursor.fetchall()[0][0])

        def covered() -> bool | None:
            held = connectors.stored(shop.worker, "shop").get("gtids", "")
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (target, held))
            return True if cursor.fetchall()[0][0] else None

        wait_until(covered, timeout=120, what="the connector to read all that was written")
        run_id = shop.trigger(f"cdc_apply__{PIPELINE}")
        assert shop.finish(run_id, f"cdc_apply__{PIPELINE}") == "success"
        checks = check(shop.world.admin, shop.world.lake, dataset.SCHEMA, NAMESPACE, list(dataset.TABLES))
    connection.close()
    assert [(one.table, one.missing, one.ghosts, one.examples) for one in checks] == [
        (table, 0, 0, []) for table in dataset.TABLES
    ]
    assert {one.table: set(one.columns_not_compared) for one in checks if one.columns_not_compared} == {
        "all_types": {"c_gen_stored", "c_gen_virtual"}
    }


def test_no_password_stands_anywhere(shop: Shop) -> None:
    """Logs, rendered fields, XCom and all else in Airflow's database, reports, Spark's event log, the lake, and ps."""
    mysql = shop.world.mysql
    secrets = [word.encode() for word in (mysql.password, mysql.cdc.password, mysql.debezium.password)]
    folder = shop.world.folder
    names = ("airflow/logs", "airflow/airflow.db", "reports", "lake", EVENTS)
    places = [folder / name for name in names]
    assert [str(place) for place in places if not place.exists()] == []
    assert any("spark_main.py" in line for line in shop.processes), "the drivers were not seen by ps"
    assert [line for line in shop.processes if any(secret.decode() in line for secret in secrets)] == []
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()]
    assert len(files) > 50
    leaks = [str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)]
    assert leaks == []


def kill_and_clear(shop: Shop, run_id: str, task: str) -> None:
    """SIGKILL the task while it runs, see it failed, and clear it with what comes after. One that was too quick is run again."""
    states = ("running", "success", "failed")
    one = shop.client.wait_task("cdc_recovery", run_id, task, states, timeout=600, interval=0.1)
    if one["state"] == "running" and one.get("pid"):
        os.kill(int(one["pid"]), signal.SIGKILL)
        shop.client.wait_task("cdc_recovery", run_id, task, ("failed",), timeout=120)
        if task == "hold_binlog":  # nothing waits for it, and the run goes on
            wait_settled(shop, run_id)
        else:  # on a busy machine what comes after it was marked as failed after it was cleared, and never ran
            assert shop.finish(run_id) == "failed"
    shop.client.clear("cdc_recovery", run_id, [task], downstream=task != "hold_binlog")


def wait_settled(shop: Shop, run_id: str) -> None:
    """Wait until the scheduler has drawn its conclusions: a task cleared in that very moment ends Airflow's scheduler."""
    last: dict[str, str] = {}

    def same() -> bool | None:
        nonlocal last
        before, last = last, shop.client.states("cdc_recovery", run_id)
        return True if before == last else None

    wait_until(same, timeout=120, what="the scheduler to be done with the failed task", interval=2.0)


@contextmanager
def reader(shop: Shop, *tables: str) -> Iterator[dict[str, list[tuple[object, ...]]]]:
    """Count and checksum main all the time; yields table → the distinct states it saw, in order."""
    seen: dict[str, list[tuple[object, ...]]] = {table: [] for table in tables}
    catalog = load_catalog(CATALOG, **shop.world.lake)

    def look() -> None:
        for table in tables:
            rows = catalog.load_table(f"{NAMESPACE}.{table}").scan().to_arrow()
            state = (rows.num_rows, tuple(rows.schema.names), checksum(rows))
            if state not in seen[table]:
                seen[table].append(state)

    with again_and_again(look, 0.3):
        yield seen


def checksum(rows: pa.Table) -> int:
    """The same for the same rows in any order."""
    return hash(frozenset(tuple(sorted(map(str, row.items()))) for row in rows.to_pylist()))
