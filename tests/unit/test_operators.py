"""Operators: resolve, call one step, return plain JSON; and what a Spark driver is told stays secret."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_cdc import links, spark_main
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    SinkError,
    SourceError,
    UnknownStateError,
    UsageError,
    VerificationError,
)
from airflow_cdc.core.observation import TopicState
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows import pending
from airflow_cdc.flows.run import Run
from airflow_cdc.hooks.endpoints import resolve_endpoints
from airflow_cdc.hooks.iceberg import IcebergCatalogHook
from airflow_cdc.hooks.kafka import CdcKafkaHook
from airflow_cdc.hooks.kafka_connect import KafkaConnectHook
from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.operators import (
    approval,
    base,
    connector,
    diagnose,
    hold,
    offset,
    open,  # noqa: A004 - the module's name
    private,
    publish,
    report,
    spark,
    watermark,
)
from airflow_cdc.registry import load_registry

from .builders import PIPELINE
from .conftest import SECRETS

DECISION: dict[str, Any] = {
    "pipeline": "shop",
    "pipeline_hash": "h",
    "tables": ["shop.orders"],
    "taken_at": "2026-11-21T09:00:00+00:00",
    "note": "",
    "diagnosis": {
        "code": "BINLOG_PURGED",
        "description": "The binlog was purged.",
        "evidence": {"oldest file": "binlog.000009"},
        "strategies": ["full_snapshot"],
        "runbook": "docs/problems.md#binlog_purged",
    },
    "plan": {
        "strategy": "full_snapshot",
        "steps": [],
        "data_loss": "nothing",
        "destructive": False,
        "needs_approval": False,
        "reason": "BINLOG_PURGED: read again",
        "refused": False,
    },
}


def decided(code: str = "BINLOG_PURGED", **plan: Any) -> dict[str, Any]:
    """A decision with some of its plan replaced."""
    return {**DECISION, "diagnosis": {**DECISION["diagnosis"], "code": code}, "plan": {**DECISION["plan"], **plan}}


class TaskInstance:
    """The part of a running task instance that operators use."""

    def __init__(self, xcom: dict[str, Any] | None = None) -> None:
        self.xcom = xcom or {}
        self.try_number = 1
        self.pushed: dict[str, Any] = {}

    def xcom_pull(self, task_ids: str) -> Any:
        return self.xcom.get(task_ids)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


class Task:
    """A task of a DAG with one task after it."""

    is_teardown = False
    rest: list[Any] = []  # noqa: RUF012 - filled below, with a task

    def get_flat_relatives(self, upstream: bool) -> list[Any]:
        return [] if upstream else Task.rest


Task.rest.append(Task())


def context(xcom: dict[str, Any] | None = None, **params: Any) -> Context:
    made = {"run_id": "manual__1", "ti": TaskInstance(xcom), "params": params, "task": Task()}
    return cast("Context", made)


def ti(made: Context) -> TaskInstance:
    return cast("TaskInstance", made["ti"])


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch, connections: dict[str, str], registry: Path) -> Callable[..., Any]:
    """Put an autospecced step in the place of `module.name`, answering `facts` (or raising it)."""
    real: dict[tuple[Any, str], Any] = {}

    def patched(module: Any, name: str, facts: Any) -> Any:
        made = create_autospec(real.setdefault((module, name), getattr(module, name)))
        if isinstance(facts, Exception):
            made.side_effect = facts
        else:
            made.return_value = facts
        monkeypatch.setattr(module, name, made)
        return made

    return patched


STEPS: list[tuple[Any, str, Any]] = [
    (connector.connector, "stop", connector.StopConnectorOperator),
    (connector.connector, "resume", connector.ResumeConnectorOperator),
    (watermark, "fence_and_watermark", watermark.CaptureWatermarkOperator),
    (offset, "reset_offset", offset.ResetOffsetOperator),
    (publish, "publish", publish.PublishOperator),
    (report, "close", report.CloseRecoveryOperator),
]


@pytest.mark.parametrize(("module", "name", "operator"), STEPS, ids=lambda v: getattr(v, "__name__", v))
def test_calls_its_step_once_and_returns_plain_json(
    module: Any, name: str, operator: Any, step: Any, tmp_path: Path
) -> None:
    called = step(module, name, {"verdict": Verdict.MATCH, "files": (1, 2)})
    facts = operator(task_id="t", pipeline="shop").execute(context(note="why", strategy="auto"))
    assert facts == {"verdict": "MATCH", "files": [1, 2]}
    assert type(facts["verdict"]) is str
    (run,) = called.call_args.args
    assert isinstance(run, Run)
    assert (run.pipeline.name, run.run_id, run.report_dir) == ("shop", "manual__1", str(tmp_path / "reports"))
    assert dict(run.options) == {"note": "why", "strategy": "auto"}
    assert run.clients.source.endpoint.password == SECRETS["mysql"]
    assert SECRETS["mysql"] not in repr(run)


def test_an_error_of_a_step_is_passed_on(step: Any) -> None:
    step(offset, "reset_offset", SourceError("W is gone", todo="Clear it."))
    with pytest.raises(SourceError, match=r"W is gone\. Clear it\."):
        offset.ResetOffsetOperator(task_id="t", pipeline="shop").execute(context())


def test_a_table_of_another_pipeline_is_one_clear_error(step: Any) -> None:
    decide = step(diagnose, "decide", DECISION)
    task = diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop")
    with pytest.raises(UsageError, match=r"pipeline shop has no table shop\.order\. Choose from: shop\.customers"):
        task.execute(context(tables=["shop.order"]))
    assert decide.call_count == 0
    task.execute(context(tables=["shop.orders"]))
    assert decide.call_args.args[0].options == {"tables": ["shop.orders"]}


def test_an_unknown_pipeline_is_one_clear_error(step: Any) -> None:
    with pytest.raises(UsageError, match=r"no pipeline 'shops' \(.*pipelines.yaml\)\. Did you mean 'shop'"):
        diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shops").execute(context())


# ---- connections ----------------------------------------------------------------------------------


def test_endpoints_of_a_pipeline(connections: dict[str, str], registry: Path) -> None:
    found = resolve_endpoints(load_registry(registry)["shop"])
    assert (found.mysql.host, found.mysql.port, found.mysql.user) == ("db", 3306, "cdc")
    assert found.connect.url == "http://connect:8083"
    assert found.kafka.bootstrap == "broker:9092"
    assert found.kafka.security["sasl.password"] == SECRETS["kafka"]
    assert (found.lake.name, found.lake.properties["type"]) == ("lake", "sql")
    assert not any(secret in repr(found) for secret in SECRETS.values())


def test_missing_connections_are_one_error_that_says_what_to_create(
    connections: dict[str, str], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_registry(registry)["shop"]
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_MYSQL")
    with pytest.raises(
        ConfigError, match=r"^connection 'shop_mysql' is not defined \(pipeline shop.*--conn-type cdc_mysql"
    ):
        resolve_endpoints(pipeline)
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    with pytest.raises(
        ConfigError, match=r"2 connections are not usable: .*'shop_mysql'.*'lake'.*--conn-type iceberg_catalog"
    ):
        resolve_endpoints(pipeline)


def conn(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_C", json.dumps(fields))
    return "c"


@pytest.mark.parametrize(
    ("extra", "ssl"),
    [
        ({}, None),
        ({"ssl_mode": "disabled"}, {"mode": "disabled"}),
        ({"ssl_mode": "VERIFY-CA", "ssl_ca": "/ca.pem"}, {"mode": "verify_ca", "ca": "/ca.pem"}),
        ({"ssl": {"ca": "/ca.pem", "cert": "/c.pem"}}, {"ca": "/ca.pem", "cert": "/c.pem"}),
        ({"ssl": '{"ca": "/ca.pem"}'}, {"ca": "/ca.pem"}),
    ],
)
def test_tls_of_a_mysql_connection(extra: dict[str, Any], ssl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(monkeypatch, conn_type="mysql", host="db", port=3307, login="u", password="p", extra=extra)
    endpoint = CdcMySqlHook(made).endpoint()
    assert (endpoint.port, endpoint.ssl) == (3307, ssl)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "postgres", "host": "db"}, "type 'postgres'.*Change its type to cdc_mysql or mysql"),
        ({"conn_type": "mysql", "login": "u"}, "host is empty"),
        ({"conn_type": "mysql", "host": "db"}, "login is empty"),
        (
            {"conn_type": "mysql", "host": "db", "login": "u", "extra": {"ssl_mode": "on"}},
            "ssl_mode is 'on'.*verify_ca",
        ),
        ({"conn_type": "mysql", "host": "db", "login": "u", "extra": {"ssl": "{"}}, "ssl is not JSON"),
        (
            {"conn_type": "mysql", "host": "db", "login": "u", "extra": {"read_timeout": "soon"}},
            "read_timeout is 'soon'",
        ),
    ],
)
def test_a_bad_mysql_connection_says_what_is_wrong(
    fields: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=said):
        CdcMySqlHook(conn(monkeypatch, **fields)).endpoint()


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "c"}, "http://c:8083"),
        ({"host": "c", "port": 80, "schema": "https"}, "https://c:80"),
        ({"host": "https://c/prefix"}, "https://c/prefix"),
    ],
)
def test_url_of_a_connect_connection(fields: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(monkeypatch, conn_type="kafka_connect", extra={"verify": "false"}, **fields)
    endpoint = KafkaConnectHook(made).endpoint()
    assert (endpoint.url, endpoint.verify) == (url, False)


def test_host_and_port_make_a_kafka_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = CdcKafkaHook(conn(monkeypatch, conn_type="kafka", host="b", port=9093)).endpoint()
    assert (endpoint.bootstrap, dict(endpoint.security)) == ("b:9093", {})


def test_secrets_of_a_catalog_stand_in_the_password_field(monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(
        monkeypatch, conn_type="iceberg_catalog", host="https://x", login="id", password="s", extra={"type": "rest"}
    )
    endpoint = IcebergCatalogHook(made).endpoint()
    assert endpoint.properties == {"type": "rest", "uri": "https://x", "credential": "id:s"}
    with pytest.raises(ConfigError, match="neither type nor uri"):
        IcebergCatalogHook(conn(monkeypatch, conn_type="iceberg_catalog")).endpoint()


# ---- diagnose, approve, open ----------------------------------------------------------------------


def test_a_healthy_pipeline_skips_the_rest(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step(diagnose, "decide", decided("HEALTHY", strategy="none"))
    skipped = create_autospec(diagnose.CdcDiagnoseOperator.skip)
    monkeypatch.setattr(diagnose.CdcDiagnoseOperator, "skip", skipped)
    facts = diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop").execute(context())
    assert facts["plan"]["strategy"] == "none"
    assert skipped.call_args.kwargs["tasks"] == Task.rest


@pytest.mark.parametrize(("asked", "passed"), [("auto", None), ("", None), ("full_snapshot", "full_snapshot")])
def test_asks_for_the_strategy_that_was_chosen(asked: str, passed: str | None, step: Any) -> None:
    decide = step(diagnose, "decide", DECISION)
    assert diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop", strategy=asked).execute(context()) == DECISION
    assert decide.call_args.args[1] == passed


@pytest.mark.parametrize(("code", "kind"), [("UNKNOWN", UnknownStateError), ("GTID_PURGED", CdcError)])
def test_a_refused_plan_fails_and_is_kept_for_the_report(code: str, kind: type[CdcError], step: Any) -> None:
    step(diagnose, "decide", decided(code, strategy="none", refused=True, reason="source: refused"))
    made = context()
    with pytest.raises(kind, match="nothing was changed: source: refused") as raised:
        diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop").execute(made)
    assert type(raised.value) is kind
    assert ti(made).pushed["return_value"]["plan"]["refused"] is True


def approve(made: Context) -> Any:
    return approval.ApproveRecoveryOperator(task_id="t", pipeline="shop").execute(made)


def test_no_person_is_asked_without_need() -> None:
    assert approve(context({"diagnose": DECISION})) == {"approved": "not needed", "decision": DECISION}
    made = context({"diagnose": decided(needs_approval=True)}, approved=True)
    assert "in advance" in approve(made)["approved"]
    with pytest.raises(UsageError, match="Clear the task diagnose"):
        approve(context())


def test_the_question_waits_as_long_as_the_policy_says(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = create_autospec(approval.ApprovalOperator.execute, return_value=None)
    monkeypatch.setattr(approval.ApprovalOperator, "execute", asked)
    operator = approval.ApproveRecoveryOperator(task_id="t", pipeline="shop")
    operator.execute(context({"diagnose": decided(needs_approval=True, data_loss="12 rows")}))
    assert asked.call_count == 1
    assert operator.response_timeout is not None
    assert operator.response_timeout.total_seconds() == 7200
    assert operator.defaults == ["Reject"]
    assert operator.body is not None
    assert all(word in operator.body for word in ("BINLOG_PURGED", "12 rows", "binlog.000009", "full_snapshot"))


class Ledger:
    """A control table of which only the ledger is used."""

    def __init__(self, **kept: Any) -> None:
        self.kept: dict[str, Any] = kept
        self.broken = False

    def ledger_get(self, run_id: str) -> dict[str, Any]:
        if self.broken:
            raise SinkError("the catalog is away")
        return dict(self.kept)

    def state(self) -> Any:
        return {"recovery": None}

    def ledger_set(self, run_id: str, key: str, value: Any) -> None:
        self.kept[key] = value


@pytest.fixture
def asking(step: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Answer the question about `before`, while the plan has become `now`."""

    def answered(before: Any, now: Any, option: str = "Approve", **form: str) -> tuple[Any, Ledger, Context, Any]:
        ledger = Ledger(decision=before)

        def decided_now(run: Run, asked: str | None) -> Any:
            found = now(asked) if callable(now) else now
            ledger.kept["decision"] = found
            return found

        monkeypatch.setattr(approval, "decide", decided_now)
        monkeypatch.setattr(approval.ApproveRecoveryOperator, "_run", lambda self, made: fake_run(ledger, made))
        made = context({"diagnose": before})
        operator = approval.ApproveRecoveryOperator(task_id="approve", pipeline="shop")
        monkeypatch.setattr(approval.ApproveRecoveryOperator, "skip", lambda *a, **k: ledger.kept.update(skipped=k))
        event = {"chosen_options": [option], "params_input": form, "responded_at": datetime.now(UTC)}
        event["responded_by_user"] = {"id": "1", "name": "ann"}
        return operator, ledger, made, lambda: operator.execute_complete(made, event)

    return answered


