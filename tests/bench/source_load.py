"""What a recovery costs its source: `python -m tests.bench.source_load --rows 1000000 --rounds 3`.

Two clients in processes of their own read and update single rows by their primary key, on a table of their own on the real
MySQL server whose large table is recovered meanwhile. Their statements are timed while nothing else happens, during the
steps `recover` and `verify` without limits, and with policy.throttle; idle and each way take turns, and the rounds are
counted together. Writes build/bench/source_load.json: p95 with the throttle against p95 idle, and without it beside;
ends with 1 if a goal is not held.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from typing import TYPE_CHECKING, TypeVar

import pymysql

from stack import jvm
from tests.adversary.world import Servers, servers
from tests.bench import large
from tests.bench.recovered import Measured, differing, recovered
from tests.bench.result import FOLDER, Ratio, write_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from stack.mysql import MySqlServer
    from tests.adversary.world import Pipe

T = TypeVar("T")

CLIENTS = 2
POINTS = 10_000
PAUSE_S = 0.002  # a client's own work between two statements
IDLE_S = 8.0
# as many tasks as a small cluster has, each of which reads on a connection of its own
OPTIONS = {**large.OPTIONS, "spark.master": "local[8]"}
# one reader, and room for the clients, the connector's reader of the log and the reader itself
THROTTLE = {"connections": 1, "threads_running": CLIENTS + 4}
WAYS: Mapping[str, Mapping[str, int]] = {"without limits": {}, "throttled": THROTTLE}
STEPS = ("recover", "verify")
# A statement shares the server with one reader and the machine with the one Spark task that it feeds: a third of it is left.
GOAL = 3.0


@dataclass(slots=True)
class Timed(Measured):
    """Notes also when each step began and ended."""

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)

    def step(self, name: str, act: Callable[[], T]) -> T:
        """See Measured."""
        began = time.monotonic()
        answer = Measured.step(self, name, act)
        self.spans[name] = began, time.monotonic()
        return answer


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds of statements, in order of size."""

    ms: Sequence[float]

    def at(self, percent: int) -> float:
        """The time within which so many of a hundred statements were answered."""
        return round(statistics.quantiles(self.ms, n=100)[percent - 1], 3)

    def to_json(self) -> dict[str, float]:
        return {"statements": len(self.ms), **{f"p{percent}_ms": self.at(percent) for percent in (50, 95, 99)}}


@dataclass(frozen=True, slots=True)
class Login:
    """Where the clients connect to, and the database of their table."""

    host: str
    port: int
    user: str
    password: str
    database: str


def main() -> int:
    """Measure both ways in turn; 0 if every goal is held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table that is recovered")
    parser.add_argument("--rounds", type=int, default=3, help="recoveries of each way")
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    asked = parser.parse_args()
    folder = FOLDER.absolute() / f"source-load-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    jvm.archive()
    with servers(folder, asked.stack, OPTIONS) as running:
        rows = list(measured(running, asked.rows, asked.rounds))
    return write_all(rows, FOLDER / "source_load.json")


def measured(running: Servers, rows: int, rounds: int) -> Iterator[Ratio]:
    """A row for each step that reads the source."""
    spans: dict[str, list[tuple[float, float]]] = {}
    with large.pipe_of(running, large.NARROW, rows) as pipe:
        recovered(pipe, "full_snapshot", Measured(1, "first: 1"))
        with points(running.mysql) as login, clients(login) as timed, waits() as held_back:
            for _ in range(rounds):
                for way in WAYS:
                    spans.setdefault("idle", []).append(idle())
                    for step, span in one_recovery(pipe, way).items():
                        spans.setdefault(f"{step}, {way}", []).append(span)
            answers = timed()
        assert not differing(pipe, pipe.tables)
    latencies = {name: within(answers, some) for name, some in spans.items()}
    for step in STEPS:
        yield ratio(step, latencies, {name: seconds(some) for name, some in spans.items()}, len(held_back))


class _Waits(logging.Handler):
    """The throttle's lines about waits that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if "goes on" in (line := record.getMessage()):
            self.lines.append(line)


