"""A connector that rests for a repair: it continues from where it was, however the repair ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.errors import ConnectorError, UnknownStateError, VerificationError
from airflow_cdc.core.observation import ConnectorState, OpenFacts, TaskState
from airflow_cdc.flows import offsets
from airflow_cdc.flows.checks import conclude
from airflow_cdc.flows.resting import resting, started_again
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import KEY, LOST, recovering

RUNNING = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))


class Ledger(dict[str, Any]):
    """What is noted about the run."""

    def set(self, _run_id: str, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def run() -> Run:
    """A run whose connector runs, and about which nothing is noted."""
    made = recovering()
    clients: Any = made.clients
    ledger = Ledger()
    clients.control.ledger_get.side_effect = lambda _run_id: dict(ledger)
    clients.control.ledger_set.side_effect = ledger.set
    clients.control.facts.return_value.recovery = None
    clients.connector.state.return_value = RUNNING
    return made


def called(run: Run) -> list[str]:
    """What was asked of the connector that changes it."""
    clients: Any = run.clients
    return [name for name, _, _ in clients.connector.method_calls if name in ("stop", "resume", "wait_running")]


def test_it_is_stopped_for_the_block_and_runs_afterwards(run: Run) -> None:
    with resting(run) as position:
        assert called(run) == ["stop"]
        assert position == run.clients.connector.codec.read(LOST, {}).position
    assert called(run) == ["stop", "resume", "wait_running"]
    assert started_again(run) is False


def test_it_runs_again_after_an_error_in_the_block(run: Run) -> None:
    with pytest.raises(KeyError), resting(run):
        raise KeyError
    assert called(run) == ["stop", "resume", "wait_running"]
    assert started_again(run) is False


def test_it_runs_again_after_it_could_not_be_stopped(run: Run) -> None:
    clients: Any = run.clients
    clients.connector.stop.side_effect = ConnectorError("it does not stop", where="c", todo="look")
    with pytest.raises(ConnectorError, match="does not stop"), resting(run):
        raise AssertionError
    assert called(run) == ["stop", "resume", "wait_running"]


def test_inv_6_without_an_offset_nobody_knows_where_it_continues(run: Run) -> None:
    clients: Any = run.clients
    clients.connector.committed_offset.return_value = None
    with pytest.raises(UnknownStateError, match="has no offset"), resting(run):
        raise AssertionError
    assert called(run) == ["stop", "resume", "wait_running"]


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED", "FAILED"])
def test_inv_47_a_repair_does_not_start_what_somebody_has_stopped(run: Run, state: str) -> None:
    clients: Any = run.clients
    clients.connector.state.return_value = ConnectorState(state, ())
    with pytest.raises(ConnectorError, match=state), resting(run):
        raise AssertionError
    assert called(run) == []
    assert started_again(run) is False


def test_a_later_try_goes_on_where_a_killed_one_left_it_stopped(run: Run) -> None:
    clients: Any = run.clients
    clients.control.ledger_set(run.run_id, "resting", "c")
    assert started_again(run) is True
    with resting(run):
        pass
    assert called(run) == ["resume", "wait_running", "stop", "resume", "wait_running"]


def test_inv_47_the_end_of_the_run_starts_what_a_killed_repair_left_stopped(run: Run) -> None:
    clients: Any = run.clients
    clients.control.ledger_set(run.run_id, "resting", "c")
    assert started_again(run) is True
    assert called(run) == ["resume", "wait_running"]
    assert started_again(run) is False


def test_inv_47_whatever_became_of_the_repair_its_connector_runs_at_the_end(run: Run) -> None:
    """The verdict is a teardown, so it comes in any case."""
    clients: Any = run.clients
    clients.control.ledger_set(run.run_id, "resting", "c")
    clients.control.entry.return_value = LedgerEntry()
    with pytest.raises(VerificationError, match="nothing was compared"):
        conclude(run)
    assert called(run) == ["resume", "wait_running"]


def test_inv_47_it_is_left_to_a_recovery_that_was_opened_since(run: Run) -> None:
    clients: Any = run.clients
    clients.control.ledger_set(run.run_id, "resting", "c")
    clients.control.facts.return_value.recovery = OpenFacts("other")
    assert started_again(run) is True
    assert called(run) == []


def test_a_connector_that_does_not_start_is_started_again_by_the_next(run: Run) -> None:
    clients: Any = run.clients
    clients.connector.wait_running.side_effect = ConnectorError("it failed", where="c", todo="look")
    with pytest.raises(ConnectorError, match="it failed"), resting(run):
        pass
    clients.connector.wait_running.side_effect = None
    assert started_again(run) is True


def test_inv_47_a_transaction_that_was_half_sent_is_sent_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debezium skips `event` events and `row` rows of it, and so a row of which only the delete was sent."""
    clients: Any = run.clients
    clients.connector.committed_offset.return_value = {**LOST, "event": 3, "row": 1}
    written = list[Any]()
    monkeypatch.setattr(offsets, "write", lambda _run, *values: written.append(values))
    with resting(replace(run)):
        assert written == [(KEY, {**LOST, "event": 3, "row": 1}, LOST)]