def fake_run(ledger: Ledger, made: Context) -> Run:
    clients = cast("Any", type("Clients", (), {"control": ledger}))
    return Run(PIPELINE, clients, made["run_id"], "/nowhere", {})


def test_an_approved_plan_that_still_holds_is_followed(asking: Any) -> None:
    before = decided(needs_approval=True)
    *_, answer = asking(before, {**before, "taken_at": "later"})
    assert answer() == {"approved": "by ann", "decision": {**before, "taken_at": "later"}}


@pytest.mark.parametrize(
    "now", [decided("GTID_PURGED", needs_approval=True), decided(strategy="finish"), decided(data_loss="2 rows")]
)
def test_an_approved_plan_that_changed_is_asked_about_again(now: Any, asking: Any, monkeypatch: Any) -> None:
    now = {**now, "plan": {**now["plan"], "needs_approval": True}}
    operator, _, made, answer = asking(decided(needs_approval=True), now)
    with pytest.raises(approval.PlanChangedError, match="no longer what was approved"):
        answer()
    assert operator.retry_policy.evaluate(approval.PlanChangedError("x"), 1, 10).action.name == "RETRY"
    assert operator.retry_policy.evaluate(SourceError("x"), 1, 10).action.name == "FAIL"
    asked = create_autospec(approval.ApprovalOperator.execute, return_value=None)
    monkeypatch.setattr(approval.ApprovalOperator, "execute", asked)
    ti(made).try_number = 2
    operator.execute(made)
    assert operator.body.startswith("**The plan changed while you were asked")
    assert now["diagnosis"]["code"] in operator.body
    assert now["plan"]["data_loss"] in operator.body


