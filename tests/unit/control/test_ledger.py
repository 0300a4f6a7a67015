"""What is kept of a run's steps: who reads a failed run's report must see what failed, and nothing that did not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.control.ledger import DONE, FAILED, CheckedTable, LedgerEntry, StepEntry

AT = "2026-01-01T00:00:0{}.000+00:00"


def entry(**steps: dict[str, Any]) -> LedgerEntry:
    return LedgerEntry.from_json({f"step:{name}": step for name, step in steps.items()})


def step(state: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"state": state, "started": AT.format(second), "seconds": 1.5, **more}


def test_a_failed_run_says_which_step_failed_and_with_which_error() -> None:
    failed = entry(recover=step(FAILED, 1, error="no answer"), verify=step(FAILED, 2, error="rows differ"))
    assert failed.failures == "recover: no answer; verify: rows differ"


def test_a_step_that_succeeded_is_no_failure_whatever_it_once_said() -> None:
    assert entry(recover=step(DONE, 1), verify=step(FAILED, 2, error="rows differ")).failures == "verify: rows differ"
    assert entry(recover=step(DONE, 1, error="an earlier try")).failures == ""
    assert LedgerEntry().failures == ""


def test_a_step_that_was_killed_said_nothing_and_is_a_failure_all_the_same() -> None:
    assert entry(recover=step(FAILED)).failures == "recover: ended abruptly"


def test_steps_are_told_in_the_order_in_which_they_began() -> None:
    """The ledger is ordered by when they were noted: a cleared step comes last in it."""
    steps = entry(verify=step(DONE, 3), stop=step(DONE, 1), recover=step(DONE, 2)).steps
    assert [(one.name, one.report.name) for one in steps] == [(n, n) for n in ("stop", "recover", "verify")]


def test_what_is_no_step_is_no_step() -> None:
    read = LedgerEntry.from_json({"epoch": 4, "recovery": "closed", "unchanged": "why", "approved": "ann"})
    assert (read.epoch, read.recovery, read.unchanged, read.approved, read.steps) == (4, "closed", "why", "ann", ())


def test_a_run_about_which_nothing_is_stored_is_empty() -> None:
    assert LedgerEntry.from_json({}) == LedgerEntry()


@pytest.mark.parametrize(
    ("said", "whole"), [({}, True), ({"compared": "all rows"}, True), ({"compared": "leaf 3"}, False)]
)
def test_a_check_of_a_part_is_not_one_of_the_whole_table(said: dict[str, Any], whole: bool) -> None:
    from airflow_cdc.decisions.compare.part import WHOLE

    said = {key: WHOLE.name if value == "all rows" else value for key, value in said.items()}
    checked = CheckedTable.from_json("shop.orders", {"verdict": "MATCH", **said})
    assert (checked.whole, checked.report.table) == (whole, "shop.orders")


TEXTS = st.text(max_size=20)


@given(st.builds(StepEntry, st.text(min_size=1), TEXTS, st.floats(0, 1e9), TEXTS, TEXTS, TEXTS))
def test_what_is_written_of_a_step_is_read_again(one: StepEntry) -> None:
    """An error's type is only kept beside an error."""
    again = StepEntry.from_json(one.name, one.to_json())
    assert again == (one if one.error else StepEntry(one.name, one.started, one.seconds, one.state))
