"""Which problems leave the connector's offset alone (INV 39): written down here, apart from the code's own list.

The position is in order and single tables, or their topics, are not. A recovery of any other problem moves the offset, so
no table may go on from its stamp.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError, LeaseHeldError, RecoveryOpenError
from airflow_cdc.core.recovery import Decision
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, DIFF_REPAIR, FULL, TRANSLATE
from airflow_cdc.flows import open as step
from airflow_cdc.flows import replica
from airflow_cdc.flows.run import Run
from tests.unit.builders import ALL_CODES, PIPELINE
from tests.unit.flows.recovering import NAME, READ, recovering

LEFT_ALONE = {
    "HEALTHY": "a recovery was asked for of a pipeline that is in order",
    "TABLE_ADDED": "the new table was never read; the connector reads on",
    "TABLE_NEEDS_REREAD": "DDL, or unreadable records, of one table",
    "EPOCH_BEHIND": "one sink table was put back",
    "STAMP_LOST": "one sink table says nothing of how far it is",
    "TRANSPORT_GAP": "a topic lost records that the connector sent; the source's log is whole",
    "TRANSPORT_REPLACED": "a topic was made anew; the source's log is whole",
    "LOG_INCOMPLETE": "rows changed without events; what was logged was read",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose tables can be recovered, and whose lease is free."""
    monkeypatch.setattr(step, "refuse_unrecoverable", lambda *_: ())
    monkeypatch.setattr(step, "require_stages", lambda _run: None)
    return recovering(replace(READ, strategy=FULL))


def decided(problem: str = "GTID_PURGED", strategy: str = FULL, **more: Any) -> Decision:
    return Decision(problem, strategy, (NAME,), pipeline_hash=PIPELINE.hash, **more)


def opened(run: Run, decision: Decision) -> Any:
    """What the control document was asked for."""
    step.open_recovery(run, decision)
    control: Any = run.clients.control
    return control.open_recovery.call_args.kwargs


@pytest.mark.parametrize("code", sorted(ALL_CODES))
def test_inv_39_the_offset_stays_exactly_where_the_position_is_in_order(run: Run, code: str) -> None:
    assert opened(run, decided(code))["moves"] is (code not in LEFT_ALONE)


@pytest.mark.parametrize(
    ("strategy", "raises"), [(FULL, True), (DIFF_REPAIR, True), (DETOUR, False), (TRANSLATE, False)]
)
def test_only_a_recovery_that_reads_rows_asks_a_new_epoch_of_its_tables(run: Run, strategy: str, raises: bool) -> None:
    assert opened(run, decided(strategy=strategy))["raises"] is raises


def test_inv_21_what_forbids_a_recovery_is_said_before_it_is_opened(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbids(*_: Any) -> None:
        raise ConfigError("a column is masked")

    monkeypatch.setattr(step, "refuse_unrecoverable", forbids)
    with pytest.raises(ConfigError, match="masked"):
        step.open_recovery(run, decided())
    control: Any = run.clients.control
    control.open_recovery.assert_not_called()
    control.acquire.assert_not_called()


def test_a_sink_that_can_hold_no_stage_is_refused_before_a_recovery_is_opened(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbids(_run: Run) -> None:
        raise ConfigError("no stage")

    monkeypatch.setattr(step, "require_stages", forbids)
    with pytest.raises(ConfigError, match="no stage"):
        step.open_recovery(run, decided())
    control: Any = run.clients.control
    control.open_recovery.assert_not_called()


@pytest.mark.parametrize("strategy", [DETOUR, TRANSLATE])
def test_a_move_of_the_position_needs_no_stage_and_no_readable_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    def forbids(*_: Any) -> None:
        raise ConfigError("a column is masked")

    monkeypatch.setattr(step, "refuse_unrecoverable", forbids)
    monkeypatch.setattr(step, "require_stages", forbids)
    assert opened(run, decided(strategy=strategy))["strategy"] == strategy


def test_a_pipeline_that_was_changed_since_its_diagnosis_is_diagnosed_again(run: Run) -> None:
    with pytest.raises(ConfigError, match="changed since the diagnosis") as refused:
        step.open_recovery(run, Decision("GTID_PURGED", FULL, (NAME,), pipeline_hash="another"))
    assert "Clear the task diagnose" in refused.value.todo
    control: Any = run.clients.control
    control.open_recovery.assert_not_called()


def test_a_recovery_that_a_dead_run_left_open_is_taken_over(run: Run) -> None:
    control: Any = run.clients.control
    control.open_recovery.side_effect = RecoveryOpenError("another is open", run_id="dead", epoch=4)
    step.open_recovery(run, decided())
    assert control.take_over.call_args.args[0] == run.run_id


@pytest.mark.parametrize(
    ("before", "now", "superseded"), [(DETOUR, FULL, True), (FULL, FULL, False), (DETOUR, DETOUR, False)]
)
def test_a_recovery_that_reads_rows_takes_the_place_of_one_that_only_moved_the_position(
    monkeypatch: pytest.MonkeyPatch, before: str, now: str, superseded: bool
) -> None:
    monkeypatch.setattr(step, "refuse_unrecoverable", lambda *_: ())
    monkeypatch.setattr(step, "require_stages", lambda _run: None)
    left: list[str] = []
    monkeypatch.setattr(replica, "abandon", lambda _run: left.append("the replica"))
    run = recovering(replace(READ, strategy=before))
    step.open_recovery(run, decided(strategy=now))
    control: Any = run.clients.control
    assert (control.supersede.called, bool(left)) == (superseded, superseded)


def test_a_recovery_does_not_wait_for_another_that_is_alive(run: Run) -> None:
    """An apply ends soon, and is waited for; a recovery may take hours."""
    control: Any = run.clients.control
    control.acquire.side_effect = LeaseHeldError("held by another")
    with pytest.raises(LeaseHeldError):
        step.open_recovery(run, decided())
    assert control.acquire.call_count == 1


def test_an_apply_under_way_is_waited_for(run: Run) -> None:
    control: Any = run.clients.control
    control.facts.return_value.recovery = None
    control.acquire.side_effect = [LeaseHeldError("held by an apply"), None]
    assert opened(run, decided())["tables"] == [NAME]
    assert control.acquire.call_count == 2
