"""Triggers: one loop, one event shape, and the two questions as values."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent

from airflow_cdc.core.errors import ConfigError, SourceError
from airflow_cdc.triggers import base
from airflow_cdc.triggers.availability import PositionTrigger
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State
from tests.unit.builders import UUID


class Scripted(ProbeTrigger[str]):
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


def fired(trigger: ProbeTrigger[Any]) -> dict[str, Any]:
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


def test_ends_with_the_last_reason_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "first_pause", lambda interval: interval)
    trigger = Scripted(name="db", poke_interval=1.0, timeout=0.5)
    trigger.script = [SourceError("down", where="db:3306")]
    event = fired(trigger)
    assert event["state"] == "timeout"
    assert "down (db:3306)" in event["reason"]


def test_triggers_that_begin_together_do_not_look_together_again() -> None:
    """The second looks are spread over the interval; later ones keep their place in it."""
    looks: list[float] = []

    class Timed(Scripted):
        def probe(self, prepared: str) -> Answer:
            looks.append(time.monotonic())
            return Answer(State.WAITING, "soon")

    async def together() -> None:
        triggers = [Timed(name="db", poke_interval=1.0, timeout=1.0) for _ in range(40)]
        await asyncio.gather(*(anext(trigger.run()) for trigger in triggers))

    asyncio.run(together())
    began = min(looks)
    second = sorted(at - began for at in looks)[40:80]
    assert second[-1] - second[0] > 0.5


def test_a_missing_connection_ends_it_at_once() -> None:
    event = fired(Scripted(name="missing"))
    assert event["state"] == "error"
    assert "not defined" in event["reason"]


def test_an_odd_answer_is_asked_again_and_the_trigger_lives() -> None:
    trigger = Scripted(name="db")
    trigger.script = [KeyError("file"), RecursionError(), Answer(State.AVAILABLE, "there")]
    assert fired(trigger)["state"] == "available"


def test_inv_44_answers_that_stay_odd_end_the_trigger_with_what_they_were() -> None:
    trigger = Scripted(name="db")
    trigger.script = [
        *[KeyError("file")] * (base.BROKEN_PROBES - 1),
        Answer(State.WAITING, ""),
        *[KeyError("file")] * 9,
    ]
    event = fired(trigger)
    assert event["state"] == "error"
    assert "unexpected KeyError: 'file'" in event["reason"]
    assert len(trigger.script) == 9 - base.BROKEN_PROBES  # an answer in between counts from the beginning


def test_a_trigger_that_cannot_even_begin_says_why() -> None:
    class Odd(Scripted):
        async def prepare(self) -> str:
            raise LookupError("extra")

    event = fired(Odd(name="db"))
    assert event["state"] == "error"
    assert "unexpected LookupError: extra" in event["reason"]


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
    # it may have a moment left before its own deadline, and ask once more
    assert let_go in ([True], [True, True])
    assert asked.pop("black hole") == len(let_go)
    assert len(asked) == 199
    assert min(asked.values()) > 1


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


def test_a_trigger_that_is_cancelled_as_its_answer_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow cancels a trigger once. The answer is there, and the loop has not seen it yet."""
    pool = ThreadPoolExecutor(1)
    monkeypatch.setattr(base, "_pool", pool)
    trigger = Scripted(name="db", poke_interval=60.0, timeout=60.0)
    trigger.script = [Answer(State.WAITING, "soon")]

    async def cancelled() -> bool:
        running = asyncio.ensure_future(anext(trigger.run()))
        while trigger._asked is None:  # noqa: ASYNC110 - the trigger sets no asyncio event
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        pool.submit(int).result()  # the one thread has told the loop of its first answer before it takes this
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=5)
        return bool(done) and running.cancelled()

    assert asyncio.run(cancelled())


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
    ("position", "asked"),
    [
        ({"kind": "mysql", "file": "mysql-bin.000009", "pos": 4, "gtids": None, "server_id": None}, {"file": "b"}),
        ({"kind": "mysql", "file": "", "pos": 0, "gtids": f"{UUID}:1-80", "server_id": None}, {"gtid_set": "s"}),
    ],
)
def test_comes_back_from_its_serialized_form(position: dict[str, Any], asked: dict[str, str]) -> None:
    trigger = PositionTrigger(conn_id="db", position=position, asked=asked, poke_interval=5.0, timeout=60.0)
    path, kwargs = trigger.serialize()
    assert path == f"airflow_cdc.triggers.availability.{type(trigger).__name__}"
    assert type(trigger)(**kwargs).serialize() == (path, kwargs)


def test_a_declaration_that_does_not_fit_fails_at_import() -> None:
    with pytest.raises(TypeError, match=r"Wrong.*\['colour'\]"):

        class Wrong(ProbeTrigger[None]):
            fields = ("colour",)
