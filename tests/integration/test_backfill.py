"""Backfill on a real server: thirty days, side by side, under a live writer, interrupted half way and repeated."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.pipeline import BackfillSpec, Policy
from airflow_cdc.core.table import Table
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.backfill import backfill
from airflow_cdc.spark_apps.driver.session import sibling
from airflow_cdc.spark_apps.stages import publish as publishing
from airflow_cdc.spark_apps.stages import repair as repairing
from tests.integration.mirror import NUMBERS, Mirror
from tests.integration.rig import Rig

pytestmark = pytest.mark.slow

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
DAYS = 30
ALL = Policy(max_deletes=Limit(100, percent=True))
ORDERS = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT, created_at DATETIME(6), stamped TIMESTAMP NULL, "
    "day CHAR(8), KEY (created_at))"
)
FILL = (
    f"INSERT INTO orders {NUMBERS.format(1500)} SELECT i, CONCAT('n', i), i % 9, TIMESTAMP'2026-09-30 12:00:00' + INTERVAL i * 30 MINUTE, "
    "TIMESTAMP'2026-09-30 12:00:00' + INTERVAL i * 30 MINUTE, DATE_FORMAT(TIMESTAMP'2026-09-30 12:00:00' + INTERVAL i * 30 MINUTE, '%Y%m%d') FROM n"
)
BY_TIME = BackfillSpec("orders", "created_at")


@pytest.fixture
def mirror(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    return Mirror(rig, tmp_path).opened(monkeypatch)


@pytest.fixture
def orders(mirror: Mirror) -> Table:
    return mirror.table("orders", ORDERS, FILL)


def day_run(mirror: Mirror, day: int, spec: BackfillSpec = BY_TIME, attempt: str = "", policy: Policy = ALL) -> Run:
    """The run of one day, as the DAG's operator would give it to the driver."""
    start = FIRST + timedelta(days=day)
    options = {"from": start.isoformat(), "to": (start + timedelta(days=1)).isoformat()}
    made = mirror.run(f"backfill__{day}{attempt}", policy=policy, **options)
    return replace(
        made, pipeline=replace(made.pipeline, backfill=(replace(spec, table=f"{mirror.rig.schema}.{spec.table}"),))
    )


def backfill_day(mirror: Mirror, day: int, **more: Any) -> dict[str, Any]:
    facts = backfill(day_run(mirror, day, **more), sibling(mirror.rig.spark), {"reach_seconds": 60})
    (done,) = facts["tables"].values()
    return dict(done)


@pytest.mark.parametrize(
    "spec",
    [
        BY_TIME,
        BackfillSpec("orders", "stamped"),
        BackfillSpec("orders", "day", format="%Y%m%d"),
        BackfillSpec("orders", "id", step=48, origin="2026-10-01"),
    ],
    ids=["datetime", "timestamp", "partition", "keys"],
)
def test_a_day_is_brought_to_the_source_and_nothing_else_is(mirror: Mirror, orders: Table, spec: BackfillSpec) -> None:
    """Wrong rows within the day are mended, one of another day stays; done again it changes nothing."""
    # by the key range the day has the ids 96 to 143
    inside = mirror.rig.run(
        "SELECT id FROM orders WHERE created_at >= '2026-10-03' AND created_at < '2026-10-04' AND id BETWEEN 96 AND 143 ORDER BY id"
    )
    ids = [int(row[0]) for row in inside]
    assert len(ids) > 10
    mirror.interfere(
        orders,
        f"UPDATE {{}} SET qty = 77 WHERE id IN ({ids[0]}, {ids[-1]}, 900)",
        f"DELETE FROM {{}} WHERE id = {ids[3]}",
        f"INSERT INTO {{}} SELECT 100000 + id, name, qty, created_at, stamped, day FROM {{}} WHERE id = {ids[4]}",
    )
    done = backfill_day(mirror, 2, spec=spec)
    by_keys = bool(spec.step)  # the surplus row's key is of no day
    assert (done["writes"], done["deletes"], done["tries"]) == (3, 0 if by_keys else 1, 1)
    wrong = set(mirror.rows(orders)) ^ set(mirror.source_rows(orders))
    left = {900, 100000 + ids[4]} if by_keys else {900}
    assert {row[0] for row in wrong} == left
    head = mirror.head(orders)
    again = backfill_day(mirror, 2, spec=spec, attempt="again")
    assert (again["writes"], again["published"]) == (0, None)
    assert mirror.head(orders) == head
    assert mirror.stages() == []


def test_a_row_that_moved_to_another_day_is_right_from_either_side(mirror: Mirror, orders: Table) -> None:
    mirror.interfere(orders, "UPDATE {} SET created_at = created_at - INTERVAL 5 DAYS WHERE id = 600")
    at = mirror.rig.run("SELECT DATEDIFF(created_at, '2026-10-01') FROM orders WHERE id = 600")
    assert backfill_day(mirror, int(at[0][0]) - 5)["writes"] == 1
    assert mirror.rows(orders) == mirror.source_rows(orders)