def test_a_cleared_diagnosis_is_asked_about_as_it_is(asking: Any, monkeypatch: Any) -> None:
    operator, ledger, made, _ = asking(decided(needs_approval=True), decided("GTID_PURGED", needs_approval=True))
    ledger.kept[approval.CHANGED] = "an earlier diagnosis"
    ti(made).try_number = 3
    monkeypatch.setattr(approval.ApprovalOperator, "execute", create_autospec(approval.ApprovalOperator.execute))
    operator.execute(made)
    assert operator.body.startswith("**BINLOG_PURGED**")


def test_a_strategy_chosen_with_the_answer_is_planned_and_asked_about(asking: Any) -> None:
    before = decided(strategy="restart", needs_approval=True)
    _, ledger, _, answer = asking(
        before,
        lambda asked: decided(strategy=asked or "restart", needs_approval=True),
        another_strategy="full_snapshot",
    )
    with pytest.raises(approval.PlanChangedError, match="full_snapshot"):
        answer()
    assert ledger.kept["chosen_strategy"] == "full_snapshot"


def test_reject_changes_nothing_and_is_kept_for_the_report(asking: Any) -> None:
    _, ledger, _, answer = asking(decided(needs_approval=True), decided("GTID_PURGED"), option="Reject")
    assert "decision" not in answer()
    assert ledger.kept["rejected"] == "rejected by ann: nothing was changed"