@contextmanager
def waits() -> Iterator[list[str]]:
    """How often a read was held back."""
    handler, log = _Waits(), logging.getLogger("airflow_cdc.throttle")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        log.removeHandler(handler)


def ratio(step: str, latencies: Mapping[str, Latencies], lasted: Mapping[str, float], held_back: int) -> Ratio:
    """p95 of the throttled way against idle; the other way beside it."""
    ours, free, idle_ones = (latencies[name] for name in (f"{step}, throttled", f"{step}, without limits", "idle"))
    more: Mapping[str, object] = {
        "load": round(os.getloadavg()[0], 1),
        "throttle": dict(THROTTLE),
        "waits of all throttled steps": held_back,
        "ratio without limits": round(free.at(95) / idle_ones.at(95), 3),
        "idle": idle_ones.to_json(),
        "throttled": {**ours.to_json(), "seconds": lasted[f"{step}, throttled"]},
        "without limits": {**free.to_json(), "seconds": lasted[f"{step}, without limits"]},
    }
    return Ratio(f"p95 of point statements during {step}, ms", ours.at(95), idle_ones.at(95), GOAL, more)


def seconds(spans: Sequence[tuple[float, float]]) -> float:
    """The mean length."""
    return round(statistics.mean(end - begin for begin, end in spans), 2)


def idle() -> tuple[float, float]:
    """A while in which only the clients work."""
    begin = time.monotonic()
    time.sleep(IDLE_S)
    return begin, time.monotonic()


def one_recovery(pipe: Pipe, way: str) -> dict[str, tuple[float, float]]:
    """When the steps that read the source began and ended."""
    pipe.policy = {"throttle": dict(WAYS[way])}
    result = Timed(1, f"{way}: 1")
    recovered(pipe, "full_snapshot", result)
    return {step: result.spans[step] for step in STEPS}


def within(answers: Sequence[tuple[float, float]], spans: Sequence[tuple[float, float]]) -> Latencies:
    """The latencies of the statements that began in one of the spans."""
    return Latencies(sorted(ms for at, ms in answers if any(begin <= at < end for begin, end in spans)))


# --- the clients -----------------------------------------------------------------------------------------------------


@contextmanager
def points(server: MySqlServer) -> Iterator[Login]:
    """The clients' table, in a database that nobody follows."""
    name = f"points_{os.getpid()}"
    server.execute(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.points (id INT PRIMARY KEY, n INT NOT NULL, v VARCHAR(100))",
        f"INSERT INTO {name}.points {large.NUMBERS} SELECT i, 0, REPEAT('x', 100) FROM n WHERE i < {POINTS}",
    )
    try:
        yield Login(server.host, server.port, server.user, server.password, name)
    finally:
        server.execute(f"DROP DATABASE {name}")


@contextmanager
def clients(login: Login) -> Iterator[Callable[[], list[tuple[float, float]]]]:
    """The clients at work; what is given ends them, and returns when each statement began, and its milliseconds."""
    context = multiprocessing.get_context("spawn")
    over, answers = context.Event(), context.SimpleQueue()
    processes = [context.Process(target=work, args=(login, over, answers, seed)) for seed in range(CLIENTS)]
    for process in processes:
        process.start()

    def ended() -> list[tuple[float, float]]:
        over.set()
        return [one for _ in processes for one in answers.get()]

    try:
        yield ended
    finally:
        over.set()
        for process in processes:
            process.join(30)


def work(login: Login, over: Event, answers: multiprocessing.SimpleQueue[list[tuple[float, float]]], seed: int) -> None:
    """Read and update single rows in turn until it is over. The clock is one for all processes of the machine."""
    some, timed = random.Random(seed), list[tuple[float, float]]()
    connection = pymysql.connect(
        host=login.host, port=login.port, user=login.user, password=login.password, database=login.database,
        autocommit=True,
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        while not over.wait(PAUSE_S):
            for sql in ("SELECT n, v FROM points WHERE id = %s", "UPDATE points SET n = n + 1 WHERE id = %s"):
                began = time.monotonic()
                cursor.execute(sql, [some.randrange(POINTS)])
                cursor.fetchall()
                timed.append((began, (time.monotonic() - began) * 1000))
    answers.put(timed)


if __name__ == "__main__":
    sys.exit(main())
