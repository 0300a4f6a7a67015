"""One driver that stays: on a real broker, a real source and Spark, beside another run that wants the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.errors import CdcError, LeaseHeldError, SchemaError
from airflow_cdc.core.pipeline import ApplySpec
from airflow_cdc.spark_apps.apply_changes import keep_applying
from airflow_cdc.spark_apps.stages import waiting
from stack.process import wait_until
from tests.integration.apply_scene import Scene
from tests.integration.rig import Rig

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"


@pytest.fixture
def scene(rig: Rig, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(waiting, "wait_past", lambda *_: None)  # topics made by hand hold all that will come
    return Scene(rig, kafka, tmp_path)


@dataclass
class Applying:
    """A continuous run in a thread of its own, as its driver is a process of its own."""

    scene: Scene
    over: threading.Event = field(default_factory=threading.Event)
    said: dict[str, Any] = field(default_factory=dict)
    error: CdcError | None = None

    def run(self) -> None:
        run = self.scene.run(run_id="apply__1")
        staying = replace(run, pipeline=replace(run.pipeline, apply=ApplySpec("continuous", lasts=300)))
        try:
            self.said = keep_applying(staying, self.scene.rig.spark, lambda: not self.over.is_set())
        except CdcError as error:
            self.error = error

    def until(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Wait until main of a table holds exactly these rows."""
        wait_until(
            lambda: (self.scene.rows(table) == rows) or None, timeout=90, what=f"{table} to hold {len(rows)} rows"
        )


@contextmanager
def applying(scene: Scene) -> Iterator[Applying]:
    """Apply for as long as the block runs; what the run said afterwards."""
    made = Applying(scene)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        thread.join(120)
    assert not thread.is_alive()


def test_batch_after_batch_is_readable_without_a_new_driver(scene: Scene) -> None:
    orders, events = scene.table(ORDERS), scene.table(EVENTS)
    with applying(scene) as run:
        for number in range(1, 4):
            orders.create(id=number, name="a", qty=number)
            events.create(kind="x", n=1)  # a repeat would count twice
            scene.send(orders)
            scene.send(events)
            run.until("orders", [(one, "a", one) for one in range(1, number + 1)])
            run.until("events", [("x", 1)] * number)
    assert run.error is None
    counted = {name.partition(".")[2]: result["records"] for name, result in run.said["tables"].items()}
    assert counted == {"orders": 3, "events": 3}
    assert run.said["batches"] >= 3
    assert scene.stages() == []
    assert scene.run().clients.control.facts().lease is None


def test_whoever_waits_for_the_lease_gets_it_while_changes_come(scene: Scene) -> None:
    """As open_recovery does; and while another run has it, nothing is applied."""
    orders, control = scene.table(ORDERS), scene.run().clients.control
    with applying(scene) as run, writing(scene, orders):
        wait_until(lambda: scene.rows("orders") or None, timeout=90, what="the first batch")
        wait_until(lambda: taken(control.acquire), timeout=30, interval=0.5, what="the lease to be free")
        before = scene.rows("orders")
        written = len(orders.records)
        wait_until(lambda: len(orders.records) > written + 30 or None, timeout=60, what="30 more rows to be written")
        control.renew("a-recovery", 60)
        assert scene.rows("orders") == before
        control.release("a-recovery")
        wait_until(lambda: len(scene.rows("orders")) > len(before) or None, timeout=90, what="it to go on")
    assert run.error is None


def taken(acquire: Callable[..., Any]) -> bool | None:
    try:
        acquire("a-recovery", 60)
    except LeaseHeldError:
        return None
    return True


@contextmanager
def writing(scene: Scene, topic: Any) -> Iterator[None]:
    """A row every tenth of a second."""
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.wait(0.1):
            number += 1
            topic.create(id=number, name="w", qty=1)
            scene.send(topic)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


def test_a_table_that_ddl_stops_fails_the_run_at_its_end_and_stops_no_other(scene: Scene) -> None:
    orders, events = scene.table(ORDERS), scene.table(EVENTS)
    with applying(scene) as run:
        scene.alter("orders", "ALTER TABLE orders DROP COLUMN qty, ADD COLUMN qty INT")
        orders.event("c", None, {"id": 1, "name": "a", "qty": 1})
        scene.send(orders)
        for number in range(1, 3):
            events.create(kind="x", n=number)
            scene.send(events)
            run.until("events", [("x", one) for one in range(1, number + 1)])
    assert isinstance(run.error, SchemaError), run.error
    assert "orders" in str(run.error)
    assert scene.rows("orders") == []