def test_what_healed_while_asked_is_left_alone(asking: Any) -> None:
    before = decided(needs_approval=True)
    operator, ledger, made, _ = asking(before, decided("HEALTHY", strategy="none"))
    ledger.kept[approval.CHANGED] = before["taken_at"]
    ti(made).try_number = 2
    assert operator.execute(made)["approved"] == "nothing is left to do"
    assert ledger.kept["skipped"]["tasks"] == Task.rest


def test_the_approved_decision_stands_before_the_diagnosed_one() -> None:
    approved = decided(data_loss="2 rows")
    made = context({"diagnose": DECISION, "approve": {"approved": "by ann", "decision": approved}})
    assert base.standing_decision(made) == approved
    assert base.standing_decision(context({"diagnose": DECISION})) == DECISION


def opened(decision: Any) -> Any:
    return open.OpenRecoveryOperator(task_id="t", pipeline="shop").execute(context({"diagnose": decision}))


def test_opens_what_was_decided(step: Any) -> None:
    flow, again = step(open, "open_recovery", {"epoch": 3}), step(open, "decide", DECISION)
    assert opened(DECISION) == {"epoch": 3}
    assert flow.call_args.args[1] == DECISION
    assert again.call_count == 0


def test_a_plan_that_changed_since_the_approval_stops_the_run(step: Any) -> None:
    flow = step(open, "open_recovery", {"epoch": 3})
    decision = decided(needs_approval=True)
    step(open, "decide", decided(needs_approval=True, data_loss="all rows"))
    with pytest.raises(UsageError, match=r"plan changed.*all rows.*Clear the task diagnose"):
        opened(decision)
    assert flow.call_count == 0
    step(open, "decide", decision)
    assert opened(decision) == {"epoch": 3}
    step(open, "decide", decided("RECOVERY_OPEN", strategy="none", refused=True))  # the task is cleared and runs again
    assert opened(decision) == {"epoch": 3}


