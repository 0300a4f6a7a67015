"""The question before a destructive plan: what was answered counts only for the plan that was asked about."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import httpx
import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped
from markdown_it import MarkdownIt

from airflow_cdc.config import settings
from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.dags._recovery import recovery_dag
from airflow_cdc.flows import decide as deciding
from airflow_cdc.flows.run import Run
from airflow_cdc.operators import approval, ask_again, base
from tests.unit.conftest import REGISTRY
from tests.unit.operator_support import DECISION, Ledger, context, decided, fake_run, ti


def skipped(_operator: Any, ti: Any, tasks: Any) -> None:
    """What Airflow's `skip` does in a task: nothing after it is reached."""
    ids = [task.task_id for task in tasks]
    raise DownstreamTasksSkipped(tasks=ids)  # type: ignore[no-untyped-call] # its __init__ has no types


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
            approval.ApproveRecoveryOperator, "run_of", lambda self, made: fake_run(ledger, Path("/nowhere"))
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
def test_a_plan_that_changed_is_not_carried_out_and_a_new_run_asks_about_it(now: Any, asking: Any) -> None:
    """In a run of its own: Airflow shows the question of this one as it was first asked."""
    _, ledger, made, answer = asking(decided(needs_approval=True), now)
    made["params"] = {"pipeline": "shop", "tables": ["shop.orders"], "note": "why", "another_strategy": "as planned"}
    made["task"] = in_the_dag()
    with pytest.raises(DownstreamTasksSkipped) as ended:
        answer()
    assert ended.value.tasks == ["open_recovery"]
    again = ti(made).pushed["asked_again"]
    assert again["run_id"] == approval.next_run_id("manual__1", now)
    note = "why (asks again after manual__1)"
    assert again["conf"] == {"pipeline": "shop", "tables": ["shop.orders"], "note": note, "approved": False}
    assert re.search(
        rf"became .*; run {again['run_id']} asks about that: nothing was changed", ledger.kept["unchanged"]
    )


def in_the_dag() -> Any:
    """The task `approve` of a DAG with a task that asks again, one that carries out, and a teardown."""
    carries_out, teardown = create_autospec(BaseOperator, instance=True), create_autospec(BaseOperator, instance=True)
    carries_out.is_teardown, carries_out.task_id, teardown.is_teardown = False, "open_recovery", True
    task = create_autospec(BaseOperator, instance=True)
    task.get_flat_relatives.return_value = [carries_out, ask_again.AskAgainOperator(task_id="ask_again"), teardown]
    return task


@pytest.mark.parametrize(
    ("strategy", "idle"),
    [
        ("full_snapshot", ["restart_connector", "detour_connector", "return_connector"]),
        (
            "restart",
            ["open_recovery", "detour_connector", "return_connector"],
        ),  # after the first, Airflow skips the rest
        ("replica_detour", ["restart_connector", "stop_connector"]),
        ("translate_gtid", ["restart_connector", "stop_connector", "detour_connector"]),
    ],
)
@pytest.mark.parametrize("answered", [False, True])
def test_tasks_of_other_strategies_are_not_even_started(
    strategy: str, idle: list[str], answered: bool, asking: Any
) -> None:
    """And the plan is kept all the same, for the tasks that carry it out."""
    decision = decided(strategy=strategy, needs_approval=answered)
    operator, _, made, answer = asking(decision, decision)
    recovery = recovery_dag()
    made["task"] = recovery.get_task("approve")
    with pytest.raises(DownstreamTasksSkipped) as ended:
        answer() if answered else operator.execute(made)
    assert sorted(ended.value.tasks) == sorted(idle)
    told = {"approved": "by ann" if answered else "not needed", "decision": decision}
    assert ti(made).pushed == {"return_value": told}


def test_without_a_task_that_asks_again_a_changed_plan_is_an_error(asking: Any) -> None:
    operator, *_, answer = asking(decided(needs_approval=True), decided("GTID_PURGED"))
    with pytest.raises(approval.PlanChangedError, match=r"nothing was changed.* Trigger the run again"):
        answer()
    assert operator.retries == 0