def test_a_column_that_cannot_be_cut_is_one_clear_error(mirror: Mirror, orders: Table) -> None:
    with pytest.raises(
        ConfigError, match=r"name is varchar\(40\): without `format` or `step`.*DATE, DATETIME or TIMESTAMP"
    ):
        backfill_day(mirror, 2, spec=BackfillSpec("orders", "name"))


@pytest.fixture
def live(mirror: Mirror, orders: Table) -> Iterator[list[int]]:
    """A writer that changes rows of all days without pause, each change in source and topic."""
    topic, stop, changes = mirror.topic(orders), threading.Event(), [0]
    names = [column.name for column in orders.columns]

    def write() -> None:
        rng = random.Random(11)
        with (
            closing(mirror.rig.server.connect(database=mirror.rig.schema)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET time_zone = '+00:00'")
            while not stop.wait(0.01):
                number = rng.randrange(1, 1501)
                with mirror.lock:
                    cursor.execute("SELECT * FROM orders WHERE id = %s", (number,))
                    found = cursor.fetchone()
                    if found is None:
                        continue
                    old = event(dict(zip(names, found, strict=True)))
                    if rng.random() < 0.1:
                        cursor.execute("DELETE FROM orders WHERE id = %s", (number,))
                        topic.delete(**old)
                    else:
                        quantity = rng.randrange(100, 999)
                        cursor.execute("UPDATE orders SET qty = %s WHERE id = %s", (quantity, number))
                        topic.update(old, **{**old, "qty": quantity})
                    changes[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    yield changes
    stop.set()
    thread.join()


def event(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Debezium writes it."""
    micros = int(row["created_at"].replace(tzinfo=UTC).timestamp() * 1_000_000)
    return {**row, "created_at": micros, "stamped": row["stamped"].strftime("%Y-%m-%dT%H:%M:%SZ")}


@pytest.mark.timeout(1500)
def test_thirty_days_interrupted_half_way_and_repeated_end_equal_to_the_source(
    mirror: Mirror, orders: Table, live: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every day has wrong rows; the source changes all the while; two days at a time; the first round is cut off."""
    mirror.interfere(
        orders,
        "UPDATE {} SET name = 'wrong' WHERE id % 31 = 0",
        "DELETE FROM {} WHERE id % 47 = 0",
        "INSERT INTO {} SELECT 100000 + id, name, qty, created_at, stamped, day FROM {} WHERE id % 53 = 0",
    )
    killed = threading.Event()
    real, calls = publishing.publish_stage, []

    def publish(*args: Any) -> None:
        calls.append(1)
        if len(calls) > DAYS // 2:
            killed.set()
            raise RuntimeError("killed")
        real(*args)

    def one(day: int, attempt: str = "") -> str:
        try:
            return str(backfill_day(mirror, day, attempt=attempt)["verdict"])
        except (CdcError, RuntimeError) as error:
            return type(error).__name__

    monkeypatch.setattr(repairing, "publish_stage", publish)
    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(lambda day: "never" if killed.is_set() else one(day), range(DAYS)))
    assert "never" in first
    assert first.count("MATCH") >= DAYS // 2
    monkeypatch.setattr(repairing, "publish_stage", real)
    with ThreadPoolExecutor(2) as pool:
        again = list(pool.map(lambda day: one(day, "__2"), range(DAYS)))
    assert again == ["MATCH"] * DAYS
    assert live[0] > 100
    equal_at_its_offsets(mirror, orders)


def equal_at_its_offsets(mirror: Mirror, orders: Table) -> None:
    """Main equals the source once the events after its stamp are applied by hand: none is older, none is lost."""
    with mirror.lock:
        stamp = mirror.rig.lake.stamp(mirror.rig.schema, "orders")
        assert stamp is not None
        since = stamp.next_offset(mirror.topic(orders).name, 0) or 0
        touched = touched_since(mirror, orders, since)
        low, high = (moment.replace(tzinfo=None) for moment in (FIRST, FIRST + timedelta(days=DAYS)))
        within = f"created_at >= '{low}' AND created_at < '{high}'"
        wanted = {row[0]: row for row in mirror.rig.run(f"SELECT * FROM orders WHERE {within}")}
    found = {row[0]: row for row in mirror.rows(orders) if low <= row[3] < high}
    assert since > 0
    differ = {key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)}
    assert differ <= touched, sorted(differ - touched)


def touched_since(mirror: Mirror, orders: Table, since: int) -> set[int]:
    records = mirror.topic(orders).records
    return {int(json.loads(key)["id"]) for _, offset, key, _ in records if offset >= since and key}