def test_nothing_is_opened_without_a_decision_or_for_a_restart(step: Any) -> None:
    with pytest.raises(UsageError, match="no decision"):
        opened(None)
    with pytest.raises(AirflowSkipException):
        opened(decided("CONNECTOR_FAILED", strategy="restart"))


def test_restarts_only_if_the_plan_says_so(step: Any) -> None:
    flow = step(connector.connector, "restart", {"state": "RUNNING"})
    operator = connector.RestartConnectorOperator(task_id="t", pipeline="shop")
    with pytest.raises(AirflowSkipException):
        operator.execute(context({"diagnose": DECISION}))
    assert flow.call_count == 0
    assert operator.execute(context({"diagnose": decided(strategy="restart")})) == {"state": "RUNNING"}


# ---- hold, report ---------------------------------------------------------------------------------


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, step: Any, tmp_path: Path) -> Ledger:
    """The run of the operators under test keeps its ledger here."""
    made = Ledger()

    class Clients:
        control = made

    run = Run(PIPELINE, cast("Any", Clients()), "manual__1", str(tmp_path / "reports"))
    monkeypatch.setattr(base, "open_run", create_autospec(base.open_run, return_value=run))
    return made


def test_the_teardown_ends_the_hold_of_its_own_try_only(step: Any, ledger: Ledger) -> None:
    flow = step(hold, "hold", {"state": "released"})
    hold.HoldBinlogOperator(task_id="h", pipeline="shop").execute(context())
    should_stop = flow.call_args.args[1]
    release = hold.ReleaseHold(task_id="r", pipeline="shop")

    ledger.kept["step:stop_connector"] = {"started": "10:00"}
    assert not should_stop()
    assert release.execute(context({"stop_connector": {"state": "STOPPED"}})) == {"released": True}
    assert should_stop()
    ledger.kept["step:stop_connector"] = {"started": "11:00"}  # the run was cleared from stop_connector on
    assert not should_stop()


