"""The question before a destructive plan: what was answered counts only for the plan that was asked about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.sdk import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped

from airflow_cdc.flows import decide as deciding
from airflow_cdc.flows.run import Run
from airflow_cdc.operators import approval, base

from .operator_support import DECISION, Ledger, context, decided, fake_run


def skipped(*_: Any, **__: Any) -> None:
    """What Airflow's `skip` does in a task: nothing after it is reached."""
    raise DownstreamTasksSkipped(tasks=[])


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
        monkeypatch.setattr(approval.ApproveRecoveryOperator, "skip", skipped)
        event = {"chosen_options": [option], "params_input": form, "responded_at": datetime.now(UTC)}
        event["responded_by_user"] = {"id": "1", "name": "ann"}
        return operator, ledger, made, lambda: operator.execute_complete(made, event)

    return answered


def test_an_approved_plan_that_still_holds_is_followed(asking: Any) -> None:
    before = decided(needs_approval=True)
    *_, answer = asking(before, {**before, "taken_at": "later"})
    assert answer() == {"approved": "by ann", "decision": {**before, "taken_at": "later"}}


@pytest.mark.parametrize(
    "now",
    [
        decided("GTID_PURGED", needs_approval=True),
        decided(strategy="finish"),
        decided(data_loss="2 rows"),
        decided("HEALTHY", strategy="none"),
    ],
)
def test_an_approved_plan_that_changed_is_not_carried_out_and_not_asked_about_in_the_old_words(
    now: Any, asking: Any
) -> None:
    operator, _, _, answer = asking(decided(needs_approval=True), now)
    with pytest.raises(approval.PlanChangedError, match=r"no longer what was asked about.* Trigger the run again"):
        answer()
    assert operator.retries == 0


def test_a_run_asks_about_one_plan_only(asking: Any, monkeypatch: Any) -> None:
    """Airflow shows a cleared task's question as it was first asked."""
    first, other = decided(needs_approval=True), decided("GTID_PURGED", needs_approval=True)
    operator, _, made, _ = asking(first, first)
    asked = create_autospec(approval.ApprovalOperator.execute, return_value=None)
    monkeypatch.setattr(approval.ApprovalOperator, "execute", asked)
    operator.execute(made)
    operator.execute(made)  # cleared, and diagnosed as before
    with pytest.raises(approval.PlanChangedError, match=r"BINLOG_PURGED.* became GTID_PURGED"):
        operator.execute(context({"diagnose": other}))
    assert asked.call_count == 2


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
    operator, ledger, _, answer = asking(decided(needs_approval=True), decided("GTID_PURGED"), option="Reject")
    operator.downstream_task_ids = {"open_recovery"}
    with pytest.raises(DownstreamTasksSkipped):
        answer()
    assert ledger.kept["rejected"] == "rejected by ann: nothing was changed"


def test_the_approved_decision_stands_before_the_diagnosed_one() -> None:
    approved = decided(data_loss="2 rows")
    made = context({"diagnose": DECISION, "approve": {"approved": "by ann", "decision": approved}})
    assert base.standing_decision(made) == approved
    assert base.standing_decision(context({"diagnose": DECISION})) == DECISION
