"""What every step of a run leaves in the ledger, however it ends: the report of a failed run is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import LeaseHeldError, SourceError, UnknownStateError
from airflow_cdc.flows.recovery import NoRecoveryError, current
from airflow_cdc.flows.run import Facts, Run, step
from tests.unit.flows.recovering import READ, recovering


@step("look")
def looks(run: Run, error: BaseException | None = None) -> Facts:
    if error is not None:
        raise error
    return {"seen": run.run_id}


@step("change", leased=True)
def changes(run: Run) -> Facts:
    return {"changed": run.run_id}


def noted(run: Run) -> dict[str, Any]:
    """What the ledger was given, by its key."""
    control: Any = run.clients.control
    return {call.args[1]: call.args[2] for call in control.ledger_set.call_args_list}


def test_a_step_that_ends_well_is_done() -> None:
    run = recovering()
    assert looks(run) == {"seen": "r"}
    (kept,) = noted(run).values()
    assert (set(noted(run)), kept["state"]) == ({"step:look"}, "done")
    assert kept["seconds"] >= 0
    assert kept["started"].startswith("20")
    assert "error" not in kept


def test_a_step_that_fails_is_noted_with_its_error_and_its_kind() -> None:
    run = recovering()
    with pytest.raises(SourceError):
        looks(run, SourceError("the server is gone", todo="Start it."))
    kept = noted(run)["step:look"]
    assert (kept["state"], kept["type"]) == ("failed", "SourceError")
    assert "the server is gone" in kept["error"]
    assert "Start it." in kept["error"]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_a_step_that_ends_abruptly_is_not_done(error: BaseException) -> None:
    run = recovering()
    with pytest.raises(type(error)):
        looks(run, error)
    assert noted(run)["step:look"]["state"] == "failed"


def test_a_ledger_that_does_not_answer_hides_neither_the_result_nor_the_error() -> None:
    run = recovering()
    control: Any = run.clients.control
    control.ledger_set.side_effect = UnknownStateError("no answer")
    assert looks(run) == {"seen": "r"}
    with pytest.raises(SourceError, match="the server is gone"):
        looks(run, SourceError("the server is gone"))


def test_inv_37_a_step_that_changes_the_pipeline_holds_the_lease_or_does_not_begin() -> None:
    run = recovering()
    control: Any = run.clients.control
    assert changes(run) == {"changed": "r"}
    assert control.renew.call_args.args[0] == "r"
    control.renew.side_effect = LeaseHeldError("another has it")
    with pytest.raises(LeaseHeldError):
        changes(run)
    assert noted(run)["step:change"]["type"] == "LeaseHeldError"


def test_a_step_that_only_looks_needs_no_lease() -> None:
    run = recovering()
    looks(run)
    control: Any = run.clients.control
    control.renew.assert_not_called()


def test_inv_01_a_run_works_on_its_own_open_recovery_alone() -> None:
    assert current(recovering()).run_id == "r"
    with pytest.raises(NoRecoveryError, match="the open one belongs to run another"):
        current(recovering(replace(READ, run_id="another")))
    run = recovering()
    control: Any = run.clients.control
    control.recovery.side_effect = lambda _read: None
    with pytest.raises(NoRecoveryError, match="none is open"):
        current(run)
