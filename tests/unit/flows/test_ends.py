"""How a recovery ends, and how its offset and watermark are kept by a later try: what must hold, and what must not have happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import (
    ConnectorError,
    LeaseHeldError,
    NotAgreedError,
    OffsetRejectedError,
    SchemaError,
    SourceError,
    UsageError,
    VerificationError,
)
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.recovery import HistoryDoubts, OpenRecovery, StagedTable, VerifiedTable
from airflow_cdc.core.report import ComparedAt
from airflow_cdc.core.topics import TopicOffsets, fence_to_json
from airflow_cdc.flows import abandon as giving_up
from airflow_cdc.flows import close as closing
from airflow_cdc.flows import publish as publishing
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows import watermark as marking
from airflow_cdc.flows.run import Run
from tests.unit.builders import UUID, WATERMARK
from tests.unit.core.test_report import BAD, TABLE
from tests.unit.flows.recovering import KEY, LOST, NAME, READ, now, recovering
from tests.unit.flows.test_watermark import NEWER, still_there, taking

OTHER = "shop.customers"
MATCHES = VerifiedTable(replace(TABLE, table=NAME, compared_at=ComparedAt(7, "")))
DONE = replace(READ, published={NAME: 7}, verified={NAME: MATCHES})


def of_connector(run: Run) -> Run:
    """The same, with tables that the connector writes itself."""
    return replace(run, pipeline=replace(run.pipeline, sink=replace(run.pipeline.sink, writer="connector")))


# --- closing ---------------------------------------------------------------------------------------------------------------


class Closed:
    """A run's close, and the order of what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, recovery: OpenRecovery, folder: Path) -> None:
        self.order: list[str] = []
        self.run = replace(recovering(recovery), report_dir=str(folder))
        control: Any = self.run.clients.control
        control.entry.return_value = LedgerEntry()
        control.close_recovery.side_effect = lambda *_: self.order.append("closed")
        control.release.side_effect = lambda *_: self.order.append("let go")
        monkeypatch.setattr(closing.connector, "restore_settings", lambda _run: self.order.append("settings"))  # type: ignore[attr-defined]
        monkeypatch.setattr(closing, "drop_stages", lambda _run, tables: self.order.append(f"stages {list(tables)}"))


def test_a_closed_recovery_leaves_the_connectors_settings_as_they_were_and_no_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Closed(monkeypatch, DONE, tmp_path)
    assert closing.close(made.run) == {"closed": True, "epoch": 4}
    assert made.order == ["settings", f"stages {[NAME]}", "closed", "let go"]


def test_inv_01_a_recovery_with_a_table_that_is_not_on_main_is_not_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Closed(monkeypatch, replace(DONE, tables=(NAME, OTHER)), tmp_path)
    with pytest.raises(VerificationError, match=f"cannot be closed: {OTHER} not published") as refused:
        closing.close(made.run)
    assert refused.value.todo == "Clear the task publish."
    assert made.order == []


@pytest.mark.parametrize(
    "verified",
    [{}, {NAME: VerifiedTable(BAD)}],
    ids=["not compared", "differs"],
)
def test_inv_01_tables_that_the_connector_writes_are_published_before_they_are_proven_and_closed_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verified: dict[str, VerifiedTable]
) -> None:
    made = Closed(monkeypatch, replace(DONE, verified=verified), tmp_path)
    with pytest.raises(VerificationError, match=f"{NAME} not proven to equal the source") as refused:
        closing.close(of_connector(made.run))
    assert refused.value.todo == "Clear the task verify."
    assert made.order == []


def test_a_close_that_was_killed_after_closing_only_lets_the_lease_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Closed(monkeypatch, DONE, tmp_path)
    control: Any = made.run.clients.control
    control.entry.return_value = LedgerEntry(epoch=4, recovery="closed")
    assert closing.close(made.run) == {"closed": True, "epoch": 4}
    assert made.order == ["let go"]


# --- giving up ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["", " ", "\n\t"])
def test_nothing_is_given_up_without_a_reason(reason: str) -> None:
    run = recovering()
    with pytest.raises(UsageError, match="the reason is missing"):
        giving_up.abandon(run, who="ann", reason=reason)
    control: Any = run.clients.control
    control.abandon.assert_not_called()
    control.acquire.assert_not_called()


STOPPED = "connector shop is STOPPED; "


