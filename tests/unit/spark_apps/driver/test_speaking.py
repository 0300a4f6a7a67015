"""A driver that works for minutes says so every 15 seconds, with how much of Spark's work is done and when that should end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.spark_apps.driver.session import SessionOnDemand
from airflow_cdc.spark_apps.driver.speaking import OURS, Speaking, log, spark_parts


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class World:
    """A clock and Spark's running work, both set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.work: tuple[int, int] | None = None
        self.speaking = Speaking("verify", lambda: self.work, every=15, clock=lambda: self.now)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.speaking.look()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    heard, ours = Lines(), logging.getLogger(OURS)
    level = ours.level
    ours.setLevel(logging.INFO)
    log.addHandler(heard)
    yield heard.texts
    log.removeHandler(heard)
    ours.setLevel(level)


def test_a_line_comes_every_fifteen_seconds_and_not_beside_others(lines: list[str]) -> None:
    made = World()
    with made.speaking:
        for _ in range(14):
            made.after(1)
        assert lines == []
        made.after(1)
        assert lines == ["verify: at work for 15 s"]
        made.after(14)
        logging.getLogger("airflow_cdc.verify").info("pass 1")
        made.after(14)
        assert len(lines) == 1, "the work itself has just said something"
        made.after(1)
        assert lines[1:] == ["verify: at work for 44 s"]
    assert made.speaking not in logging.getLogger(OURS).handlers


def test_it_says_how_much_of_sparks_work_is_done_and_when_it_should_end(lines: list[str]) -> None:
    made = World()
    with made.speaking:
        made.work = (10, 200)
        made.after(15)
        made.work = (60, 200)
        made.after(15)
        made.work = (1, 8)  # the next job
        made.after(15)
    assert lines == [
        "verify: at work for 15 s; 10 of 200 parts of the running Spark job are done",
        "verify: at work for 30 s; 60 of 200 parts of the running Spark job are done, about 42 s left",
        "verify: at work for 45 s; 1 of 8 parts of the running Spark job are done",
    ]


def test_a_session_that_was_not_needed_is_not_made_for_it() -> None:
    def make() -> Any:
        raise AssertionError("a session was made")

    session = cast("SessionOnDemand", SessionOnDemand.of(make))
    assert spark_parts(lambda: session.existing)() is None


def test_all_stages_that_run_count_together() -> None:
    infos = {
        1: SimpleNamespace(numCompletedTasks=3, numTasks=4),
        2: SimpleNamespace(numCompletedTasks=0, numTasks=6),
        3: None,
    }
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(infos), getStageInfo=infos.__getitem__)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert spark_parts(lambda: session)() == (3, 10)