def test_a_ledger_that_cannot_be_read_does_not_end_the_hold(step: Any, ledger: Ledger) -> None:
    flow = step(hold, "hold", {})
    hold.HoldBinlogOperator(task_id="h", pipeline="shop").execute(context())
    ledger.broken = True
    assert flow.call_args.args[1]() is False


def test_nothing_is_released_or_reported_of_a_run_that_did_nothing() -> None:
    for operator in (hold.ReleaseHold, report.ReportOperator):
        with pytest.raises(AirflowSkipException):
            operator(task_id="t", pipeline="nowhere").execute(context())


# ---- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "url", "address"),
    [
        ("/r/shop/1/report.html", "", "https://airflow/cdc/pipelines/shop/runs/1"),
        ("/r/shop/1/data_docs/index.html", "", "https://airflow/cdc/pipelines/shop/runs/1/files/data_docs/index.html"),
        ("/r/shop/1/report.html", "https://web/cdc/", "https://web/cdc/shop/1/report.html"),
        ("/elsewhere/report.html", "https://web", "file:///elsewhere/report.html"),
        ("s3://b/r/report.html", "", "s3://b/r/report.html"),
    ],
)
def test_address_of_a_page(location: str, url: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__REPORT_URL", url)
    monkeypatch.setenv("AIRFLOW__CDC__REPORT_DIR", "/r")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow/")
    assert links.web_address(location, "/r/") == address


# ---- Spark ----------------------------------------------------------------------------------------


class Submitted:
    """What spark-submit was given, and what the driver finds there."""

    def __init__(self) -> None:
        self.command: list[str] = []
        self.env: dict[str, str] = {}
        self.settings: dict[str, Any] = {}
        self.modes: tuple[int, int] = (0, 0)
        self.path = Path()
        self.result: dict[str, Any] = {"rows": 3}
        self.fails = False

    def submit(self, hook: SparkSubmitHook, application: str = "", **kwargs: Any) -> None:
        self.command = hook._build_spark_submit_command(application)
        self.env = dict(hook._env or {})
        self.path = Path(self.command[-1])
        self.modes = stat.S_IMODE(self.path.stat().st_mode), stat.S_IMODE(self.path.parent.stat().st_mode)
        self.settings = json.loads(self.path.read_text())
        (self.path.parent / spark_main.RESULT_NAME).write_text(json.dumps(self.result))
        if self.fails:
            raise AirflowException("Cannot execute: spark-submit. Error code is: 1.")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, connections: dict[str, str], registry: Path) -> Submitted:
    """spark-submit, seen from its command line."""
    made = Submitted()
    monkeypatch.setattr(
        SparkSubmitHook, "submit", lambda hook, application="", **kw: made.submit(hook, application, **kw)
    )
    return made


def operator(**kwargs: Any) -> spark.CdcSparkOperator:
    return spark.CdcSparkOperator(**{"task_id": "t", "app": "recover", "pipeline": "shop", **kwargs})


