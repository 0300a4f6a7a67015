"""`make bench`: how late the alarm of a pipeline is while others cannot be reached → build/bench/watch.json.

200 real `PipelineTrigger`s on one event loop, as a triggerer runs them. 150 pipelines are whole; of the other 50 the Connect
worker is gone: of one half the port refuses, of the other it accepts and never answers. The whole ones read one real
MySQL, one real Kafka broker and one real Iceberg catalog. Their 150 Connect workers are stubs that answer over real HTTP on
150 ports, because 150 JVMs fit on no machine that runs this. Once every pipeline was looked at, the connectors of the whole
ones fail, one after the other over a minute; measured is how long after its look was due each alarm comes. A round
without the 50 comes first, for comparison. The exit status is 1 when the limit is passed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

import stack
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.triggers.base import Answer, State
from airflow_cdc.triggers.watch import PipelineTrigger
from stack import connections
from stack.mysql import MySqlServer, MySqlSettings

LIVE, REFUSED, BLACK_HOLES = 150, 25, 25
POKE_SECONDS = 60.0
SPREAD_SECONDS = 60.0
LATE_SECONDS = 5.0
TABLE = "bench.t"
OUT = Path("build/bench/watch.json")


def main() -> int:
    """Measure, write, print; 1 when an alarm is late."""
    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder, ExitStack() as ends:
        servers = ends.enter_context(
            stack.start(Path(folder) / "s", mysql_settings=[MySqlSettings(name="bench")], services=("mysql", "kafka"))
        )
        world = World(Path(folder), servers)
        world.fill()
        alone = world.round(dead=0)
        beside = world.round(dead=REFUSED + BLACK_HOLES)
    worst = beside.seconds()["alarm after its look was due"]["max"]
    verdict = {
        "alarm beside 50 dead endpoints, seconds after its look was due": {
            "found": worst, "limit": LATE_SECONDS, "kept": worst <= LATE_SECONDS and len(beside.alarms) == LIVE
        }
    }  # fmt: skip
    result = {
        "taken_at": datetime.now(UTC).isoformat(),
        "triggers": {"live": LIVE, "refused": REFUSED, "black holes": BLACK_HOLES},
        "real": "MySQL, Kafka, Iceberg catalog, triggers, sockets; the 150 Connect workers are HTTP stubs",
        "poke_interval": POKE_SECONDS,
        "150 alone": alone.seconds(),
        "150 beside 50 dead": beside.seconds(),
        "limits": verdict,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")
    print(OUT.read_text())
    return 0 if all(one["kept"] for one in verdict.values()) else 1


@dataclass(slots=True)
class Times:
    """What was measured in one round, in seconds, by pipeline."""

    first: dict[str, float] = field(default_factory=dict)
    alarms: dict[str, float] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    dead_looks: list[float] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    processor: float = 0.0

    def seconds(self) -> dict[str, Any]:
        return {
            "first answer of a live pipeline": spread(list(self.first.values())),
            "every answer of a live pipeline after it was due": spread(self.looks),
            "alarm after its look was due": spread(list(self.alarms.values())),
            "answer of a dead pipeline after it was due": spread(self.dead_looks),
            "alarms": len(self.alarms),
            "codes": sorted(self.codes),
            "processor seconds": round(self.processor, 1),
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    if not values:
        return {}
    ordered = sorted(values)
    at99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {"median": round(statistics.median(ordered), 2), "p99": round(at99, 2), "max": round(ordered[-1], 2)}


class TimedTrigger(PipelineTrigger):
    """A PipelineTrigger that writes down when its looks were due and answered."""

    times: Times
    began: float

    async def _ask(self, prepared: Any) -> Answer:
        due = time.monotonic()
        answer = await super()._ask(prepared)
        self.note(time.monotonic(), due, answer)
        return answer

    def note(self, now: float, due: float, answer: Answer) -> None:
        if self.pipeline.startswith("dead"):
            self.times.dead_looks.append(now - due)
            return
        self.times.codes.add(answer.reason.partition(":")[0])
        if self.pipeline not in self.times.first:
            self.times.first[self.pipeline] = now - self.began
            return
        self.times.looks.append(now - due)
        if answer.state is State.PROBLEM:
            self.times.alarms[self.pipeline] = now - due


@dataclass(slots=True)
class World:
    """The servers, and the registry of the round under way."""

    folder: Path
    servers: stack.Stack

    @property
    def mysql(self) -> MySqlServer:
        return self.servers.mysql["bench"]

    @property
    def source(self) -> MySqlSource:
        login = self.mysql.cdc
        return MySqlSource(MySqlEndpoint(self.mysql.host, self.mysql.port, login.user, login.password))

    @property
    def lake_properties(self) -> dict[str, str]:
        home = self.folder / "lake"
        home.mkdir(exist_ok=True)
        return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/warehouse"}

    def fill(self) -> None:
        """A source table, and a stamped sink table of every pipeline."""
        self.mysql.execute(
            "CREATE DATABASE bench", f"CREATE TABLE {TABLE} (id INT PRIMARY KEY)", f"INSERT INTO {TABLE} VALUES (1)"
        )
        lake = Lake("lake", self.lake_properties)
        for name in names(REFUSED + BLACK_HOLES):
            lake.ensure_table(name, "t", [("id", "int")])
            table = lake.table(name, "t")
            table.append(pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow()), Stamp(0).to_summary())

    def round(self, dead: int) -> Times:
        """All triggers at once; then a fault in each live pipeline."""
        with ExitStack() as ends:
            live = ends.enter_context(stubs(self.offset()))
            gone = ends.enter_context(dead_ports(dead))
            self.declare(dict(zip(names(dead), [*live, *gone], strict=True)))
            return asyncio.run(self.watch(live, dead))

    def offset(self) -> dict[str, Any]:
        """The end of the source's log, as a connector would have stored it."""
        here = mysql_position(self.source.position().position)
        return {"file": here.file, "pos": here.pos, "gtids": str(here.gtids), "ts_sec": 1}

    def declare(self, ports: dict[str, int]) -> None:
        """The registry, and the connections in the environment."""
        if self.servers.kafka is None:
            raise RuntimeError("there is no Kafka broker")
        made = {
            "bench_mysql": connections.to_mysql(self.mysql),
            "bench_kafka": connections.to_kafka(self.servers.kafka.bootstrap),
            "lake": connections.to_lake(self.lake_properties),
            **{f"c_{name}": connections.to_connect(f"http://127.0.0.1:{port}") for name, port in ports.items()},
        }
        os.environ |= connections.variables(made)
        declared = {
            name: {
                "source": {"kind": "mysql", "conn_id": "bench_mysql", "tables": [TABLE]},
                "connector": {"kind": "debezium", "conn_id": f"c_{name}", "name": name},
                "transport": {"kind": "kafka", "conn_id": "bench_kafka"},
                "sink": {"kind": "iceberg", "catalog": "lake", "namespace": name},
            }
            for name in ports
        }
        self.registry.write_text(yaml.safe_dump({"pipelines": declared}))

    @property
    def registry(self) -> Path:
        return self.folder / "pipelines.yaml"

    async def watch(self, live: Sequence[int], dead: int) -> Times:
        times, began = Times(), time.monotonic()
        processor = time.process_time()
        triggers = [self.trigger(name, times, began) for name in names(dead)]
        running = [asyncio.ensure_future(anext(each.run())) for each in triggers]
        while len(times.first) < LIVE:  # noqa: ASYNC110 - the triggers know nothing of events
            await asyncio.sleep(0.1)
        for port in live:
            await asyncio.to_thread(fail, port)
            await asyncio.sleep(SPREAD_SECONDS / LIVE)
        await asyncio.wait(running[:LIVE], timeout=3 * POKE_SECONDS)
        times.processor = time.process_time() - processor
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return times

    def trigger(self, name: str, times: Times, began: float) -> TimedTrigger:
        made = TimedTrigger(
            pipeline=name,
            registry=str(self.registry),
            report_dir=str(self.folder / "reports"),
            poke_interval=POKE_SECONDS,
            timeout=3600.0,
        )
        made.times, made.began = times, began
        return made


def names(dead: int) -> list[str]:
    """The pipelines of a round: the live ones, then the dead."""
    return [*(f"live{n:03}" for n in range(LIVE)), *(f"dead{n:03}" for n in range(dead))]


def fail(port: int) -> None:
    """Let the connector of a stub fail."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/fail", method="PUT")
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass


@contextmanager
def stubs(offset: dict[str, Any]) -> Iterator[list[int]]:
    """The Connect workers of the live pipelines, in a process of their own; their ports."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.connect_stub", str(LIVE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the stubs have no pipes")
        print(json.dumps(offset), file=process.stdin, flush=True)
        yield json.loads(process.stdout.readline())
        with suppress(BrokenPipeError):
            process.stdin.close()


@contextmanager
def dead_ports(count: int) -> Iterator[list[int]]:
    """Ports, half of which refuse and half of which accept and never answer."""
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners[: count // 2]:
        listener.close()
    try:
        yield ports
    finally:
        for listener in listeners[count // 2 :]:
            listener.close()


if __name__ == "__main__":
    sys.exit(main())
