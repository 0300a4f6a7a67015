"""Strategy diff_repair in a recovery: after a gap only what differs is read, and the stage equals the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.snapshot import read as snapshot
from tests.integration.mirror import NUMBERS, Mirror
from tests.integration.rig import Rig
from tests.recoveries import advance_to

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), doc JSON)"
FILL = f"INSERT INTO orders {NUMBERS.format(2000)} SELECT i, CONCAT('n', i), JSON_OBJECT('a', i) FROM n"
GAP = (
    "DELETE FROM orders WHERE id IN (7, 1999)",
    "UPDATE orders SET name = 'new' WHERE id IN (3, 1500)",
    "UPDATE orders SET doc = '{\"a\": 0}' WHERE id = 900",
    "INSERT INTO orders VALUES (5000, 'born', NULL)",
    "UPDATE orders SET id = 6000 WHERE id = 44",
)
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"


@pytest.fixture
def mirror(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    return Mirror(rig, tmp_path).opened(monkeypatch)


def recovery(mirror: Mirror, *tables: Table) -> Run:
    """An open recovery of these tables by diff_repair, W taken."""
    run, names = mirror.run(), [table.full_name for table in tables]
    run.clients.control.acquire(run.run_id, 600)
    run.clients.control.open_recovery(run.run_id, tables=names, strategy="diff_repair")
    fence = {
        mirror.topic(t).name: {"id": mirror.topic(t).id, "partitions": {"0": mirror.topic(t).state.partitions[0][1]}}
        for t in tables
    }
    prints = {table.full_name: mirror.rig.table(table.name).fingerprint for table in tables}
    taken = mirror.rig.source.watermark().to_json()
    advance_to(run.clients.control, run.run_id, watermark=taken, fence=fence, definitions=prints)
    return run


def staged(mirror: Mirror, told: dict[str, Any], table: Table) -> list[tuple[Any, ...]]:
    stage = mirror.rig.lake.open_stage(mirror.rig.schema, table.name, told["label"])
    return mirror.rig.staged(stage, "id, name, cast(doc as string)")


def in_source(mirror: Mirror) -> list[tuple[Any, ...]]:
    # the sink writes JSON without spaces
    found = mirror.rig.run("SELECT id, name, REPLACE(CAST(doc AS CHAR), ' ', '') FROM orders")
    return sorted((tuple(row) for row in found), key=repr)


def test_only_the_rows_that_differ_are_read(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = mirror.table("orders", ORDERS, FILL)
    events = mirror.table("events", EVENTS, "INSERT INTO events VALUES ('a', 1), ('a', 1)")
    monkeypatch.setattr(snapshot, "read_keyed", lambda *_: pytest.fail("the whole table was read"))
    mirror.rig.run(*GAP, "INSERT INTO events VALUES ('b', 2)")
    head = mirror.head(orders)
    told = recover(recovery(mirror, orders, events), mirror.rig.spark)["stages"]
    assert staged(mirror, told[orders.full_name], orders) == in_source(mirror)
    assert told[orders.full_name]["rows"] == 1999
    stage = mirror.rig.lake.open_stage(mirror.rig.schema, "orders", told[orders.full_name]["label"])
    commits = mirror.rig.lake.stage_chain(stage)
    assert commits[-1].summary["added-records"] == "5"
    assert commits[-1].ledger is not None
    assert commits[-1].ledger.complete
    assert commits[-1].stamp is not None
    assert commits[-1].stamp.epoch == 1
    assert mirror.head(orders) == head
    # the table without a key was read anew
    events_stage = mirror.rig.lake.open_stage(mirror.rig.schema, "events", told[events.full_name]["label"])
    assert mirror.rig.staged(events_stage) == [("a", 1), ("a", 1), ("b", 2)]


def test_equal_sides_are_stamped_all_the_same(mirror: Mirror) -> None:
    """Apply starts at the fence, so the fence must be stamped even if nothing differs (INV 15)."""
    orders = mirror.table("orders", ORDERS, FILL)
    told = recover(recovery(mirror, orders), mirror.rig.spark)["stages"][orders.full_name]
    stage = mirror.rig.lake.open_stage(mirror.rig.schema, "orders", told["label"])
    (commit,) = [one for one in mirror.rig.lake.stage_chain(stage) if one.stamp is not None]
    assert commit.summary.get("added-records", "0") == "0"
    assert staged(mirror, told, orders) == in_source(mirror)


def test_where_most_differs_all_is_read(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = mirror.table("orders", ORDERS, FILL)
    mirror.rig.run("UPDATE orders SET name = 'new'")
    reads: list[int] = []
    real = snapshot.read_keyed

    def counted(*args: Any) -> Any:
        reads.append(1)
        return real(*args)

    monkeypatch.setattr(snapshot, "read_keyed", counted)
    told = recover(recovery(mirror, orders), mirror.rig.spark)["stages"][orders.full_name]
    assert staged(mirror, told, orders) == in_source(mirror)
    assert reads == [1]


def test_a_column_that_was_added_in_the_gap_differs_in_the_rows_that_have_a_value(mirror: Mirror) -> None:
    """The stage has the column, and its newest snapshot does not: a read pinned to that one did not find it."""
    orders = mirror.table("orders", ORDERS, FILL)
    mirror.rig.run(*GAP, "ALTER TABLE orders ADD COLUMN c DOUBLE", "UPDATE orders SET c = id / 4 WHERE id < 5")
    altered = mirror.rig.table("orders")
    told = recover(recovery(mirror, altered), mirror.rig.spark)["stages"]
    stage = mirror.rig.lake.open_stage(mirror.rig.schema, "orders", told[orders.full_name]["label"])
    wanted = mirror.rig.run("SELECT id, name, c FROM orders")
    assert mirror.rig.staged(stage, "id, name, c") == sorted((tuple(row) for row in wanted), key=repr)
    # of the rows with a value, one is also changed in the gap
    assert mirror.rig.lake.stage_chain(stage)[-1].summary["added-records"] == "8"
