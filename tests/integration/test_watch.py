"""Watching a real connector that runs: one outage is one message and one recovery, and one message when it is over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import stack
from airflow_cdc.operators.watch import WatchPipelineOperator
from airflow_cdc.triggers.watch import PipelineTrigger
from stack.connect import ConnectWorker
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.faults_diagnosis.subject import TABLES, Subject
from tests.faults_diagnosis.world import World
from tests.unit.http_server import Answer, Scripted, serving
from tests.unit.operator_support import TaskInstance

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

NAME = "p901"


def declare(subject: Subject, unknown_for: str) -> None:
    """The pipeline's policy. On a busy machine a look may well be UNKNOWN: only one test wants to be told of that soon."""
    alert = {"repeat_interval": "1h", "unknown_for": unknown_for, "keep_firing_for": "2s"}
    world = subject.world
    world.pipelines[NAME]["policy"] = {"recover_automatically": True, "notify": ["ops"], "alert": alert}
    world.registry.write_text(yaml.safe_dump({"pipelines": world.pipelines}))


@dataclass
class Watching:
    """The watch of one pipeline, run after run, as the @continuous schedule starts them."""

    task: Any
    webhooks: Scripted
    registry: Path
    results: list[dict[str, Any]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def run_once(self) -> dict[str, Any]:
        """One run: the trigger asks until it fires or its time is up, then the task resumes."""
        carried = self.results[-1]["outages"] if self.results else None
        trigger = PipelineTrigger(
            pipeline=NAME,
            registry=str(self.registry),
            report_dir=self.task.report_dir,
            poke_interval=0.3,
            timeout=3.0,
            outages=carried,
        )

        async def first() -> Any:
            return (await anext(trigger.run())).payload

        event = asyncio.run(first())
        self.events.append(event["state"])
        context = {
            "run_id": f"scheduled__{len(self.results)}",
            "ti": TaskInstance(),
            "task": self.task,
            "outlet_events": Outlets(),
            "params": {},
        }
        self.results.append(self.task.told(context, event))
        return self.results[-1]

    @property
    def texts(self) -> list[str]:
        return [body["text"] for _, _, body, _ in self.webhooks.requests]

    @property
    def recoveries(self) -> list[str]:
        return [result["recovery_run_id"] for result in self.results if result["recover"]]


class Outlets:
    """Outlet events that nobody listens to."""

    def __getitem__(self, alias: Any) -> Outlets:
        return self

    def add(self, asset: Any, extra: Any = None) -> None:
        """Taken."""


@pytest.fixture
def subject(
    servers: stack.Stack, mysql: MySqlServer, connect_worker: ConnectWorker, tmp_path: Path
) -> Iterator[Subject]:
    """A healthy pipeline with a real connector."""
    world = World(tmp_path, servers)
    made = Subject(world, NAME, "mysql")
    made.set_up()
    declare(made, unknown_for="1h")
    yield made
    made.delete()
    made.sql(f"DROP DATABASE {NAME}")


@pytest.fixture
def watching(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    with serving() as webhooks:
        webhooks.answers = [Answer()]
        environment = subject.world.environment() | {
            "AIRFLOW_CONN_OPS": f'{{"conn_type": "http", "host": "{webhooks.url}/hook"}}'
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        registry = subject.world.registry
        task: Any = WatchPipelineOperator(
            task_id="watch", pipeline=NAME, registry=str(registry), report_dir=str(tmp_path / "reports")
        )
        monkeypatch.setattr(type(task), "skip", lambda _self, ti, tasks: None)
        yield Watching(task, webhooks, registry)


@pytest.fixture
def writer(subject: Subject) -> Iterator[None]:
    """Rows all the time, so that the connector's offset moves between looks."""
    stop = threading.Event()

    def write() -> None:
        number = 1000
        while not stop.wait(0.05):
            number += 1
            subject.sql(f"INSERT INTO {NAME}.{TABLES[number % 2]} VALUES ({number}, 'while it is watched')")

    thread = threading.Thread(target=write, name="writer")
    thread.start()
    yield
    stop.set()
    thread.join(30)


def test_one_outage_of_a_connector_that_runs_is_one_message_and_one_recovery(
    subject: Subject, watching: Watching, writer: None
) -> None:
    subject.world.lake.catalog.drop_table((NAME, TABLES[0]))
    offsets = []
    for _ in range(6):
        watching.run_once()
        offsets.append(subject.offset())
        wait_until(lambda: subject.offset() != offsets[-1] or None, timeout=30, what="the offset moves")
    assert all(offset != offsets[0] for offset in offsets[1:])
    assert watching.events == ["problem", *["timeout"] * 5]
    assert len(watching.texts) == 1, watching.texts
    for word in (f"{NAME}: TABLE_ADDED since", "What follows: cdc_recovery is triggered", f"[{NAME}:TABLE_ADDED:1]"):
        assert word in watching.texts[0]
    assert len(watching.recoveries) == 1

    subject.fill(TABLES[0], subject.stamp())  # the table is there again, applied to the end: as a recovery leaves it

    def resolved() -> bool | None:
        return watching.run_once()["alerts"] != [] or None

    wait_until(resolved, timeout=120, what="the outage is resolved")
    assert f"{NAME}: resolved: TABLE_ADDED" in watching.texts[1]
    assert "The pipeline is healthy." in watching.texts[1]
    assert (len(watching.texts), len(watching.recoveries)) == (2, 1)


@pytest.mark.slow
def test_a_revoked_password_is_told_after_a_time_and_resolved_when_it_works_again(
    subject: Subject, watching: Watching
) -> None:
    declare(subject, unknown_for="2s")
    login, server = subject.mysql.cdc, subject.mysql
    server.execute(f"ALTER USER '{login.user}'@'%' ACCOUNT LOCK")
    try:
        wait_until(lambda: watching.run_once()["alerts"] != [] or None, timeout=120, what="the UNKNOWN is told")
        watching.run_once()
    finally:
        server.execute(f"ALTER USER '{login.user}'@'%' ACCOUNT UNLOCK")
    assert len(watching.texts) == 1, watching.texts
    assert f"{NAME}: UNKNOWN since" in watching.texts[0]
    assert "locked" in watching.texts[0]
    wait_until(lambda: watching.run_once()["alerts"] != [] or None, timeout=120, what="the UNKNOWN is resolved")
    assert f"{NAME}: resolved: UNKNOWN" in watching.texts[1]
    assert watching.recoveries == []
