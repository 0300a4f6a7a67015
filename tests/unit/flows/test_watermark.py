"""The fence and the watermark: what must hold before they are taken, and when an earlier one still counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import (
    CdcError,
    ConnectorError,
    DeadlineError,
    OffsetRejectedError,
    RereadNeededError,
    SchemaError,
    SourceError,
    TransportError,
    UnreportedChangeError,
)
from airflow_cdc.core.pipeline import HoldPolicy, Policy
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import HoldAnswer, VerifiedTable
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.topics import TopicOffsets, TopicState, fence_from_json
from airflow_cdc.flows import watermark as step
from airflow_cdc.flows.recovery import change, own_way_on, verify_again
from airflow_cdc.flows.run import Run
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from tests.unit.builders import UUID, WATERMARK
from tests.unit.clocks import waiting
from tests.unit.core.test_report import TABLE
from tests.unit.flows.recovering import LOST, NAME, READ, now, recovering

TOPIC = "shop.shop.orders"
PLACE = MySqlPosition("mysql-bin.000009", 900, GtidSet.parse(f"{UUID}:1-90"), 1)
NEWER = replace(WATERMARK, position=PLACE)
NONE_YET = replace(READ, watermark=None, definitions={})


def taking(recovery: Any = NONE_YET, hold: str = "off") -> Run:
    """A run that takes NEWER as its watermark; the topic of NAME ends at 10."""
    made = recovering(recovery)
    policy = Policy(hold=HoldPolicy(mode=hold))  # type: ignore[arg-type]
    run = replace(made, pipeline=replace(made.pipeline, policy=policy))
    clients: Any = run.clients
    clients.source.watermark.return_value = NEWER
    clients.transport.gathered.return_value = {TOPIC: TopicState(TOPIC, "id1", {0: (3, 10)})}
    return run


def still_there(run: Run, answer: bool) -> None:
    source: Any = run.clients.source
    source.still_available.return_value.__bool__.return_value = answer


def test_the_fence_is_where_the_topics_end_while_the_connector_stands() -> None:
    run = taking()
    done = step.fence_and_watermark(run)
    recovery = now(run)
    assert recovery.fence == fence_from_json(done["fence"]) == {TOPIC: TopicOffsets("id1", {0: 10})}
    assert recovery.watermark == NEWER


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED", "UNASSIGNED", "FAILED"])
def test_no_fence_is_taken_while_the_connector_could_still_write(state: str) -> None:
    run = taking()
    connector: Any = run.clients.connector
    connector.state.return_value.state = state
    with pytest.raises(ConnectorError, match=f"the connector is {state}, not STOPPED") as refused:
        step.fence_and_watermark(run)
    assert "Clear the task stop_connector" in refused.value.todo
    assert now(run).fence is None


def test_inv_07_the_watermark_is_waited_for_until_it_is_visible() -> None:
    run = taking()
    order: list[str] = []
    source: Any = run.clients.source

    def take(**_: Any) -> Watermark:
        order.append("taken")
        return NEWER

    source.watermark.side_effect = take
    source.wait_visible.side_effect = lambda mark, seconds: order.append(f"visible {mark == NEWER} {seconds > 0}")
    step.fence_and_watermark(run)
    assert order == ["taken", "visible True True"]


def test_inv_08_prepared_transactions_are_waited_for_with_a_limit() -> None:
    run = taking()
    step.fence_and_watermark(run)
    source: Any = run.clients.source
    assert source.watermark.call_args.kwargs == {"xa_timeout": step.XA_SECONDS}


def test_inv_31_tables_that_the_server_does_not_log_get_no_watermark() -> None:
    run = taking()
    source: Any = run.clients.source
    source.check_logged.side_effect = SourceError("binlog-ignore-db hides shop")
    with pytest.raises(SourceError, match="binlog-ignore-db"):
        step.fence_and_watermark(run)
    assert now(run).watermark is None


def test_inv_03_an_earlier_watermark_still_counts_while_the_server_has_it_and_no_definition_changed() -> None:
    run = taking(READ)
    still_there(run, answer=True)
    assert step.fence_and_watermark(run)["kept"] is True
    assert now(run).watermark == WATERMARK


@pytest.mark.parametrize("why", ["purged", "altered", "another server"])
def test_inv_03_a_watermark_that_no_longer_counts_is_replaced_with_its_fence(why: str) -> None:
    run = taking(replace(READ, definitions={NAME: "older"}) if why == "altered" else READ)
    still_there(run, answer=why != "purged")
    source: Any = run.clients.source
    if why == "another server":
        source.check_same_server.side_effect = SourceError("another server answers")
    assert step.fence_and_watermark(run)["kept"] is False
    recovery = now(run)
    assert (recovery.watermark, recovery.fence is not None) == (NEWER, True)
    assert recovery.definitions == READ.definitions


def test_inv_03_tables_published_under_an_older_watermark_are_read_again_under_a_new_epoch() -> None:
    run = taking(replace(READ, published={NAME: 7}))
    still_there(run, answer=False)
    step.fence_and_watermark(run)
    control: Any = run.clients.control
    control.raise_epoch.assert_called_once_with("r")


def test_a_new_watermark_with_nothing_published_needs_no_new_epoch() -> None:
    run = taking(READ)
    still_there(run, answer=False)
    step.fence_and_watermark(run)
    control: Any = run.clients.control
    control.raise_epoch.assert_not_called()


def test_inv_39_a_watermark_that_lacks_what_the_connector_sent_is_refused() -> None:
    run = taking(replace(NONE_YET, offset_kept=True))
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = {**LOST, "gtids": f"{UUID}:1-99"}
    with pytest.raises(OffsetRejectedError, match="may not hold everything"):
        step.fence_and_watermark(run)
    assert now(run).watermark is None


@pytest.mark.parametrize("kept", [False, True])
def test_the_log_is_reserved_only_where_the_connector_will_start_from_the_watermark(kept: bool) -> None:
    run = taking(replace(NONE_YET, offset_kept=kept))
    step.fence_and_watermark(run)
    source: Any = run.clients.source
    assert source.reserve_log.called is not kept


def test_inv_10_the_watermark_waits_for_the_holds_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, step)
    run = taking(hold="auto")
    with pytest.raises(DeadlineError, match="the hold of the log to answer"):
        step.fence_and_watermark(run)
    assert now(run).watermark is None


@pytest.mark.parametrize("state", ["REFUSED", "UNSUPPORTED", "RELEASED", None])
def test_inv_10_a_policy_that_requires_the_hold_takes_no_watermark_without_it(
    monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    waiting(monkeypatch, step)
    answer = HoldAnswer(state, "needs BACKUP_ADMIN", "2026-11-21T09:00:00+00:00") if state else None
    run = taking(replace(NONE_YET, hold=answer), hold="required")
    with pytest.raises(DeadlineError, match=r"policy\.hold\.mode requires") as refused:
        step.fence_and_watermark(run)
    assert state is None or f"{state}: needs BACKUP_ADMIN" in str(refused.value)
    assert now(run).watermark is None


def test_inv_10_a_hold_that_is_held_after_a_refusal_of_an_earlier_try_lets_the_watermark_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = waiting(monkeypatch, step)
    run = taking(replace(NONE_YET, hold=HoldAnswer("REFUSED", "", "2026-11-21T09:00:00+00:00")), hold="required")
    held = HoldAnswer("HELD", "", "2026-11-21T09:00:09+00:00")
    clock.on_sleep = lambda: change(run, lambda recovery: recovery.held(held))
    assert step.fence_and_watermark(run)["kept"] is False


@pytest.mark.parametrize("state", ["HELD", "REFUSED", "UNSUPPORTED"])
def test_inv_10_any_answer_of_the_hold_lets_the_watermark_be_taken(state: str) -> None:
    run = taking(replace(NONE_YET, hold=HoldAnswer(state, "", "2026-11-21T09:00:00+00:00")), hold="auto")
    assert step.fence_and_watermark(run)["kept"] is False


def test_resume_next_file_starts_at_the_file_after_the_stored_position() -> None:
    run = taking(replace(NONE_YET, strategy="resume_next_file"))
    source: Any = run.clients.source
    start: Watermark = replace(NEWER, position=replace(PLACE, file="mysql-bin.000003", pos=4))
    source.start_of_file_after.return_value = start
    step.fence_and_watermark(run)
    (stored, mark), _ = source.start_of_file_after.call_args
    assert (stored.file, mark) == ("mysql-bin.000002", NEWER)
    assert now(run).watermark == start


def test_other_strategies_start_at_the_watermark_itself() -> None:
    run = taking()
    step.fence_and_watermark(run)
    source: Any = run.clients.source
    source.start_of_file_after.assert_not_called()


@pytest.mark.parametrize("writer", ["connector", "cdc_apply"])
@pytest.mark.parametrize(("verdict", "kept"), [("MISMATCH", False), ("INCONCLUSIVE", True)])
def test_inv_35_rows_that_are_wrong_are_not_kept_with_their_watermark(verdict: str, writer: str, kept: bool) -> None:
    """What was read under it, or skipped since, differs for ever: `verify` says to go back here, and that must end it."""
    wrong = VerifiedTable(replace(TABLE, verdict=Verdict(verdict), samples=("why",)))
    published = {NAME: 7} if writer == "connector" else {}
    made = taking(replace(READ, published=published, verified={NAME: wrong}))
    sink = replace(made.pipeline.sink, writer=writer)
    run = replace(made, pipeline=replace(made.pipeline, sink=sink))
    still_there(run, answer=True)
    assert step.fence_and_watermark(run)["kept"] is kept
    said = verify_again(run, [verdict])
    assert said.startswith("Clear the task verify to verify again.")
    assert ("clear the task stop_connector and all after it" in said) is not kept


NEW = (
    "Clear the task stop_connector and all after it, or run: airflow cdc recover shop. Either takes a new watermark and"
    " reads the tables again, within this recovery."
)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            RereadNeededError("a column was added", todo="Recover the table (full_snapshot), or let apply re-read it."),
            NEW,
        ),
        (UnreportedChangeError("events have columns …", todo="The next apply tries again."), NEW),
        (
            TransportError("a gap", todo="Recover the table, and check the topic's retention."),
            f"Read the table again, and check the topic's retention. {NEW}",
        ),
        (
            SchemaError(
                "events cannot be trusted", todo="Convert the column to utf8mb4 and recover the table (diff_repair)."
            ),
            f"Convert the column to utf8mb4 and read the table again. {NEW}",
        ),
        (TransportError("no broker answered", todo="Start Kafka, then clear the task verify."), ""),
    ],
)
def test_what_only_new_rows_can_end_takes_a_new_watermark_within_the_recovery(error: CdcError, advice: str) -> None:
    """Its own advice is to recover the table, which an open recovery refuses; a TRUNCATE shows in no definition.

    What has to be done before stays: without it, the next try would end there, too.
    """
    run = taking(READ)
    still_there(run, True)
    own = error.todo
    with pytest.raises(type(error)), own_way_on(run):
        raise error
    assert step.fence_and_watermark(run)["kept"] is not bool(advice)
    assert (now(run).watermark == NEWER) is bool(advice)
    assert error.todo == (advice or own)
