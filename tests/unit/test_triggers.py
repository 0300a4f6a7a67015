"""Triggers: one loop, one event shape, and the two questions as values."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_cdc.core.diagnosis.observation import (
    Unknown,
)
from airflow_cdc.core.errors import ConfigError, SourceError
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.triggers import base
from airflow_cdc.triggers.availability import BinlogTrigger, GtidSetTrigger, binlog_answer, gtid_answer
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State

from .builders import OTHER, SOURCE, UUID


class Scripted(ProbeTrigger):
    """A trigger whose probe says what a test wrote down."""

    fields = ("name",)

    def __init__(self, *, name: str, poke_interval: float = 0.0, timeout: float = 5.0) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.name = name
        self.script: list[Answer | Exception] = []
        self.threads: set[str] = set()

    async def prepare(self) -> str:
        if self.name == "missing":
            raise ConfigError("connection 'missing' is not defined", todo="Create it.")
        return self.name

    def probe(self, prepared: str) -> Answer:
        self.threads.add(threading.current_thread().name)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def fired(trigger: ProbeTrigger) -> dict[str, Any]:
    async def collect() -> list[TriggerEvent]:
        return [event async for event in trigger.run()]

    events = asyncio.run(collect())
    assert len(events) == 1
    return dict(events[0].payload)


def test_asks_until_the_answer_is_final_on_threads_of_the_pool() -> None:
    trigger = Scripted(name="db")
    trigger.script = [Answer(State.WAITING, "soon"), SourceError("down"), Answer(State.AVAILABLE, "there")]
    assert fired(trigger) == {"state": "available", "reason": "there", "name": "db"}
    assert trigger.script == []
    assert all(name.startswith("cdc-probe") for name in trigger.threads)


def test_ends_with_the_last_reason_when_time_is_up() -> None:
    trigger = Scripted(name="db", poke_interval=1.0, timeout=0.5)
    trigger.script = [SourceError("down", where="db:3306")]
    event = fired(trigger)
    assert event["state"] == "timeout"
    assert "down (db:3306)" in event["reason"]


def test_a_missing_connection_ends_it_at_once() -> None:
    event = fired(Scripted(name="missing"))
    assert event["state"] == "error"
    assert "not defined" in event["reason"]


def test_a_probe_that_hangs_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PROBE_TIMEOUT", 0.05)
    done = threading.Event()

    class Hanging(Scripted):
        def probe(self, prepared: str) -> Answer:
            done.wait(5)
            return Answer(State.AVAILABLE, "late")

    event = fired(Hanging(name="db", poke_interval=1.0, timeout=0.1))
    done.set()
    assert event["state"] == "timeout"
    assert "no answer" in event["reason"]


def test_two_hundred_triggers_do_not_wait_for_one_black_hole() -> None:
    """All others end, by their own deadline, while it still hangs: it is let go only after them."""
    asked: Counter[str] = Counter()
    end = threading.Event()
    let_go: list[bool] = []

    class Many(Scripted):
        def probe(self, prepared: str) -> Answer:
            asked[prepared] += 1
            if prepared == "black hole":
                let_go.append(end.wait(60))
            return Answer(State.WAITING, "nothing")

    async def run_all() -> None:
        names = ["black hole", *(f"db{n}" for n in range(199))]
        triggers = [Many(name=name, poke_interval=0.5, timeout=4.0) for name in names]
        running: list[asyncio.Future[TriggerEvent]] = [asyncio.ensure_future(anext(each.run())) for each in triggers]
        await asyncio.wait(running[1:])
        end.set()
        await running[0]

    asyncio.run(run_all())
    assert let_go == [True]
    assert asked.pop("black hole") == 1
    assert len(asked) == 199
    assert min(asked.values()) > 1
    assert asked.total() >= 199 * 5


def test_servers_that_are_down_never_use_up_the_threads_of_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty that are not answered, and as many threads for answers as there are for one of them at a time."""
    monkeypatch.setattr(base, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(base, "_pool", ThreadPoolExecutor(4, thread_name_prefix="cdc-probe"))
    monkeypatch.setattr(base, "_silent_pool", ThreadPoolExecutor(2, thread_name_prefix="cdc-probe-silent"))
    ended = threading.Event()
    late: list[float] = []

    class Server(Scripted):
        def probe(self, prepared: str) -> Answer:
            self.threads.add(threading.current_thread().name.rpartition("_")[0])
            if prepared.startswith("dead"):
                ended.wait(0.1)
                raise SourceError("no answer")
            late.append(time.monotonic())
            return Answer(State.WAITING, "nothing")

    dead = [Server(name=f"dead{n}", timeout=60.0) for n in range(60)]
    live = Server(name="live", poke_interval=0.05, timeout=60.0)

    async def run_all() -> None:
        running = [asyncio.ensure_future(anext(each.run())) for each in (*dead, live)]
        while len(late) < 40:  # noqa: ASYNC110 - the threads set no asyncio event
            await asyncio.sleep(0.05)
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(run_all())
    ended.set()
    assert live.threads == {"cdc-probe"}
    assert all("cdc-probe-silent" in each.threads for each in dead[:4])
    first, *rest = late[10:]
    assert max(after - before for before, after in pairwise((first, *rest))) < 1.0


def test_a_question_that_hangs_is_not_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PROBE_TIMEOUT", 0.02)
    ended, asked = threading.Event(), Counter[str]()

    class Hanging(Scripted):
        def probe(self, prepared: str) -> Answer:
            asked[prepared] += 1
            ended.wait(20)
            return Answer(State.WAITING, "late")

    fired(Hanging(name="db", poke_interval=0.02, timeout=0.5))
    ended.set()
    assert asked["db"] == 1


@pytest.mark.parametrize(
    "trigger",
    [
        BinlogTrigger(conn_id="db", file="mysql-bin.000009", position=4, poke_interval=5.0, timeout=60.0),
        GtidSetTrigger(conn_id="db", gtid_set=f"{UUID}:1-80", poke_interval=5.0, timeout=60.0),
    ],
)
def test_comes_back_from_its_serialized_form(trigger: ProbeTrigger) -> None:
    path, kwargs = trigger.serialize()
    assert path == f"airflow_cdc.triggers.availability.{type(trigger).__name__}"
    assert type(trigger)(**kwargs).serialize() == (path, kwargs)


def test_a_declaration_that_does_not_fit_fails_at_import() -> None:
    with pytest.raises(TypeError, match=r"Wrong.*\['colour'\]"):

        class Wrong(ProbeTrigger):
            fields = ("colour",)


@pytest.mark.parametrize(
    ("file", "position", "state", "said"),
    [
        ("mysql-bin.000008", 4, State.AVAILABLE, "1000 bytes"),
        ("mysql-bin.000010", 1000, State.AVAILABLE, "1000 bytes"),
        ("mysql-bin.000010", 1001, State.WAITING, "so far"),
        ("mysql-bin.000011", 4, State.WAITING, "source is at mysql-bin.000010:1000"),
        ("mysql-bin.000007", 4, State.LOST, "oldest file is mysql-bin.000008"),
        ("mysql-bin.000009", 5000, State.LOST, "cut or replaced"),
        ("binlog.000009", 4, State.LOST, "another server"),
    ],
)
def test_a_binlog_position(file: str, position: int, state: State, said: str) -> None:
    answer = binlog_answer(SOURCE, BinlogPosition(file, position))
    assert answer.state == state
    assert said in answer.reason


@pytest.mark.parametrize(
    ("stored", "state", "said"),
    [
        (f"{UUID}:1-80", State.AVAILABLE, "still in the log"),
        (f"{UUID}:1-50", State.AVAILABLE, "still in the log"),
        (f"{UUID}:1-49", State.LOST, f"{UUID}:50"),
        ("", State.LOST, f"{UUID}:1-50"),
        (f"{UUID}:1-101", State.WAITING, f"{UUID}:101"),
        (f"{UUID}:1-80,{OTHER}:1-5", State.WAITING, f"{OTHER}:1-5"),
    ],
)
def test_a_gtid_set(stored: str, state: State, said: str) -> None:
    answer = gtid_answer(SOURCE, GtidSet.parse(stored))
    assert answer.state == state
    assert said in answer.reason


def test_what_cannot_be_read_is_unknown() -> None:
    assert binlog_answer(Unknown("refused"), BinlogPosition("mysql-bin.000008", 4)).state == State.UNKNOWN
    assert gtid_answer(Unknown("refused"), GtidSet.parse(f"{UUID}:1")).state == State.UNKNOWN
    assert gtid_answer(replace(SOURCE, gtid_executed=None), GtidSet.parse(f"{UUID}:1")).state == State.UNKNOWN
    assert binlog_answer(replace(SOURCE, log_bin=False), BinlogPosition("mysql-bin.000008", 4)).state == State.LOST
