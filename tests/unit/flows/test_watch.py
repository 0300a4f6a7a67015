"""Watching: one outage is told once, and recovered once if the policy allows it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_cdc.alerting.text import Situation, text_of
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.observation import (
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    Unknown,
)
from airflow_cdc.core.pipeline import AlertPolicy, Policy
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows import watch
from airflow_cdc.flows.lateness import load_observation
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.links import runbook_url
from airflow_cdc.operators import watch as operator
from airflow_cdc.operators.watch import WatchPipelineOperator
from airflow_cdc.parts import Parts
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaTransport
from airflow_cdc.triggers.base import State
from airflow_cdc.triggers.watch import PipelineTrigger
from tests.unit.builders import GTID_OFFSET, HEALTHY, PIPELINE, seen, with_connector
from tests.unit.faults import PURGED, RECOVERY, ROWS, epochs
from tests.unit.operator_support import Task, TaskInstance
from tests.unit.stand_ins import stand_in

LOST = seen(source=PURGED)
NO_LAKE = seen(control=Unknown("the catalog is down"), sink=Unknown("the catalog is down"))
ADDED = seen(sink=SinkFacts({"shop.customers": SinkTableFacts(exists=True, head=7, stamp=Stamp(3), rows=10)}))
ALLOWED = replace(PIPELINE, policy=Policy(recover_automatically=True))
START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


@pytest.fixture
def ledger() -> dict[str, Any]:
    return {}


@pytest.fixture
def run(ledger: dict[str, Any], tmp_path: Path) -> Run:
    kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
    clients = Parts(*(stand_in(kind) for kind in kinds))
    control: Any = clients.control
    control.ledger_get.side_effect = lambda _run: json.loads(json.dumps(ledger))
    control.ledger_set.side_effect = lambda _run, key, value: ledger.__setitem__(key, value)
    return Run(ALLOWED, clients, "w", str(tmp_path / "reports"))


def shows(monkeypatch: pytest.MonkeyPatch, obs: Observation) -> None:
    monkeypatch.setattr(watch, "observe", lambda _run, within: obs)


def at(minute: float) -> str:
    return (START + timedelta(minutes=minute)).isoformat()


def alerts(facts: Facts) -> list[tuple[str, str]]:
    return [(alert["status"], alert["dedup_key"]) for alert in facts["alerts"]]


def moving(obs: Observation, step: int) -> Observation:
    """The same problem under a connector that runs: its stored offset is another one at each look."""
    offset = {**GTID_OFFSET, "pos": 500 + step}
    return replace(obs, connector=with_connector(offset=offset).connector)


# what a recovery is for while the connector goes on running, so that its offset moves
RECOVERED_WHILE_IT_RUNS = {
    "TABLE_ADDED", "SELF_HEALED", "TRANSPORT_GAP", "TRANSPORT_REPLACED", "STAMP_LOST", "EPOCH_BEHIND"
}  # fmt: skip


@pytest.mark.parametrize(
    ("obs", "code"),
    [pytest.param(obs, code, id=name) for name, obs, code, _ in ROWS if code in RECOVERED_WHILE_IT_RUNS],
)
def test_a_connector_that_runs_makes_one_outage_and_one_recovery(
    run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation, code: str
) -> None:
    told = []
    for step in range(12):
        shows(monkeypatch, moving(obs, step))
        told.append(watch.tell(run, at=at(step)))
    epoch = obs.control.epoch if isinstance(obs.control, ControlFacts) else 0
    assert {facts["diagnosis"]["code"] for facts in told} == {code}
    assert [alerts(facts) for facts in told] == [[("firing", f"shop:{code}:{epoch}")], *([] for _ in range(11))]
    assert [facts["recover"] for facts in told] == [True] + [False] * 11


def test_an_outage_is_named_by_pipeline_code_and_epoch(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for obs in (LOST, moving(LOST, 1), replace(LOST, control=ControlFacts(4)), ADDED):
        shows(monkeypatch, obs)
        outage = watch.look(run).outage
        assert outage is not None
        names.append(outage.name)
    assert names == ["gtid_purged_e3", "gtid_purged_e3", "gtid_purged_e4", "table_added_e3"]


def test_an_outage_is_resolved_and_told_again_when_it_returns(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    first = watch.tell(run, at=at(0))
    shows(monkeypatch, HEALTHY)
    assert not watch.look(run, at=at(1)).due
    assert watch.look(run, at=at(7)).due
    over = watch.tell(run, at=at(7))
    assert (alerts(over), over["recover"]) == ([("resolved", "shop:GTID_PURGED:3")], False)
    assert not watch.look(run, at=at(8)).due
    shows(monkeypatch, LOST)
    again = watch.tell(run, at=at(20))
    assert (again["recover"], again["recovery_run_id"] != first["recovery_run_id"]) == (True, True)


@pytest.mark.parametrize("ended", ["failed, and cleared by nobody", "rejected", "closed, and the problem stands"])
def test_a_recovery_is_triggered_once_however_it_ends(run: Run, monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    """The epoch rises with a recovery that was opened; a rejected one opens none."""
    shows(monkeypatch, ADDED)
    triggered = [watch.tell(run, at=at(0))]
    if ended != "rejected":
        lease = Lease(RECOVERY.run_id, at(20))
        for minute in range(1, 40):
            shows(monkeypatch, replace(ADDED, control=ControlFacts(4, RECOVERY, lease)))
            triggered.append(watch.tell(run, at=at(minute)))
    later = ADDED if ended == "rejected" else replace(ADDED, control=ControlFacts(4), sink=epochs(customers=4))
    for minute in range(40, 1440, 10):
        shows(monkeypatch, moving(later, minute))
        triggered.append(watch.tell(run, at=at(minute)))
    assert sum(facts["recover"] for facts in triggered) == 1


def test_a_recovery_that_becomes_possible_later_is_triggered_then_and_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(monkeypatch, LOST)
    watch.tell(replace(run, pipeline=PIPELINE), at=at(0))  # the policy did not allow it yet
    assert watch.look(run, at=at(1)).due
    facts = watch.tell(run, at=at(1))
    assert (alerts(facts), facts["recover"]) == ([("firing", "shop:GTID_PURGED:3")], True)
    assert (
        facts["recovery_run_id"]
        == facts["alerts"][0]["recovery_run_id"]
        == "watch__shop__gtid_purged_e3__20261123T090000"
    )
    assert not watch.look(run, at=at(2)).due


def test_nothing_is_told_of_a_healthy_pipeline(
    run: Run, ledger: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(monkeypatch, HEALTHY)
    assert not watch.look(run).due
    assert ledger == {}


@pytest.mark.parametrize(
    "obs", [seen(control=ControlFacts(4, RECOVERY)), with_connector(state="STOPPED", tasks=())], ids=["open", "stopped"]
)
def test_what_belongs_to_somebody_is_told_and_left_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation
) -> None:
    shows(monkeypatch, obs)
    told = watch.tell(run)
    assert len(told["alerts"]) == 1
    assert not told["recover"]


def test_without_the_policy_nothing_is_recovered_by_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    assert not watch.tell(replace(run, pipeline=PIPELINE))["recover"]


# ---- what cannot be read ------------------------------------------------------------------------


def test_an_unknown_that_lasts_is_told_although_the_watch_begins_again_each_hour(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the control table lives from one look to the next."""
    patient = replace(PIPELINE, policy=Policy(alert=AlertPolicy(unknown_for=2 * 3600)))
    shows(monkeypatch, seen(source=Unknown("Access denied for user 'cdc'")))
    due = [minute for minute in range(0, 180, 10) if watch.look(replace(run, pipeline=patient), at=at(minute)).due]
    assert due[0] == 120
    facts = watch.tell(replace(run, pipeline=patient), at=at(125))
    assert alerts(facts) == [("firing", "shop:UNKNOWN:3")]
    text = text_of(Situation.from_json(facts["alerts"][0], facts), "https://airflow.example/cdc/runbook#x")
    assert "Access denied for user 'cdc'" in text
    assert "since 2026-11-23 09:00 UTC (2 h)" in text
    assert "See https://airflow.example/cdc/runbook#x." in text
    shows(monkeypatch, HEALTHY)
    watch.look(run, at=at(130))
    assert alerts(watch.tell(run, at=at(136))) == [("resolved", "shop:UNKNOWN:3")]