def test_a_changed_plan_is_never_carried_out_even_if_nothing_was_skipped(
    asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, _, made, answer = asking(decided(needs_approval=True), decided("GTID_PURGED"))
    made["task"] = in_the_dag()
    monkeypatch.setattr(operator, "skip", lambda **_: None)
    with pytest.raises(approval.PlanChangedError):
        answer()


def test_a_plan_that_is_refused_by_now_fails_with_its_reason(asking: Any) -> None:
    refused = decided("UNKNOWN", strategy="none", refused=True, reason="source: connection refused")
    *_, answer = asking(decided(needs_approval=True), refused)
    with pytest.raises(UnknownStateError, match="nothing was changed: source: connection refused"):
        answer()


def test_a_run_asks_about_one_plan_only(asking: Any, monkeypatch: Any) -> None:
    """Airflow shows a cleared task's question as it was first asked."""
    first, other = decided(needs_approval=True), decided("GTID_PURGED", needs_approval=True)
    operator, _, made, _ = asking(first, first)
    asked = create_autospec(ApprovalOperator.execute, return_value=None)
    monkeypatch.setattr(ApprovalOperator, "execute", asked)
    operator.execute(made)
    operator.execute(made)  # cleared, and diagnosed as before
    made = context({"diagnose": other}, strategy="auto")
    made["task"] = in_the_dag()
    with pytest.raises(DownstreamTasksSkipped):
        operator.execute(made)
    assert ti(made).pushed["asked_again"]["conf"]["strategy"] == "auto"
    assert asked.call_count == 2


def test_a_strategy_chosen_with_the_answer_is_asked_about_in_a_run_of_its_own(asking: Any) -> None:
    before = decided(strategy="restart", needs_approval=True)
    _, _, made, answer = asking(
        before,
        lambda asked: decided(strategy=asked or "restart", needs_approval=True),
        another_strategy="full_snapshot",
    )
    made["task"] = in_the_dag()
    with pytest.raises(DownstreamTasksSkipped):
        answer()
    assert ti(made).pushed["asked_again"]["conf"]["strategy"] == "full_snapshot"


def test_the_run_that_asks_again_is_named_by_what_it_asks() -> None:
    first, other = decided(), decided(data_loss="2 rows")
    one = approval.next_run_id("manual__2026-11-21T10:00:00+00:00", first)
    assert re.fullmatch(r"manual__2026-11-21T10:00:00\+00:00__again1_full_snapshot_[0-9a-f]{8}", one)
    assert one == approval.next_run_id("manual__2026-11-21T10:00:00+00:00", dict(first))
    assert one != approval.next_run_id("manual__2026-11-21T10:00:00+00:00", other)
    two, three = approval.next_run_id(one, other), approval.next_run_id(approval.next_run_id(one, other), first)
    assert [name.split("__")[-1].split("_")[0] for name in (one, two, three)] == ["again1", "again2", "again3"]
    assert len(three) == len(one)


def test_asking_again_triggers_the_run_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    triggered = create_autospec(TriggerDagRunOperator.execute, return_value=None)
    monkeypatch.setattr(TriggerDagRunOperator, "execute", triggered)
    task = ask_again.AskAgainOperator(task_id="ask_again")
    with pytest.raises(AirflowSkipException):
        task.execute(context())
    task.execute(context({"approve.asked_again": {"run_id": "r__again1", "conf": {"pipeline": "shop"}}}))
    assert (task.trigger_run_id, task.conf) == ("r__again1", {"pipeline": "shop"})
    assert (task.trigger_dag_id, task.skip_when_already_exists) == ("{{ dag.dag_id }}", True)
    assert triggered.call_count == 1


def test_the_question_is_told_at_once_to_all_that_the_policy_names(
    asking: Any, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.write_text(REGISTRY.rstrip() + "\n    policy: {notify: [nobody, ops]}\n")
    monkeypatch.setattr(settings, "airflow_url", lambda: "https://airflow.example")
    monkeypatch.setenv("AIRFLOW_CONN_OPS", '{"conn_type": "http", "host": "https://chat.example/hook"}')
    posted: list[str] = []
    kept = httpx.Response(200, request=httpx.Request("POST", "https://chat.example/hook"))

    def post(_url: str, **kwargs: Any) -> httpx.Response:
        posted.append(kwargs["json"]["text"])
        return kept

    monkeypatch.setattr(httpx, "post", post)
    first = decided(needs_approval=True, data_loss="{{ 12 }} rows")
    operator, _, made, _ = asking(first, first)
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, made: [notifier(made) for notifier in self.notifiers])
    monkeypatch.setattr(operator, "generate_link_to_ui", lambda **kwargs: f"{kwargs['base_url']}/asked")
    operator.execute(made)  # "nobody" has no connection, and holds nothing up
    (text,) = posted
    assert text.startswith("shop: BINLOG_PURGED: The binlog was purged. A person is asked to approve full_snapshot")
    assert "loses {{ 12 }} rows. Without an answer within 2:00:00 nothing is done." in text
    assert text.endswith("https://airflow.example/asked")


def test_reject_changes_nothing_and_is_kept_for_the_report(asking: Any) -> None:
    operator, ledger, made, answer = asking(decided(needs_approval=True), decided("GTID_PURGED"), option="Reject")
    operator.downstream_task_ids = {"open_recovery"}
    made["task"] = in_the_dag()
    with pytest.raises(DownstreamTasksSkipped) as ended:
        answer()
    assert ended.value.tasks == ["open_recovery", "ask_again"]
    assert ledger.kept["unchanged"] == "rejected by ann: nothing was changed"


def test_the_approved_decision_stands_before_the_diagnosed_one() -> None:
    approved = decided(data_loss="2 rows")
    made = context({"diagnose": DECISION, "approve": {"approved": "by ann", "decision": approved}})
    assert base.standing_decision(made) == approved
    assert base.standing_decision(context({"diagnose": DECISION})) == DECISION


def test_the_question_begins_with_what_the_answer_decides() -> None:
    """Rows, time and loss first; identifiers last."""
    decision = {**decided(seconds=7200.0, fits_retention=False), "deletes": {"shop.orders": 1999, "shop.t": None}}
    body = approval.describe(decision)
    first = body.splitlines()[:3]
    assert first[0] == "- Rows deleted: **shop.orders: at least 1,999; shop.t: unknown: the rows could not be counted**"
    assert first[1] == "- Reads the source for: **about 2 h, like last time; the source may purge its log before that**"
    assert first[2] == "- Loses: **nothing**"
    assert body.index("Approve") < body.index("oldest file")
    assert "nothing is read from the source" in approval.describe(decided())


def test_who_approved_is_kept_for_the_report(asking: Any) -> None:
    before = decided(needs_approval=True)
    _, ledger, _, answer = asking(before, {**before, "taken_at": "later"})
    answer()
    assert ledger.kept["approved"] == "by ann"


def test_texts_of_other_systems_are_no_markup_in_the_question() -> None:
    """A trace or a table's name must not become a link, an image, a heading or HTML beside the buttons."""
    hostile = "[approve](https://evil.example) <img src=x> **urgent** `x` ```\n# Heading\n\x1b[31m\u202egnp"
    decision = decided()
    decision["diagnosis"] = {**decision["diagnosis"], "description": hostile, "evidence": {hostile: hostile}}
    decision["plan"] = {**decision["plan"], "reason": hostile}
    html = MarkdownIt("commonmark", {"html": True}).render(approval.describe(decision))
    assert "evil.example" in html
    for markup in ('href="https://evil', "<img", "<strong>urgent", "<h1>Heading", "\x1b", "\u202e"):
        assert markup not in html
    assert "\\u001b[31m" in html
