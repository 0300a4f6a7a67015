"""The short form of the kill matrix: one recovery, and the tasks of its steps killed inside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.cell import Cell
from tests.faults.matrix import TASK_KILLS
from tests.faults.mysql import world
from tests.faults.runner import MATCH, first_copy, strike

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

# the middle of each step that changes something which the next run of it finds changed
CHANGING = tuple(
    cell
    for cell in TASK_KILLS
    if (cell.step, cell.moment)
    in {
        ("fence_and_watermark", "W written"),
        ("recover", "between two chunks' commits"),
        ("reset_offset", "between write and read-back"),
        ("publish", "between two tables"),
    }
)


def ends_in_match(folder: Path, kills: Sequence[Cell]) -> None:
    with world(folder / "world") as made:
        first_copy(made)
        results = strike(made, kills, "killed")
    assert len(results) == len(kills)
    assert {result["verdict"] for result in results} == {MATCH}, results[0]["said"]
    # the old rows and the new ones, and nothing in between
    assert {result["main_states_seen"] for result in results} == {2}


def test_every_step_killed_in_the_middle_of_a_change_ends_in_match(tmp_path: Path) -> None:
    assert len(CHANGING) == 4
    ends_in_match(tmp_path, CHANGING)


@pytest.mark.slow
def test_every_step_killed_at_every_moment_ends_in_match(tmp_path: Path) -> None:
    assert len(TASK_KILLS) >= 12
    ends_in_match(tmp_path, TASK_KILLS)
