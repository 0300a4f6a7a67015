"""Batch after batch: what is applied when, what stops what, and when a run ends. Time is given, not waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import LeaseHeldError, SchemaError, SourceError
from airflow_cdc.core.pipeline import ApplySpec
from airflow_cdc.core.topics import TopicState
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.apply import continuous
from airflow_cdc.spark_apps.apply.continuous import LEASE_FREE_S, WHOLE_LOOK_S, Loop, Outcomes, Stopped
from tests.unit.builders import PIPELINE

TABLES = ("shop.a", "shop.b")
STOPPED = SchemaError("a column went", where="table shop.a", todo="Recover it.")


@dataclass
class World:
    """Topics, a lease and a recovery as the loop sees them, and a clock that sleeping alone moves."""

    now: float = 0.0
    end: int = 0
    recovery: Any = None
    batches: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    looks: int = 0
    answers: Callable[[tuple[str, ...]], Outcomes] | None = None
    while_sleeping: Callable[[], None] = lambda: None
    waited_for: bool = True

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.while_sleeping()

    def topic_states(self, topics: Any) -> dict[str, TopicState]:
        self.looks += 1
        return {name: TopicState(name, "id", {0: (0, self.end)}) for name in topics}

    def batch(self, run: Run) -> Outcomes:
        self.batches.append((self.now, run.options.tables))
        return self.answers(run.options.tables) if self.answers else {name: applied(1) for name in run.options.tables}

    def loop(self, lasts: int = 10) -> Loop:
        control = SimpleNamespace(facts=lambda: SimpleNamespace(recovery=self.recovery))
        clients = SimpleNamespace(control=control, transport=SimpleNamespace(gathered=self.topic_states))
        source = replace(PIPELINE.source, tables=TABLES)
        pipeline = replace(PIPELINE, source=source, apply=ApplySpec("continuous", lasts))
        run = Run(pipeline, cast("Any", clients), "apply__1", "")
        return Loop(run, self.batch, lambda: self.waited_for, lambda: self.now, self.sleep)


def applied(records: int, published: bool = True) -> dict[str, Any]:
    return {"records": records, "published": published}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    topics = SimpleNamespace(topics_about=lambda tables: [*(f"t.{name}" for name in tables), "shop"])
    monkeypatch.setattr(continuous, "settings", lambda _run: topics)
    return World()


def test_a_batch_is_begun_only_where_something_is_new(world: World) -> None:
    world.while_sleeping = lambda: setattr(world, "end", 7 if world.now >= 4 else 0)
    world.loop(lasts=10).go_on()
    assert [at for at, _ in world.batches] == [0, 4]
    assert world.looks == 10  # one a second: the lease is free, and one request is all it costs


def test_what_leaves_no_event_is_looked_for_less_often(world: World) -> None:
    world.loop(lasts=int(2.5 * WHOLE_LOOK_S)).go_on()
    assert [at for at, _ in world.batches] == [0, WHOLE_LOOK_S, 2 * WHOLE_LOOK_S]


def test_a_table_that_stops_is_tried_again_and_stops_no_other(world: World) -> None:
    world.answers = lambda tables: {name: STOPPED if name == "shop.a" else applied(2) for name in tables}
    world.while_sleeping = lambda: setattr(world, "end", world.end + 1)
    loop = world.loop(lasts=12)
    loop.go_on()
    tried = [at for at, tables in world.batches if "shop.a" in tables]
    assert tried == [0, 1, 3, 7]
    assert [at for at, tables in world.batches if "shop.b" in tables] == list(range(12))
    assert loop.outcomes["shop.a"] is STOPPED
    assert loop.outcomes["shop.b"] == applied(24)


def test_a_table_that_is_sound_again_is_no_error(world: World) -> None:
    world.answers = lambda tables: {name: applied(1) if world.now > 0 else STOPPED for name in tables}
    loop = world.loop(lasts=5)
    loop.go_on()
    assert loop.outcomes == {name: applied(1) for name in TABLES}


def test_it_never_waits_longer_than_a_minute() -> None:
    stopped, now, waits = Stopped(), 0.0, []
    for _ in range(9):
        stopped.note({"t": STOPPED}, now)
        due = stopped.tables["t"].due
        assert stopped.to_try(["t"], due - 0.1, new=True) == ()
        assert stopped.to_try(["t"], due, new=False) == ("t",)
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_source_that_is_away_for_a_while_ends_no_run(world: World) -> None:
    def away(tables: tuple[str, ...]) -> Outcomes:
        if world.now < 3:
            raise SourceError("the source does not answer")
        return {name: applied(1) for name in tables}

    world.answers = away
    loop = world.loop(lasts=6)
    loop.go_on()
    assert [at for at, _ in world.batches] == [0, 1, 3]
    assert loop.outcomes == {name: applied(1) for name in TABLES}


def test_while_another_run_has_the_lease_it_asks_on(world: World) -> None:
    def held(tables: tuple[str, ...]) -> Outcomes:
        if world.now < 3:
            raise LeaseHeldError("held")
        return {name: applied(1) for name in tables}

    world.answers = held
    loop = world.loop(lasts=6)
    loop.go_on()
    assert [at for at, _ in world.batches] == [0, 1, 2, 3]
    assert not loop.stopped.errors


def test_what_could_not_be_published_is_applied_again(world: World) -> None:
    world.answers = lambda tables: {name: applied(1, published=world.now > 0) for name in tables}
    loop = world.loop(lasts=4)
    loop.go_on()
    assert [at for at, _ in world.batches] == [0, 1]
    assert loop.outcomes["shop.a"] == applied(2)


@pytest.mark.parametrize(("kept", "ended_at"), [(False, 2.0), (True, 8.0)])
def test_a_recovery_that_moves_the_offset_ends_the_run(world: World, kept: bool, ended_at: float) -> None:
    """And what had stopped a table is the recovery's matter then."""
    world.answers = lambda tables: dict.fromkeys(tables, STOPPED)

    def opened() -> None:
        if world.now >= 2:
            world.recovery = SimpleNamespace(run_id="manual__1", offset_kept=kept)

    world.while_sleeping = opened
    loop = world.loop(lasts=8)
    loop.go_on()
    assert world.now == ended_at
    assert bool(loop.outcomes) == kept


def test_a_driver_that_outlived_its_task_makes_room(world: World) -> None:
    world.while_sleeping = lambda: setattr(world, "waited_for", world.now < 3)
    world.loop(lasts=100).go_on()
    assert world.now == 3


def test_the_lease_is_free_for_longer_than_others_wait_between_two_questions() -> None:
    """`leased` and open_recovery ask every half second."""
    assert LEASE_FREE_S >= 2 * 0.5
