"""Operators: resolve, call one step, return plain JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc import links
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import (
    CdcError,
    NotAllowedError,
    SourceError,
    UnknownStateError,
    UsageError,
)
from airflow_cdc.core.recovery import Decision
from airflow_cdc.core.report import Verdict
from airflow_cdc.flows import close, decide
from airflow_cdc.flows import connector as connecting
from airflow_cdc.flows import hold as holding
from airflow_cdc.flows import open as opening
from airflow_cdc.flows import publish as publishing
from airflow_cdc.flows import reset_offset as offsets
from airflow_cdc.flows import watermark as watermarks
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.operators import (
    approval,
    base,
    connector,
    diagnose,
    hold,
    offset,
    open,  # noqa: A004 - the module's name
    publish,
    report,
    watermark,
)
from airflow_cdc.operators.abandon import AbandonRecoveryOperator
from airflow_cdc.operators.base import check_own_dags
from airflow_cdc.operators.diagnose import CdcDiagnoseOperator
from tests.unit.conftest import REGISTRY, SECRETS
from tests.unit.operator_support import DECISION, Ledger, Task, context, decided, fake_run, shown, ti

STEPS: list[tuple[Any, str, Any]] = [
    (connecting, "stop", connector.StopConnectorOperator),
    (connecting, "resume", connector.ResumeConnectorOperator),
    (watermarks, "fence_and_watermark", watermark.CaptureWatermarkOperator),
    (offsets, "reset_offset", offset.ResetOffsetOperator),
    (publishing, "publish", publish.PublishOperator),
    (close, "close", report.CloseRecoveryOperator),
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
    assert run.options == RunOptions(note="why", strategy="auto")
    source: Any = run.clients.source.endpoint
    assert source.password == SECRETS["mysql"]
    assert SECRETS["mysql"] not in repr(run)


def test_an_error_of_a_step_is_passed_on(step: Any) -> None:
    step(offsets, "reset_offset", SourceError("W is gone", todo="Clear it."))
    with pytest.raises(SourceError, match=r"W is gone\. Clear it\."):
        offset.ResetOffsetOperator(task_id="t", pipeline="shop").execute(context())


def test_a_table_of_another_pipeline_is_one_clear_error(step: Any) -> None:
    called = step(decide, "decide", DECISION)
    task = diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop")
    with pytest.raises(UsageError, match=r"pipeline shop has no table shop\.order\. Choose from: shop\.customers"):
        task.execute(context(tables=["shop.order"]))
    assert called.call_count == 0
    task.execute(context(tables=["shop.orders"]))
    assert called.call_args.args[0].options == RunOptions(tables=("shop.orders",))


def test_an_unknown_pipeline_is_one_clear_error(step: Any) -> None:
    with pytest.raises(UsageError, match=r"no pipeline 'shops' \(.*pipelines.yaml\)\. Did you mean 'shop'"):
        diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shops").execute(context())


# ---- diagnose, approve, open ----------------------------------------------------------------------


def test_a_healthy_pipeline_skips_the_rest(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step(decide, "decide", decided("HEALTHY", strategy="none"))
    skipped = create_autospec(diagnose.CdcDiagnoseOperator.skip)
    monkeypatch.setattr(diagnose.CdcDiagnoseOperator, "skip", skipped)
    made = context()
    facts = diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop").execute(made)
    assert facts["plan"]["strategy"] == "none"
    assert ti(made).pushed == {
        "return_value": facts
    }  # the exception with which Airflow's `skip` ends a task keeps no result
    assert skipped.call_args.kwargs["tasks"] == Task.rest


@pytest.mark.parametrize(("asked", "passed"), [("auto", None), ("", None), ("full_snapshot", "full_snapshot")])
def test_asks_for_the_strategy_that_was_chosen(asked: str, passed: str | None, step: Any) -> None:
    called = step(decide, "decide", DECISION)
    assert diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop", strategy=asked).execute(context()) == DECISION
    assert called.call_args.args[1] == passed


@pytest.mark.parametrize(("code", "kind"), [("UNKNOWN", UnknownStateError), ("GTID_PURGED", CdcError)])
def test_a_refused_plan_fails_and_is_kept_for_the_report(code: str, kind: type[CdcError], step: Any) -> None:
    step(decide, "decide", decided(code, strategy="none", refused=True, reason="source: refused"))
    made = context()
    with pytest.raises(kind, match="nothing was changed: source: refused") as raised:
        diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop").execute(made)
    assert type(raised.value).__name__ == kind.__name__
    assert ti(made).pushed["return_value"]["plan"]["refused"] is True


def approve(made: Context) -> Any:
    return approval.ApproveRecoveryOperator(task_id="t", pipeline="shop").execute(made)


def test_no_person_is_asked_without_need() -> None:
    assert approve(context({"diagnose": DECISION})) == {"approved": "not needed", "decision": DECISION}
    made = context({"diagnose": decided(needs_approval=True)}, approved=True)
    assert "in advance" in approve(made)["approved"]
    with pytest.raises(UsageError, match="Clear the task diagnose"):
        approve(context())


def test_the_question_waits_as_long_as_the_policy_says(
    step: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = create_autospec(ApprovalOperator.execute, return_value=None)
    monkeypatch.setattr(ApprovalOperator, "execute", asked)
    operator = approval.ApproveRecoveryOperator(task_id="t", pipeline="shop")
    monkeypatch.setattr(operator.__class__, "run_of", lambda _self, _context: fake_run(Ledger(), tmp_path))
    operator.execute(context({"diagnose": decided(needs_approval=True, data_loss="12 rows")}))
    assert asked.call_count == 1
    assert operator.response_timeout is not None
    assert operator.response_timeout.total_seconds() == 7200
    assert operator.defaults == ["Reject"]
    assert operator.body is not None
    assert all(word in operator.body for word in ("BINLOG_PURGED", "12 rows", "binlog.000009", "full_snapshot"))


def test_the_approved_decision_stands_before_the_diagnosed_one() -> None:
    approved = decided(data_loss="2 rows")
    made = context({"diagnose": DECISION, "approve": {"approved": "by ann", "decision": approved}})
    assert base.standing_decision(made) == approved
    assert base.standing_decision(context({"diagnose": DECISION})) == DECISION


def opened(decision: Any) -> Any:
    return open.OpenRecoveryOperator(task_id="t", pipeline="shop").execute(context({"diagnose": decision}))


def test_opens_what_was_decided(step: Any) -> None:
    flow, again = step(opening, "open_recovery", {"epoch": 3}), step(decide, "decide", DECISION)
    assert opened(DECISION) == {"epoch": 3}
    assert flow.call_args.args[1] == Decision.from_json(DECISION)
    assert again.call_count == 0


def test_a_plan_that_changed_since_the_approval_stops_the_run(step: Any) -> None:
    flow = step(opening, "open_recovery", {"epoch": 3})
    decision = decided(needs_approval=True)
    step(decide, "decide", decided(needs_approval=True, data_loss="all rows"))
    with pytest.raises(UsageError, match=r"plan changed.*all rows.*Clear the task diagnose"):
        opened(decision)
    assert flow.call_count == 0
    step(decide, "decide", decision)
    assert opened(decision) == {"epoch": 3}
    step(
        decide, "decide", decided("RECOVERY_OPEN", strategy="none", refused=True)
    )  # the task is cleared and runs again
    assert opened(decision) == {"epoch": 3}


def test_nothing_is_opened_without_a_decision_or_for_a_restart(step: Any) -> None:
    with pytest.raises(UsageError, match="no decision"):
        opened(None)
    with pytest.raises(AirflowSkipException):
        opened(decided("CONNECTOR_FAILED", strategy="restart"))


def test_restarts_only_if_the_plan_says_so(step: Any) -> None:
    flow = step(connecting, "restart", {"state": "RUNNING"})
    operator = connector.RestartConnectorOperator(task_id="t", pipeline="shop")
    with pytest.raises(AirflowSkipException):
        operator.execute(context({"diagnose": DECISION}))
    assert flow.call_count == 0
    assert operator.execute(context({"diagnose": decided(strategy="restart")})) == {"state": "RUNNING"}


# ---- hold, report ---------------------------------------------------------------------------------


def test_the_teardown_ends_the_hold_of_its_own_try_only(step: Any, ledger: Ledger) -> None:
    flow = step(holding, "hold", {"state": "released"})
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
    flow = step(holding, "hold", {})
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


def test_the_report_is_linked_from_the_task_that_wrote_it(step: Any, ledger: Ledger, tmp_path: Path) -> None:
    step(close, "report", {"page": f"{tmp_path}/reports/shop/1/report.html", "verdict": "MATCH"})
    operator = report.ReportOperator(task_id="t", pipeline="shop")
    assert shown(operator) == {"Recovery report": ""}
    operator.execute(context({"diagnose": DECISION}))
    assert shown(operator) == {"Recovery report": "http://localhost:8080/cdc/pipelines/shop/runs/1"}


@pytest.mark.parametrize("operator", [CdcDiagnoseOperator, AbandonRecoveryOperator])
def test_a_pipeline_with_dags_of_its_own_is_refused_in_the_shared_ones(operator: Any, registry: Path) -> None:
    registry.write_text(REGISTRY + "    airflow: {own_dags: true}\n")
    made = context()
    with pytest.raises(NotAllowedError, match=r"cdc_recovery does nothing for it.*Trigger cdc_recovery__shop"):
        operator(task_id="t", pipeline="shop").execute(made)
    made["ti"].dag_id = "cdc_recovery__shop"
    pipeline = load_registry(registry)["shop"]
    check_own_dags(made, pipeline)