def test_a_driver_is_told_everything_in_a_private_file_and_nothing_elsewhere(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/a.jar,/jars/b.jar")
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_CONF", '{"spark.driver.memory": "2g"}')
    task = operator(conf={"spark.x": "1"})
    assert task.execute(context(note="why")) == {"rows": 3}
    assert submitted.modes == (0o600, 0o700)
    assert submitted.settings["endpoints"]["mysql"]["password"] == SECRETS["mysql"]
    assert submitted.settings["pipeline"]["name"] == "shop"
    told = {key: submitted.settings[key] for key in ("run_id", "try_number", "options")}
    assert told == {"run_id": "manual__1", "try_number": 1, "options": {"note": "why"}}
    assert not submitted.path.parent.exists()

    command = submitted.command
    assert command[command.index("--master") + 1] == "local[1]"
    assert command[command.index("--jars") + 1] == "/jars/a.jar,/jars/b.jar"
    assert {"spark.driver.memory=2g", "spark.x=1", "spark.ui.enabled=false"} <= set(command)
    assert command[-4:] == [str(Path(spark_main.__file__).resolve()), "recover", "--settings", str(submitted.path)]
    assert submitted.env["PYSPARK_PYTHON"] == submitted.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    rendered = json.dumps([getattr(task, name, None) for name in task.template_fields], default=str)
    for secret in SECRETS.values():
        assert secret not in f"{command}{submitted.env}{rendered}{vars(task)}"


def test_packages_only_count_without_jars(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_PACKAGES", "a:b:1")
    operator().execute(context())
    assert submitted.command[submitted.command.index("--packages") + 1] == "a:b:1"
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/a.jar")
    operator().execute(context())
    assert "--packages" not in submitted.command


def test_a_bad_spark_conf_is_a_clear_error(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("[1]", "memory=2g"):
        monkeypatch.setenv("AIRFLOW__CDC__SPARK_CONF", text)
        with pytest.raises(ConfigError, match=r"spark_conf is not a JSON object \(airflow.cfg \[cdc\] spark_conf\)"):
            operator().execute(context())


def test_the_error_of_the_driver_is_the_error_of_the_task(submitted: Submitted) -> None:
    submitted.fails = True
    submitted.result = {"error": SourceError("W is gone", where="db:3306", todo="Clear it.").to_json()}
    with pytest.raises(SourceError, match=r"^W is gone \(db:3306\)\. Clear it\.$"):
        operator().execute(context())
    assert not submitted.path.parent.exists()
    submitted.result = {}
    with pytest.raises(AirflowException, match="Error code is: 1"):
        operator().execute(context())


def test_an_error_of_the_driver_keeps_what_it_knows(submitted: Submitted) -> None:
    submitted.fails = True
    submitted.result = {"error": VerificationError("settled too late", verdict="INCONCLUSIVE").to_json()}
    with pytest.raises(VerificationError) as raised:
        operator(app="verify").execute(context())
    assert raised.value.verdict == "INCONCLUSIVE"
    submitted.result = {"error": {"error": "OfTheApplication", "what": "odd", "where": "", "todo": "", "more": 1}}
    with pytest.raises(CdcError, match=r"^odd$"):
        operator().execute(context())


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        ({"recovery": "manual__7", "tables": ["shop.orders"], "dead_letters": 0}, "manual__7 is open"),
        ({"recovery": None, "tables": [], "dead_letters": 0}, "nothing to apply"),
    ],
)
def test_no_driver_is_started_for_nothing(waiting: dict[str, Any], said: str, submitted: Submitted, step: Any) -> None:
    step(spark, "pending", waiting)
    with pytest.raises(AirflowSkipException, match=said):
        spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    assert submitted.command == []


def test_changes_dead_letters_and_a_replay_start_one(submitted: Submitted, step: Any) -> None:
    asked = step(spark, "pending", {"recovery": None, "tables": [], "dead_letters": 2})
    task = spark.ApplyChangesOperator(task_id="t", pipeline="shop")
    assert task.execute(context()) == {"rows": 3}
    assert submitted.command[-3] == "apply_changes"
    task.execute(context(replay=True, tables=["shop.orders"]))
    assert asked.call_count == 1
    assert submitted.settings["options"] == {"replay": True, "tables": ["shop.orders"]}


def test_dead_letters_tried_too_often_start_none() -> None:
    from airflow_cdc.spark_apps import dead_letters

    assert pending.MAX_ATTEMPTS == dead_letters.MAX_ATTEMPTS


TOPIC = TopicState("shop.shop.orders", "id1", {0: (0, 10), 1: (5, 7)})
AT_END = {TOPIC.name: {"id": "id1", "partitions": {"0": 10, "1": 7}}}


@pytest.mark.parametrize(
    ("stamp", "state", "caught_up"),
    [
        (Stamp(3, None, AT_END), TOPIC, True),
        (Stamp(2, None, AT_END), TOPIC, False),
        (None, TOPIC, False),
        (Stamp(3, None, AT_END), None, False),
        (Stamp(3, None, {}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: {"id": "id1", "partitions": {"0": 10, "1": 6}}}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: {"id": "id1", "partitions": {"0": 10}}}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: {"id": "id0", "partitions": {"0": 10, "1": 7}}}), TOPIC, False),
    ],
)
def test_only_a_stamp_at_the_very_end_means_nothing_to_do(stamp: Any, state: Any, caught_up: bool) -> None:
    assert pending.caught_up(stamp, 3, TOPIC.name, state) is caught_up


