"""What each policy publishes for each verdict, and what is noted then, in milliseconds.

tests/contract/test_publish_policies.py has the same rules over a real catalog, with what readers see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import NotAgreedError, VerificationError
from airflow_cdc.core.pipeline import Approval, Policy
from airflow_cdc.core.recovery import StagedTable, VerifiedTable
from airflow_cdc.core.report import ComparedAt, TableReport, Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run, RunOptions
from tests.unit.flows.recovering import NAME, READ, now, recovering

OTHER = "shop.customers"
FENCE = {"shop.shop.orders": TopicOffsets("id1", {0: 7})}
STAMP = Stamp(4, None, FENCE)
SNAPSHOTS = {NAME: 70, OTHER: 80}


def compared(policy: Policy, *, orders: str = "MATCH", customers: str = "MATCH", rows: int = 3) -> Run:
    """A recovery of two tables with these verdicts ("": not compared); main has `rows` of each, the source 3."""
    verified = {
        table: VerifiedTable(
            TableReport(table, 3, 3, 0, 0, 0, 1, 0, (), ComparedAt(SNAPSHOTS[table], ""), Verdict(verdict), ("why",)),
            f"v_{table}",
        )
        for table, verdict in ((NAME, orders), (OTHER, customers))
        if verdict
    }
    stages = {table: StagedTable(f"read_{table}", rows=3, snapshot_id=1) for table in SNAPSHOTS}
    run = recovering(replace(READ, tables=(NAME, OTHER), verified=verified, stages=stages, fence=FENCE))
    sink: Any = run.clients.sink
    sink.facts.return_value.rows = rows
    sink.stamp.return_value = STAMP
    return replace(run, pipeline=replace(run.pipeline, policy=policy))


def moved(run: Run) -> list[Any]:
    """The snapshots that main was moved to."""
    sink: Any = run.clients.sink
    return [call.args[1] for call in sink.publish.call_args_list]


NOT_PROVEN = ["MISMATCH", "INCONCLUSIVE", ""]


@pytest.mark.parametrize("verdict", NOT_PROVEN)
def test_all_while_one_table_is_not_proven_main_of_none_moves(verdict: str) -> None:
    run = compared(Policy(publish="all"), orders="MATCH", customers=verdict)
    with pytest.raises(VerificationError, match=f"nothing is published: {OTHER} is {verdict or 'not verified'}"):
        publish(run)
    assert (moved(run), dict(now(run).published)) == ([], {})


@pytest.mark.parametrize(
    ("orders", "customers", "worst"),
    [
        ("MISMATCH", "INCONCLUSIVE", "MISMATCH"),
        ("INCONCLUSIVE", "MISMATCH", "MISMATCH"),
        ("MATCH", "INCONCLUSIVE", "INCONCLUSIVE"),
        ("MATCH", "", "INCONCLUSIVE"),
        ("MISMATCH", "", "MISMATCH"),
    ],
)
def test_a_run_that_publishes_nothing_ends_with_the_worst_verdict(orders: str, customers: str, worst: str) -> None:
    """A command's exit status tells rows that differ from what could not be compared."""
    with pytest.raises(VerificationError) as caught:
        publish(compared(Policy(publish="all"), orders=orders, customers=customers))
    assert (caught.value.verdict, "main was not changed" in caught.value.todo) == (worst, True)


@pytest.mark.parametrize("verdict", NOT_PROVEN)
def test_each_main_of_a_table_that_is_not_proven_stays_and_the_run_fails_by_its_name(verdict: str) -> None:
    run = compared(Policy(publish="each"), orders="MATCH", customers=verdict)
    with pytest.raises(VerificationError, match=f"because they are not MATCH: {OTHER}"):
        publish(run)
    assert (moved(run), dict(now(run).published)) == ([70], {NAME: 70})


@pytest.mark.parametrize("mode", ["all", "each"])
def test_inv_04_main_moves_to_what_was_compared_and_not_to_what_was_read(mode: Any) -> None:
    run = compared(Policy(publish=mode))
    assert publish(run) == {"published": SNAPSHOTS}
    sink: Any = run.clients.sink
    assert sorted(call.args[2] for call in sink.open_stage.call_args_list) == [f"v_{OTHER}", f"v_{NAME}"]
    assert dict(now(run).published) == SNAPSHOTS


def test_a_compaction_of_main_meanwhile_does_not_void_the_comparison() -> None:
    run = compared(Policy())
    publish(run)
    sink: Any = run.clients.sink
    assert {call.kwargs["over_compaction"] for call in sink.publish.call_args_list} == {True}


