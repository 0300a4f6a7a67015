"""Watching: one outage is told once, and recovered once if the policy allows it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_cdc.core.observation import ControlFacts, Observation, Unknown
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.flows import watch
from airflow_cdc.flows.remember import recall
from airflow_cdc.flows.run import Run
from airflow_cdc.operators import watch as operator
from airflow_cdc.operators.watch import WatchPipelineOperator, text_of
from airflow_cdc.systems.clients import Clients
from airflow_cdc.systems.control import Control
from airflow_cdc.systems.kafka import KafkaTransport
from airflow_cdc.systems.kafka_connect import KafkaConnect
from airflow_cdc.systems.lake import Lake
from airflow_cdc.systems.mysql import MySqlSource
from airflow_cdc.triggers.base import State
from airflow_cdc.triggers.watch import PipelineTrigger

from .builders import GTID_OFFSET, HEALTHY, PIPELINE, seen, with_connector
from .faults import PURGED, RECOVERY
from .operator_support import Task, TaskInstance

LOST = seen(source=PURGED)
ALLOWED = replace(PIPELINE, policy=Policy(recover_automatically=True))


@pytest.fixture
def ledger() -> dict[str, Any]:
    return {}


@pytest.fixture
def run(ledger: dict[str, Any], tmp_path: Path) -> Run:
    kinds = (MySqlSource, KafkaConnect, KafkaTransport, Lake, Control)
    clients = Clients(*(create_autospec(kind, instance=True) for kind in kinds))
    control: Any = clients.control
    control.ledger_get.side_effect = lambda _run: dict(ledger)
    control.ledger_set.side_effect = lambda _run, key, value: ledger.__setitem__(key, value)
    return Run(ALLOWED, clients, "w", str(tmp_path / "reports"))


def shows(monkeypatch: pytest.MonkeyPatch, obs: Observation) -> None:
    monkeypatch.setattr(watch, "observe", lambda _run: obs)


def test_an_outage_is_told_once_and_recovered_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    first, again = watch.tell(run), watch.tell(run)
    assert (first["diagnosis"]["code"], first["new"], first["recover"]) == ("GTID_PURGED", True, True)
    assert (again["outage"], again["new"], again["recover"]) == (first["outage"], False, False)


def test_another_position_or_epoch_is_another_outage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    moved = replace(LOST, connector=with_connector(offset={**GTID_OFFSET, "pos": 501}).connector)
    for obs in (LOST, moved, replace(LOST, control=ControlFacts(4))):
        shows(monkeypatch, obs)
        names.add(watch.look(run).outage)
    assert len(names) == 3


def test_the_same_outage_after_it_was_over_is_told_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    assert watch.tell(run)["new"]
    shows(monkeypatch, HEALTHY)
    assert watch.look(run).over
    assert not watch.tell(run)["recover"]
    assert not watch.look(run).over
    shows(monkeypatch, LOST)
    assert watch.tell(run)["new"]


@pytest.mark.parametrize("obs", [HEALTHY, seen(source=Unknown("down"))])
def test_nothing_is_told_of_a_healthy_or_unknown_pipeline(
    run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation
) -> None:
    shows(monkeypatch, obs)
    assert not watch.look(run).new


def test_unknown_does_not_end_an_outage(run: Run, ledger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    watch.tell(run)
    shows(monkeypatch, seen(source=Unknown("down")))
    watch.tell(run)
    assert ledger["outage"].startswith("gtid_purged")


@pytest.mark.parametrize(
    "obs", [seen(control=ControlFacts(4, RECOVERY)), with_connector(state="STOPPED", tasks=())], ids=["open", "stopped"]
)
def test_what_belongs_to_somebody_is_told_and_left_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation
) -> None:
    shows(monkeypatch, obs)
    told = watch.tell(run)
    assert told["new"]
    assert not told["recover"]


def test_without_the_policy_nothing_is_recovered_by_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    assert not watch.tell(replace(run, pipeline=PIPELINE))["recover"]


@pytest.mark.parametrize(
    ("obs", "state"), [(LOST, State.PROBLEM), (HEALTHY, State.WAITING), (seen(source=Unknown("down")), State.UNKNOWN)]
)
def test_what_the_trigger_answers(run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation, state: State) -> None:
    shows(monkeypatch, obs)
    trigger = PipelineTrigger(pipeline="shop", registry="p.yaml", report_dir="/reports", poke_interval=1.0, timeout=2.0)
    assert trigger.probe(run).state == state


def test_every_look_is_kept_for_the_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for obs, code in ((HEALTHY, "HEALTHY"), (LOST, "GTID_PURGED")):
        shows(monkeypatch, obs)
        watch.look(run)
        kept = recall(run)
        assert kept is not None
        assert kept.diagnosis.code == code


def test_the_trigger_finds_the_pipelines_connections(registry: Any, connections: dict[str, str]) -> None:
    trigger = PipelineTrigger(
        pipeline="shop", registry=str(registry), report_dir="/reports", poke_interval=1.0, timeout=2.0
    )
    prepared = asyncio.run(trigger.prepare())
    assert prepared.pipeline.name == "shop"
    assert prepared.clients.transport.where == "Kafka broker:9092"
    path, kwargs = trigger.serialize()
    assert path == "airflow_cdc.triggers.watch.PipelineTrigger"
    assert PipelineTrigger(**kwargs).serialize() == (path, kwargs)


# ---- the operator ---------------------------------------------------------------------------------


class Added:
    """Outlet events of a context."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def __getitem__(self, alias: Any) -> Added:
        return self

    def add(self, asset: Any, extra: Any = None) -> None:
        self.events.append((asset.uri, extra))


