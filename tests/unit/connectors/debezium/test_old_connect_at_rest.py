"""When a connector of a Kafka Connect before 3.6 is at rest, and what is written to its topic only then.

The worker is made here; a real one of 3.4.1: tests/integration/test_old_connect.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from airflow_cdc.connectors.debezium import old_connect
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.old_connect import OldConnectDebezium
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.errors import ConfigError, DeadlineError, OffsetRejectedError, TransportError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.topics import TopicState
from tests.unit.clocks import waiting
from tests.unit.connectors.kafka_connect.test_offsets_topic import KEY, SERVER, Record

OTHER = b'["another",{"server":"another"}]'
STATE = {"pos": 4}


@dataclass
class Worker:
    """A worker with one connector, and its two topics; `told`: what it was told. A restart passes through `between`.

    `silent`: of so many tasks, the last ones, nothing is said.
    """

    state: str = "RUNNING"
    tasks: tuple[str, ...] = ("RUNNING",)
    version: str = "3.4.1"
    between: tuple[str, ...] = ("RESTARTING", "PAUSED")
    silent: int = 0
    where: str = "Kafka"
    told: list[str] = field(default_factory=list)
    offsets: list[Record] = field(default_factory=lambda: [Record(KEY.encode(), json.dumps(STATE).encode(), 2, 0)])
    statuses: list[Record] = field(default_factory=list)

    def reported(self) -> ConnectorState:
        return ConnectorState(self.state, tuple(TaskState(n, one) for n, one in enumerate(self.tasks)))

    def call(self, method: str, path: tuple[str, ...], **_: Any) -> None:
        self.told.append(f"{method} {path[-1]}")
        self.state, self.tasks = "PAUSED", ("PAUSED",) * len(self.tasks)

    def restart(self, only_failed: bool) -> None:
        self.told.append(f"restart {only_failed}")
        for number in range(len(self.tasks) - self.silent):
            for state in self.between:
                value = json.dumps({"state": state}).encode()
                key = f"status-task-shop-{number}".encode()
                self.statuses.append(Record(key, value, 0, len(self.statuses)))

    # ---- what its topics are

    def topic_states(self, names: list[str]) -> dict[str, TopicState]:
        return {"statuses": TopicState("statuses", "s", {0: (0, len(self.statuses))})} if names == ["statuses"] else {}

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]] | None = None) -> list[Record]:
        begin, end = (ranges or {0: (0, 1_000)})[0]
        return (self.offsets if topic == "offsets" else self.statuses)[begin:end]

    def send(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> tuple[int, int]:
        assert topic == "offsets"
        self.told.append("write")
        self.offsets.append(Record(key, value, partition or 0, len(self.offsets)))
        return partition or 0, len(self.offsets) - 1


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def connector(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> OldConnectDebezium:
    waiting(monkeypatch, old_connect)
    monkeypatch.setattr(DebeziumConnector, "state", lambda _self, _name: worker.reported())
    monkeypatch.setattr(DebeziumConnector, "raw_config", lambda _self, _name: {})
    monkeypatch.setattr(DebeziumConnector, "root", lambda _self: {"version": worker.version})
    monkeypatch.setattr(
        DebeziumConnector, "restart", lambda _self, _name, only_failed=True: worker.restart(only_failed)
    )
    endpoint = ConnectEndpoint("http://127.0.0.1:1")
    made = OldConnectDebezium(endpoint, MySqlCodec(), cast("Any", worker), "offsets", "statuses")
    monkeypatch.setattr(made, "_http", worker)
    return made


@pytest.mark.parametrize(
    ("state", "tasks", "shown"),
    [
        ("PAUSED", ("PAUSED",), "STOPPED"),
        ("PAUSED", (), "STOPPED"),
        ("PAUSED", ("PAUSED", "RUNNING"), "PAUSED"),
        ("PAUSED", ("FAILED",), "PAUSED"),
        ("RUNNING", ("RUNNING",), "RUNNING"),
        ("FAILED", ("FAILED",), "FAILED"),
    ],
)
def test_it_counts_as_stopped_once_it_and_each_of_its_tasks_is_paused(
    worker: Worker, connector: OldConnectDebezium, state: str, tasks: tuple[str, ...], shown: str
) -> None:
    worker.state, worker.tasks = state, tasks
    assert connector.state("shop").state == shown


def test_it_is_paused_and_then_restarted_so_that_the_task_makes_its_last_commit_before_ours(
    worker: Worker, connector: OldConnectDebezium
) -> None:
    """Seen on 3.4.1: the task that was paused commits once more when it ends."""
    worker.tasks = ("RUNNING", "RUNNING")
    connector.stop("shop")
    assert worker.told == ["PUT pause", "restart False"]


@pytest.mark.parametrize("between", [(), ("PAUSED",)], ids=["no status", "only the old one again"])
def test_a_restart_that_shows_in_no_status_has_not_happened(
    worker: Worker, connector: OldConnectDebezium, between: tuple[str, ...]
) -> None:
    """Connect answers before it restarts."""
    worker.between = between
    worker.statuses.append(Record(b"status-task-shop-0", b'{"state":"RUNNING"}'))  # of an earlier life
    with pytest.raises(DeadlineError, match="to restart and pause"):
        connector.stop("shop", timeout=2)


def test_each_of_its_tasks_has_to_be_restarted(worker: Worker, connector: OldConnectDebezium) -> None:
    """Any of them may have a commit outstanding."""
    worker.tasks, worker.silent = ("RUNNING", "RUNNING"), 1
    with pytest.raises(DeadlineError, match="to restart and pause"):
        connector.stop("shop", timeout=2)


def test_what_others_write_to_the_topic_of_statuses_is_no_restart(
    worker: Worker, connector: OldConnectDebezium
) -> None:
    worker.between = ()
    restart = worker.restart

    def others(only_failed: bool) -> None:
        restart(only_failed)
        worker.statuses += [
            Record(b"status-task-another-0", b'{"state":"RUNNING"}'),
            Record(b"status-task-shop-0", b"not JSON"),
            Record(b"status-task-shop-0", None),
        ]

    worker.restart = others  # type: ignore[method-assign]
    with pytest.raises(DeadlineError, match="to restart and pause"):
        connector.stop("shop", timeout=2)


def test_an_offset_is_written_only_while_it_rests_and_after_one_more_restart(
    worker: Worker, connector: OldConnectDebezium
) -> None:
    """Somebody may have resumed and paused it since it was stopped."""
    with pytest.raises(OffsetRejectedError, match="the connector is RUNNING") as refused:
        connector.alter_offsets("shop", SERVER, {"pos": 9})
    assert (refused.value.reasons, worker.told) == (("RUNNING",), [])
    worker.state, worker.tasks = "PAUSED", ("PAUSED",)
    done = connector.alter_offsets("shop", SERVER, {"pos": 9})
    assert worker.told == ["PUT pause", "restart False", "write"]
    assert done == "written to offsets, partition 2, offset 1"
    assert connector.offsets("shop") == [{"partition": SERVER, "offset": {"pos": 9}}]


def test_a_key_of_another_prefix_is_refused_while_the_connector_has_offsets(
    worker: Worker, connector: OldConnectDebezium
) -> None:
    worker.state, worker.tasks = "PAUSED", ("PAUSED",)
    with pytest.raises(TransportError, match="no offset record with the key"):
        connector.alter_offsets("shop", {"server": "shpo"}, {"pos": 9})
    worker.offsets.clear()
    connector.alter_offsets("shop", {"server": "shpo"}, {"pos": 9})
    assert worker.told[-1] == "write"


def test_its_offsets_are_removed_and_those_of_others_stay(worker: Worker, connector: OldConnectDebezium) -> None:
    worker.state, worker.tasks = "PAUSED", ("PAUSED",)
    worker.offsets.append(Record(OTHER, b'{"pos":7}'))
    connector.delete_offsets("shop")
    assert connector.offsets("shop") == []
    assert connector.offsets("another") == [{"partition": {"server": "another"}, "offset": {"pos": 7}}]


@pytest.mark.parametrize(("version", "refused"), [("3.5.2", False), ("3.6.0", True), ("4.3.1", True), ("", False)])
def test_a_worker_that_changes_offsets_by_rest_is_not_treated_like_an_old_one(
    worker: Worker, connector: OldConnectDebezium, version: str, refused: bool
) -> None:
    worker.version = version
    if refused:
        for act in (connector.offsets, connector.stop):
            with pytest.raises(ConfigError, match="changes offsets by its REST interface"):
                act("shop")
        assert worker.told == []
    else:
        assert connector.offsets("shop") == [{"partition": SERVER, "offset": STATE}]


def test_a_topic_of_statuses_that_is_not_there_is_named(
    worker: Worker, connector: OldConnectDebezium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "topic_states", lambda _names: {})
    with pytest.raises(TransportError, match="there is no topic statuses") as refused:
        connector.stop("shop")
    assert "status.storage.topic" in refused.value.todo