def test_what_is_published_is_known_without_the_tables_snapshots_and_letters_from_before_are_settled() -> None:
    """Expiry may take the stamped snapshot; and an old event is never applied again over rows that were read after it."""
    run = compared(Policy())
    publish(run)
    control: Any = run.clients.control
    sink: Any = run.clients.sink
    control.mirror_stamps.assert_called_once_with({NAME: STAMP, OTHER: STAMP})
    sink.resolve_letters_before.assert_called_once_with("shop", {NAME: FENCE, OTHER: FENCE})


def test_a_table_without_a_stamp_leaves_its_mirrored_one() -> None:
    run = compared(Policy())
    sink: Any = run.clients.sink
    sink.stamp.return_value = None
    publish(run)
    control: Any = run.clients.control
    control.mirror_stamps.assert_called_once_with({})


def test_inv_04_a_second_try_leaves_what_is_on_main() -> None:
    run = compared(Policy())
    recovery = replace(now(run), published={NAME: 70})
    control: Any = run.clients.control
    control.change_recovery(run.run_id, lambda _now: recovery, None)
    assert publish(run) == {"published": SNAPSHOTS}
    assert moved(run) == [80]


ONE = Limit.parse("1%")


@pytest.mark.parametrize(("mode", "published"), [("all", []), ("each", [])])
def test_inv_36_rows_that_nobody_agreed_to_remove_stay(mode: Any, published: list[int]) -> None:
    run = compared(Policy(publish=mode, max_deletes=ONE), rows=100)
    with pytest.raises(NotAgreedError, match="97 of 100 rows of") as refused:
        publish(run)
    assert (moved(run), set(refused.value.tables)) == (published, {NAME, OTHER})


@pytest.mark.parametrize("mode", ["all", "each"])
@pytest.mark.parametrize("agreed", [NAME, OTHER])
def test_inv_36_each_publishes_what_was_agreed_to_and_all_waits_for_the_others(mode: Any, agreed: str) -> None:
    run = compared(Policy(publish=mode, max_deletes=ONE), rows=100)
    control: Any = run.clients.control
    recovery = replace(now(run), agreed={agreed: 97})
    control.change_recovery(run.run_id, lambda _now: recovery, None)
    with pytest.raises(NotAgreedError):
        publish(run)
    assert moved(run) == ([SNAPSHOTS[agreed]] if mode == "each" else [])


@pytest.mark.parametrize(("approval", "approved"), [("never", False), ("always", True), ("when_destructive", True)])
def test_a_policy_that_asks_nobody_or_a_run_that_was_approved_may_remove_any_number(
    approval: Approval, approved: bool
) -> None:
    run = compared(Policy(approval=approval, max_deletes=ONE), rows=100)
    publish(replace(run, options=RunOptions(approved=approved)))
    assert sorted(moved(run)) == [70, 80]


@pytest.mark.parametrize("approval", ["always", "when_destructive"])
def test_inv_36_a_run_that_nobody_approved_asks(approval: Approval) -> None:
    run = compared(Policy(approval=approval, max_deletes=ONE), rows=100)
    with pytest.raises(NotAgreedError):
        publish(run)


def test_inv_36_approval_allows_removals_and_never_a_mismatch() -> None:
    run = compared(Policy(max_deletes=ONE), rows=100, orders="MISMATCH", customers="MATCH")
    with pytest.raises(VerificationError, match=f"{NAME} is MISMATCH"):
        publish(replace(run, options=RunOptions(approved=True)))
    assert moved(run) == []


@pytest.mark.parametrize(
    ("verdict", "worst"), [("MISMATCH", "MISMATCH"), ("INCONCLUSIVE", "INCONCLUSIVE"), ("", "INCONCLUSIVE")]
)
def test_inv_35_tables_that_the_connector_writes_are_recovered_once_each_is_proven(verdict: str, worst: str) -> None:
    """They are on main already: readers see them, so nothing is moved, and nothing is called recovered either."""
    run = compared(Policy(), orders="MATCH", customers=verdict)
    sink = replace(run.pipeline.sink, writer="connector")
    of_connector = replace(run, pipeline=replace(run.pipeline, sink=sink))
    with pytest.raises(VerificationError, match=f"not proven: {OTHER} is {verdict or 'not verified'}") as refused:
        publish(of_connector)
    assert (refused.value.verdict, moved(run)) == (worst, [])