@pytest.mark.parametrize(
    ("recovery", "said"),
    [
        (READ, "its offset was not changed"),
        (replace(READ, written_at="10:00"), "its offset is the watermark's, written at 10:00"),
        (replace(READ, written_at="10:00", offset_kept=True), "its offset was not changed"),
        (
            replace(READ, settings_before={"a": None, "b": "1"}),
            "its offset was not changed; still set for the recovery: a (before: not set), b (before: 1)",
        ),
        (None, "its offset was not changed"),
    ],
    ids=["nothing written", "written", "left where it was", "settings", "no recovery"],
)
def test_who_gives_up_is_told_with_which_offset_and_settings_the_connector_is_left(
    recovery: OpenRecovery | None, said: str
) -> None:
    assert giving_up.connector_text(recovering(), recovery) == STOPPED + said


def test_a_connector_that_cannot_be_asked_is_said_to_be_unread_and_not_stopped() -> None:
    run = recovering()
    connector: Any = run.clients.connector
    connector.state.side_effect = ConnectorError("refused")
    assert "is in a state that could not be read (refused); its offset" in giving_up.connector_text(run, READ)


# --- the offset that a recovery writes, or leaves --------------------------------------------------------------------------------


def kept(recovery: OpenRecovery = READ, committed: str = f"{UUID}:1-70") -> Run:
    """A recovery that leaves the offset, which W covers."""
    run = recovering(replace(recovery, offset_kept=True))
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = {**LOST, "gtids": committed}
    return run


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The source lets a connector read on from any place; histories are right. Returns the places that were checked."""
    checked: list[Any] = []
    monkeypatch.setattr(offset, "check_place", lambda _run, value: checked.append(value))
    monkeypatch.setattr(offset, "_history", lambda *_: {})
    return checked


def test_inv_39_an_offset_that_stays_is_asked_of_the_source_and_noted_as_it_stands(free: list[Any]) -> None:
    run = kept()
    done = offset.reset_offset(run)
    stands = {**LOST, "gtids": f"{UUID}:1-70"}
    assert (done["kept"], done["offset_after"], free) == (True, stands, [stands])
    assert (now(run).written, bool(now(run).written_at)) == (stands, True)


def test_inv_09_an_offset_stays_only_at_the_server_of_the_watermark(free: list[Any]) -> None:
    run = kept()
    source: Any = run.clients.source
    source.check_same_server.side_effect = SourceError("another server answers")
    with pytest.raises(SourceError, match="another server"):
        offset.reset_offset(run)
    assert (now(run).written_at, free) == ("", [])


def test_inv_39_an_offset_beyond_the_watermark_does_not_stay(free: list[Any]) -> None:
    run = kept(committed=f"{UUID}:1-81")
    with pytest.raises(OffsetRejectedError, match="may not hold everything"):
        offset.reset_offset(run)
    assert now(run).written_at == ""


def test_inv_11_an_offset_does_not_stay_over_rows_of_another_definition(free: list[Any]) -> None:
    run = kept(replace(READ, definitions={NAME: "another"}))
    with pytest.raises(SchemaError, match="changed since the watermark"):
        offset.reset_offset(run)
    assert now(run).written_at == ""


def test_an_offset_that_stays_is_decided_once(free: list[Any]) -> None:
    run = kept(replace(READ, written_at="2026-01-01T00:00:00+00:00", written=LOST, backup=OffsetEntry(KEY, LOST)))
    assert offset.reset_offset(run) == {"offset_before": LOST, "offset_after": LOST, "kept": True}
    assert free == []


def test_inv_39_a_history_that_is_rebuilt_holds_the_other_tables_as_they_are(
    monkeypatch: pytest.MonkeyPatch, free: list[Any]
) -> None:
    monkeypatch.setattr(offset, "present", lambda _run, tables: dict.fromkeys(tables))
    monkeypatch.setattr(offset, "_history", lambda _run, definitions, _value: dict.fromkeys(definitions, ("differs",)))
    run = kept()
    with pytest.raises(SchemaError, match=f"^{OTHER} changed after the connector's position"):
        offset.reset_offset(run)
    assert now(run).written_at == ""


@pytest.mark.parametrize(("reports", "asked"), [(True, True), (False, False)])
def test_inv_12_the_history_is_compared_wherever_the_connector_keeps_one(
    monkeypatch: pytest.MonkeyPatch, reports: bool, asked: bool
) -> None:
    class History:
        def differences(self, definitions: Any, *, at: Any) -> dict[str, tuple[str, ...]]:
            return dict.fromkeys(definitions, ("column a: only in the source",))

    class Settings:
        reports_ddl = reports
        prefix = "shop"

    monkeypatch.setattr(offset, "settings", lambda _run: Settings)
    monkeypatch.setattr(offset, "history", lambda _run: History())
    monkeypatch.setattr(offset, "write", lambda *_: None)
    differences = offset.reset_offset(recovering())["history_differences"]
    assert differences == ({NAME: ["column a: only in the source"]} if asked else {})


def test_tables_that_the_connector_writes_are_on_main_before_its_offset_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.setattr(offset, "publish_read", lambda _run: order.append("published"))
    monkeypatch.setattr(offset, "write", lambda *_: order.append("written"))
    monkeypatch.setattr(offset, "_history", lambda *_: {})
    offset.reset_offset(of_connector(recovering()))
    assert order == ["published", "written"]


def test_tables_that_would_lose_too_many_rows_are_not_published_for_the_connector_and_no_offset_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """INV 36: nobody agreed to it, and the connector would go on over it."""
    written: list[Any] = []
    monkeypatch.setattr(offset, "write", lambda *_: written.append(1))
    stage = StagedTable("recov_4_1", rows=1, snapshot_id=7, before=100)
    run = of_connector(recovering(replace(READ, stages={NAME: stage})))
    limited = replace(run, pipeline=replace(run.pipeline, policy=Policy(max_deletes=Limit.parse("1%"))))
    with pytest.raises(NotAgreedError, match=f"99 of 100 rows of {NAME} would be removed"):
        offset.reset_offset(limited)
    sink: Any = run.clients.sink
    sink.publish.assert_not_called()
    assert written == []


# --- the watermark of a later try ----------------------------------------------------------------------------------------------

FENCE = {"shop.shop.orders": TopicOffsets("id1", {0: 7})}


def test_inv_03_an_earlier_watermark_is_told_with_its_own_fence() -> None:
    """What waits behind that fence is what apply reads: the topics end further on by now."""
    run = taking(replace(READ, fence=FENCE))
    still_there(run, answer=True)
    done = marking.fence_and_watermark(run)
    assert (done["kept"], done["fence"]) == (True, fence_to_json(FENCE))
    assert done["fence"]


def test_a_new_watermark_is_told_with_its_fence() -> None:
    done = marking.fence_and_watermark(taking())
    assert (done["kept"], done["fence"]) == (False, fence_to_json({"shop.shop.orders": TopicOffsets("id1", {0: 10})}))


def test_a_later_try_of_resume_next_file_starts_from_the_position_before_the_recovery() -> None:
    """The offset is the first try's own by then: the file after that one would leave out the file after the gap."""
    first = {**LOST, "file": "mysql-bin.000001"}
    unmarked = replace(
        READ, watermark=None, definitions={}, strategy="resume_next_file", backup=OffsetEntry(KEY, first)
    )
    run = taking(unmarked)
    source: Any = run.clients.source
    source.start_of_file_after.return_value = NEWER
    marking.fence_and_watermark(run)
    (stored, _), _ = source.start_of_file_after.call_args
    assert stored.file == "mysql-bin.000001"