@pytest.fixture
def watching(registry: Any, connections: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> Any:
    task = WatchPipelineOperator(task_id="watch", pipeline="shop")
    monkeypatch.setattr(task.__class__, "open_run", lambda _self, _context: run)
    monkeypatch.setattr(task.__class__, "skip", lambda _self, ti, tasks: task.__dict__.setdefault("skipped", tasks))
    monkeypatch.setattr(task.__class__, "get_flat_relatives", lambda _self, upstream: [] if upstream else [Task()])
    return task


def context_of(task: Any) -> Any:
    return {"ti": TaskInstance(), "task": task, "outlet_events": Added()}


def test_the_task_defers_at_once(watching: Any, registry: Any) -> None:
    with pytest.raises(TaskDeferred) as deferred:
        watching.execute({})
    assert deferred.value.trigger.registry == str(registry)
    assert deferred.value.method_name == "told"


def test_a_problem_is_an_asset_event_and_lets_the_recovery_run(watching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    context = context_of(watching)
    facts = watching.told(context, {"state": "problem", "reason": "GTID_PURGED"})
    assert facts["recover"]
    assert context["outlet_events"].events == [("cdc://shop/problem", facts)]
    assert "skipped" not in watching.__dict__


@pytest.mark.parametrize("state", ["timeout", "recovered"])
def test_without_a_new_outage_everything_after_it_is_skipped(
    watching: Any, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    shows(monkeypatch, HEALTHY)
    context = context_of(watching)
    facts = watching.told(context, {"state": state, "reason": ""})
    assert context["outlet_events"].events == []
    assert "skipped" in watching.__dict__
    assert context["ti"].pushed == {"return_value": facts}


def test_all_who_are_named_are_told_and_one_who_cannot_be_reached_holds_nothing_up(
    watching: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(monkeypatch, LOST)
    named = replace(ALLOWED, policy=replace(ALLOWED.policy, notify=("nobody", "ops")))
    monkeypatch.setattr(operator, "find_pipeline", lambda _name, _registry: named)
    posted: list[str] = []

    class Post:
        def raise_for_status(self) -> None:
            """Taken."""

    def post(url: str, **kwargs: Any) -> Post:
        posted.append(f"{url} {kwargs['json']['text']}")
        return Post()

    monkeypatch.setattr("airflow_cdc.notifications.webhook.httpx.post", post)
    monkeypatch.setenv(
        "AIRFLOW_CONN_OPS", '{"conn_type": "http", "host": "https://chat.example/hook", "password": "t"}'
    )
    facts = watching.told(context_of(watching), {"state": "problem", "reason": "x"})
    assert posted == [f"https://chat.example/hook {text_of(facts)}"]
    assert "GTID_PURGED" in posted[0]
    assert "cdc_recovery is triggered" in posted[0]
