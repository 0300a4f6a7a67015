"""The question before a destructive plan: what was answered counts only for the plan that was asked about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.sdk import Context

from airflow_cdc.core.errors import SourceError
from airflow_cdc.flows import decide as deciding
from airflow_cdc.flows.run import Run
from airflow_cdc.operators import approval, base

from .operator_support import DECISION, Ledger, Task, context, decided, fake_run, ti


@pytest.fixture
def asking(step: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Answer the question about `before`, while the plan has become `now`."""

    def answered(before: Any, now: Any, option: str = "Approve", **form: str) -> tuple[Any, Ledger, Context, Any]:
        ledger = Ledger(decision=before)

        def decided_now(run: Run, asked: str | None) -> Any:
            found = now(asked) if callable(now) else now
            ledger.kept["decision"] = found
            return found

        monkeypatch.setattr(deciding, "decide", decided_now)
        monkeypatch.setattr(
            approval.ApproveRecoveryOperator, "_run", lambda self, made: fake_run(ledger, Path("/nowhere"))
        )
        made = context({"diagnose": before})
        operator = approval.ApproveRecoveryOperator(task_id="approve", pipeline="shop")
        monkeypatch.setattr(approval.ApproveRecoveryOperator, "skip", lambda *a, **k: ledger.kept.update(skipped=k))
        event = {"chosen_options": [option], "params_input": form, "responded_at": datetime.now(UTC)}
        event["responded_by_user"] = {"id": "1", "name": "ann"}
        return operator, ledger, made, lambda: operator.execute_complete(made, event)

    return answered


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