@pytest.mark.parametrize(
    ("offset_kept", "published", "raised"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_inv_03_a_new_epoch_is_asked_only_where_published_tables_can_no_longer_go_on(
    offset_kept: bool, published: bool, raised: bool
) -> None:
    recovery = replace(READ, watermark=None, offset_kept=offset_kept, published={NAME: 7} if published else {})
    run = taking(recovery)
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = MySqlCodec().at(WATERMARK.position, 1)
    marking.fence_and_watermark(run)
    control: Any = run.clients.control
    assert control.raise_epoch.called is raised


# --- publishing, by whom it is asked -------------------------------------------------------------------------------------------


def test_inv_37_a_run_that_lost_its_lease_publishes_nothing() -> None:
    run = recovering(replace(READ, verified={NAME: MATCHES}, stages={NAME: StagedTable("recov_4_1", 3, 7)}))
    control: Any = run.clients.control
    control.renew.side_effect = LeaseHeldError("another has it")
    with pytest.raises(LeaseHeldError):
        publishing.publish(run)
    sink: Any = run.clients.sink
    sink.publish.assert_not_called()


def test_a_history_that_an_abandoned_detour_left_is_rebuilt_even_where_it_looks_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset, "write", lambda *_: None)
    monkeypatch.setattr(offset, "_history", lambda *_: {})
    run = recovering(replace(READ, history=HistoryDoubts(doubted=True)))
    offset.reset_offset(run)
    assert set(now(run).history.differences) == {NAME}