def test_with_the_lake_down_the_watch_carries_its_own_log(
    run: Run, ledger: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    control: Any = run.clients.control
    control.ledger_get.side_effect = control.ledger_set.side_effect = UnknownStateError("the catalog is down")
    shows(monkeypatch, NO_LAKE)
    carried = watch.look(run, at=at(0)).progress.log
    assert watch.look(run, carried, at(15)).due
    facts = watch.tell(run, carried, at(15))
    assert alerts(facts) == [("firing", "shop:UNKNOWN:0")]
    later = watch.carried_log(facts)  # as the next watch has it from XCom
    assert not watch.look(run, later, at(30)).due
    assert ledger == {}


def test_a_control_table_that_cannot_be_written_makes_no_storm(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    control: Any = run.clients.control
    control.ledger_set.side_effect = UnknownStateError("read-only")
    shows(monkeypatch, LOST)
    facts: Facts = {}
    told = []
    for minute in range(5):
        facts = watch.tell(run, watch.carried_log(facts), at(minute))
        told.append((alerts(facts), facts["recover"]))
    assert told == [([("firing", "shop:GTID_PURGED:3")], True), *[([], False)] * 4]


def test_the_newer_copy_of_the_log_counts(run: Run, ledger: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    stale = watch.carried_log(watch.tell(run, at=at(0)))
    shows(monkeypatch, HEALTHY)
    watch.tell(run, at=at(1))
    watch.tell(run, at=at(7))  # resolved: the control table is ahead of the carried copy
    assert not watch.look(run, stale, at(8)).due
    ledger.clear()  # the table was put back
    shows(monkeypatch, LOST)
    assert not watch.look(run, stale, at(9)).due


def test_facts_that_the_diagnosis_cannot_handle_are_unknown_and_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    never = replace(run, pipeline=replace(PIPELINE, policy=Policy(alert=AlertPolicy(unknown_for=0))))
    shows(monkeypatch, replace(LOST, source=replace(PURGED, gtid_purged="not a set")))  # type: ignore[arg-type]
    facts = watch.tell(never, at=at(0))
    assert alerts(facts) == [("firing", "shop:UNKNOWN:3")]
    assert "unexpected" in str(facts["diagnosis"]["evidence"])
    assert not facts["recover"]


def test_a_control_table_with_an_odd_log_or_folder_stops_no_look(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    control: Any = run.clients.control
    control.ledger_get.side_effect = control.ledger_set.side_effect = RecursionError("1,100 brackets")

    def silence(*_: object) -> None:
        raise KeyError("acknowledged")

    monkeypatch.setattr(ReportStore, "silence", silence)
    shows(monkeypatch, LOST)
    assert alerts(watch.tell(run, at=at(0))) == [("firing", "shop:GTID_PURGED:3")]


# ---- the trigger --------------------------------------------------------------------------------


def trigger_of(**more: Any) -> PipelineTrigger:
    return PipelineTrigger(
        pipeline="shop", registry="p.yaml", report_dir="/reports", poke_interval=1.0, timeout=2.0, **more
    )


@pytest.mark.parametrize(
    ("obs", "state"), [(LOST, State.PROBLEM), (HEALTHY, State.WAITING), (seen(source=Unknown("down")), State.UNKNOWN)]
)
def test_what_the_trigger_answers(run: Run, monkeypatch: pytest.MonkeyPatch, obs: Observation, state: State) -> None:
    shows(monkeypatch, obs)
    assert trigger_of().probe(run).state == state


def test_the_trigger_hands_its_log_on_and_leaves_telling_to_the_task(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    control: Any = run.clients.control
    control.ledger_get.side_effect = control.ledger_set.side_effect = UnknownStateError("the catalog is down")
    never = replace(run, pipeline=replace(PIPELINE, policy=Policy(alert=AlertPolicy(unknown_for=0))))
    shows(monkeypatch, NO_LAKE)
    first, second = trigger_of(), trigger_of()
    assert first.probe(run).state is State.UNKNOWN
    outages: Any = first.outages
    assert [outage["code"] for outage in outages["outages"]] == ["UNKNOWN"]
    assert second.probe(never).state is State.PROBLEM
    assert second.outages is None


def test_the_trigger_says_when_an_outage_is_over(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = replace(run, pipeline=replace(PIPELINE, policy=Policy(alert=AlertPolicy(keep_firing_for=0))))
    shows(monkeypatch, LOST)
    watch.tell(at_once)
    shows(monkeypatch, HEALTHY)
    assert trigger_of().probe(at_once).state is State.RECOVERED


def test_every_look_is_kept_for_the_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for obs, code in ((HEALTHY, "HEALTHY"), (LOST, "GTID_PURGED")):
        shows(monkeypatch, obs)
        watch.look(run)
        kept = load_observation(run)
        assert kept is not None
        assert kept.diagnosis.code == code


def test_the_trigger_finds_the_pipelines_connections(registry: Any, connections: dict[str, str]) -> None:
    trigger = PipelineTrigger(
        pipeline="shop", registry=str(registry), report_dir="/reports", poke_interval=1.0, timeout=2.0
    )
    prepared = asyncio.run(trigger.prepare())
    assert prepared.pipeline.name == "shop"
    assert prepared.clients.transport.where == "Kafka broker:9092"
    connect: Any = prepared.clients.connector.endpoint
    assert connect.retry_for < 5  # a look is soon repeated: it does not wait as a step does
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


class Instance(TaskInstance):
    """A task instance that also has the results of earlier runs."""

    map_index = -1

    def xcom_pull(
        self,
        task_ids: str,
        key: str = "return_value",
        *,
        include_prior_dates: bool = False,
        map_indexes: int | None = None,
    ) -> Any:
        if include_prior_dates and map_indexes is None:
            return [super().xcom_pull(task_ids, key)] * 2
        return super().xcom_pull(task_ids, key) if include_prior_dates else None


def context_of(task: Any, xcom: dict[str, Any] | None = None) -> Any:
    return {"ti": Instance(xcom), "task": task, "outlet_events": Added()}


def test_the_task_defers_at_once(watching: Any, registry: Any) -> None:
    with pytest.raises(TaskDeferred) as deferred:
        watching.execute(context_of(watching))
    assert deferred.value.trigger.registry == str(registry)
    assert deferred.value.trigger.outages is None
    assert deferred.value.method_name == "told"


def test_the_log_of_the_run_before_goes_on(watching: Any) -> None:
    known = {"version": 4, "outages": []}
    with pytest.raises(TaskDeferred) as deferred:
        watching.execute(context_of(watching, {"watch": {"outages": known}}))
    assert deferred.value.trigger.outages == known


def test_a_watch_whose_time_is_up_hands_its_log_on(watching: Any) -> None:
    context = context_of(watching)
    facts = watching.told(context, {"state": "timeout", "reason": "", "outages": {"version": 5, "outages": []}})
    assert facts["outages"] == {"version": 5, "outages": []}
    assert "skipped" in watching.__dict__


def test_a_problem_is_an_asset_event_and_lets_the_recovery_run(watching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, LOST)
    context = context_of(watching)
    facts = watching.told(context, {"state": "problem", "reason": "GTID_PURGED"})
    assert facts["recover"]
    ((uri, extra),) = context["outlet_events"].events
    assert uri == "cdc://shop/problem"
    assert (extra["status"], extra["dedup_key"]) == ("firing", "shop:GTID_PURGED:3")
    assert (extra["diagnosis"], extra["plan"]) == (facts["diagnosis"], facts["plan"])
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


@pytest.fixture
def posted(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the webhook of `ops` was sent; `nobody` is named too, and is no connection."""
    named = replace(ALLOWED, policy=replace(ALLOWED.policy, notify=("nobody", "ops")))
    monkeypatch.setattr(operator, "find_pipeline", lambda _name, _registry: named)
    texts: list[str] = []

    class Post:
        def raise_for_status(self) -> None:
            """Taken."""

    def post(url: str, **kwargs: Any) -> Post:
        texts.append(f"{url} {kwargs['json']['text']}")
        return Post()

    monkeypatch.setattr("airflow_cdc.notifications.webhook.httpx.post", post)
    monkeypatch.setenv(
        "AIRFLOW_CONN_OPS", '{"conn_type": "http", "host": "https://chat.example/hook", "password": "t"}'
    )
    return texts


def test_all_who_are_named_are_told_and_one_who_cannot_be_reached_holds_nothing_up(
    watching: Any, posted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(monkeypatch, LOST)
    facts = watching.told(context_of(watching), {"state": "problem", "reason": "x"})
    assert posted == [
        f"https://chat.example/hook {text_of(Situation.from_json(facts['alerts'][0], facts), runbook_url('GTID_PURGED'))}"
    ]
    for word in ("shop: GTID_PURGED since", "Transactions that", "cdc_recovery is triggered as watch__shop__gtid_purged_e3",
                 "/cdc/runbook#gtid_purged", "[shop:GTID_PURGED:3]"):  # fmt: skip
        assert word in posted[0]


@pytest.mark.parametrize(("attempt", "messages"), [(1, 0), (2, 1), (3, 0), (21, 1)])
def test_inv_44_a_watch_that_breaks_is_told_at_its_second_attempt_and_its_last(
    watching: Any, posted: list[str], attempt: int, messages: int
) -> None:
    watching.retries = 20
    context = context_of(watching)
    context["ti"].try_number, context["exception"] = attempt, KeyError("rows of x")
    for callback in {*watching.on_retry_callback, *watching.on_failure_callback}:
        callback(context)
    assert len(posted) == messages
    assert all("shop: nobody watches it now" in text and "KeyError: 'rows of x'" in text for text in posted)


def test_callbacks_of_a_dags_author_are_kept(registry: Any) -> None:
    theirs = [lambda _context: None]
    watch_of = WatchPipelineOperator(task_id="watch", pipeline="shop", on_failure_callback=theirs[0])
    assert list(watch_of.on_failure_callback) == [*theirs, operator.tell_broken_watch]


def test_they_are_told_when_it_is_over_and_other_dags_too(
    watching: Any, posted: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = [(datetime.now(UTC) - timedelta(hours=hour)).isoformat() for hour in (3, 2)]
    shows(monkeypatch, LOST)
    watch.tell(run, at=hours[0])
    shows(monkeypatch, HEALTHY)
    watch.look(run, at=hours[1])
    context = context_of(watching)
    facts = watching.told(context, {"state": "recovered", "reason": "x"})
    ((_uri, extra),) = context["outlet_events"].events
    assert extra["status"] == "resolved"
    assert "shop: resolved: GTID_PURGED, from" in posted[0]
    assert "(1 h). The pipeline is healthy. [shop:GTID_PURGED:3]" in posted[0]
    assert not facts["recover"]


def test_a_repeated_alert_is_a_message_and_no_asset_event(
    watching: Any, posted: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows(monkeypatch, LOST)
    watch.tell(run, at=(datetime.now(UTC) - timedelta(hours=5)).isoformat())
    context = context_of(watching)
    watching.told(context, {"state": "problem", "reason": "x"})
    assert context["outlet_events"].events == []
    assert "shop: still GTID_PURGED since" in posted[0]
    assert "was already triggered for this outage" in posted[0]
    assert "This is notification 2." in posted[0]