def test_a_missing_spark_connection_does_not_mean_yarn(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_SPARK")
    with pytest.raises(ConfigError, match=r"'shop_spark' is not defined.*airflow connections add shop_spark"):
        operator().execute(context())
    assert submitted.command == []


def test_what_cannot_work_is_refused_before_it_starts(submitted: Submitted) -> None:
    with pytest.raises(ConfigError, match=r"no Spark application 'recovery'.*recover, verify, apply_changes"):
        operator(app="recovery").execute(context())
    with pytest.raises(ConfigError, match="deploy-mode to client"):
        operator(deploy_mode="cluster").execute(context())
    assert submitted.command == []


def test_a_folder_others_can_read_is_refused(tmp_path: Path) -> None:
    base_dir = tmp_path / "shared"
    base_dir.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="could be read by others"), private.private_settings({}, base_dir):
        pass
    assert list(base_dir.iterdir()) == []


def test_what_a_killed_task_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "private"
    root.mkdir(mode=0o700)
    dead, fresh, alive = (root / name for name in ("999999999-a", "999999998-b", f"{os.getpid()}-c"))
    for folder in (dead, fresh, alive):
        folder.mkdir()
    os.utime(dead, (0, 0))
    os.utime(alive, (0, 0))
    with private.private_settings({"a": 1}, root) as path:
        assert json.loads(path.read_text()) == {"a": 1}
    assert {folder.name for folder in root.iterdir()} == {fresh.name, alive.name}


def write(folder: Path, payload: dict[str, Any]) -> Path:
    path = folder / private.SETTINGS_NAME
    path.write_text(json.dumps(payload))
    return path


@pytest.mark.parametrize(
    ("body", "status", "result"),
    [
        ("return {'rows': settings['n']}", 0, {"rows": 7}),
        ("return None", 0, {}),
        (
            "raise UnknownStateError('no answer', where='db')",
            3,
            {"error": {"error": "UnknownStateError", "what": "no answer", "where": "db", "todo": ""}},
        ),
    ],
)
def test_the_launcher_runs_the_application_and_deletes_the_settings(
    body: str, status: int, result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fake"
    package.mkdir()
    (package / "cdc_fake_app.py").write_text(
        f"from airflow_cdc.core.errors import UnknownStateError\ndef main(settings):\n    {body}\n"
    )
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(spark_main.importlib, "import_module", lambda _name: _fresh("cdc_fake_app"))
    path = write(tmp_path, {"n": 7})
    assert spark_main.main(["recover", "--settings", str(path)]) == status
    assert not path.exists()
    assert spark_main.read_result(path) == result


def _fresh(name: str) -> Any:
    sys.modules.pop(name, None)
    return __import__(name)


def shown(operator: Any) -> dict[str, str]:
    return {link.name: link.get_link(operator, ti_key=cast("Any", None)) for link in operator.operator_extra_links}


def test_the_report_is_linked_from_the_task_that_wrote_it(step: Any, ledger: Ledger, tmp_path: Path) -> None:
    step(report, "report", {"page": f"{tmp_path}/reports/shop/1/report.html", "verdict": "MATCH"})
    operator = report.ReportOperator(task_id="t", pipeline="shop")
    assert shown(operator) == {"Recovery report": ""}
    operator.execute(context({"diagnose": DECISION}))
    assert shown(operator) == {"Recovery report": "/cdc/pipelines/shop/runs/1"}


def test_the_data_docs_are_linked_from_the_verification(submitted: Submitted) -> None:
    submitted.result = {"data_docs": "/r/index.html"}
    verify = operator(app="verify")
    verify.execute(context())
    assert shown(verify) == {"Data Docs": "file:///r/index.html"}
    assert operator(app="recover").operator_extra_links == ()
