"""Operators that compare and repair: what is asked, what the driver is told, and the last word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc.core.errors import UsageError, VerificationError
from airflow_cdc.flows import checks
from airflow_cdc.notifications.channels import PolicyNotifier
from airflow_cdc.operators import repair
from tests.unit.conftest import REGISTRY
from tests.unit.operator_support import Submitted, context

PLAN = {"table": "shop.orders", "writes": 2, "deletes": 1, "rows": 10, "replaces": False, "first": ["ghosts: 9"]}
FOUND = {"verdict": "MISMATCH", "plans": {"shop.orders": PLAN}, "needs_approval": True, "keys": "/r/repair.json"}


@pytest.mark.parametrize(
    ("found", "params"), [({**FOUND, "plans": {}}, {}), ({}, {}), (FOUND, {"dry_run": True})], ids=["none", "no", "dry"]
)
def test_nothing_to_repair_asks_nobody(found: dict[str, Any], params: dict[str, Any], registry: Path) -> None:
    with pytest.raises(AirflowSkipException, match="nothing to repair"):
        repair.ApproveRepairOperator(task_id="t", pipeline="shop").execute(context({"compare": found}, **params))


def test_a_repair_is_asked_about_with_its_keys(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.write_text(REGISTRY.rstrip() + "\n    policy: {approval_timeout: 30m, notify: [ops]}\n")
    asked: list[repair.ApproveRepairOperator] = []
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, _context: asked.append(self))
    task = repair.ApproveRepairOperator(task_id="t", pipeline="shop")
    task.execute(context({"compare": FOUND}))
    assert asked == [task]
    assert task.response_timeout.total_seconds() == 1800
    assert "**shop.orders** (10 rows): 2 rows written, **1 deleted**. First: `ghosts: 9`" in task.body
    assert "/r/repair.json" in task.body
    (told,) = task.notifiers
    assert isinstance(told, PolicyNotifier)
    assert told.conn_ids == ("ops",)
    assert (
        "approve a repair of shop.orders: 2 to write, 1 to delete. Without an answer within 0:30:00"
        in told.message.text
    )
    assert task.execute(context({"compare": {**FOUND, "needs_approval": False}})) == {"approved": "not needed"}
    assert "in advance" in task.execute(context({"compare": FOUND}, approved=True))["approved"]
    assert asked == [task]


@pytest.mark.parametrize(
    ("found", "params", "deletes"),
    [
        (FOUND, {}, {"shop.orders": 1}),
        ({**FOUND, "needs_approval": False}, {}, {}),
        ({**FOUND, "needs_approval": False}, {"approved": True}, {"shop.orders": 1}),
    ],
)
def test_a_repair_is_told_its_tables_and_what_was_agreed_to(
    found: dict[str, Any], params: dict[str, Any], deletes: dict[str, int], submitted: Submitted
) -> None:
    repair.RepairOperator(task_id="t", pipeline="shop").execute(context({"compare": found}, **params))
    assert submitted.command[-3] == "repair"
    told = submitted.settings["options"]
    assert (told["tables"], told["deletes"], told["dry_run"]) == (["shop.orders"], deletes, False)


def test_without_findings_no_driver_is_started(submitted: Submitted) -> None:
    with pytest.raises(AirflowSkipException):
        repair.RepairOperator(task_id="t", pipeline="shop").execute(context({"compare": {**FOUND, "plans": {}}}))
    assert submitted.command == []


def test_a_comparison_only_looks(submitted: Submitted) -> None:
    repair.CompareTablesOperator(task_id="t", pipeline="shop").execute(context(tables=["shop.orders"]))
    assert submitted.settings["options"] == {"tables": ["shop.orders"], "dry_run": True}
    repair.NightlyCheckOperator(task_id="t", pipeline="shop").execute(context())
    assert submitted.command[-3] == "nightly"


def test_the_verdict_of_a_dry_run_is_for_who_asked(step: Any) -> None:
    said = step(checks, "conclude", VerificationError("MISMATCH: shop.orders"))
    task = repair.ConcludeOperator(task_id="t", pipeline="shop")
    with pytest.raises(AirflowSkipException):
        task.execute(context(dry_run=True))
    assert said.call_count == 0
    with pytest.raises(VerificationError, match="MISMATCH"):
        task.execute(context())


class DagRun:
    """A run of a given type."""

    def __init__(self, run_type: str) -> None:
        self.run_type = run_type


def interval(run_type: str, **more: Any) -> Context:
    day = datetime(2026, 10, 3, tzinfo=UTC)
    found = {"dag_run": DagRun(run_type), "data_interval_start": day, "data_interval_end": day + timedelta(days=1)}
    return cast("Context", {**context(), **found, **more})


def test_a_backfill_is_told_its_interval_and_a_scheduled_run_does_nothing(submitted: Submitted) -> None:
    task = repair.BackfillOperator(task_id="t", pipeline="shop")
    for scheduled in ("scheduled", "DagRunType.SCHEDULED"):
        with pytest.raises(AirflowSkipException, match="airflow backfill create"):
            task.execute(interval(scheduled))
    assert submitted.command == []
    task.execute(interval("backfill"))
    told = {"from": "2026-10-03T00:00:00+00:00", "to": "2026-10-04T00:00:00+00:00"}
    assert submitted.settings["options"] == told
    with pytest.raises(UsageError, match="no data interval"):
        task.execute(interval("manual", data_interval_start=None))
