"""The short form of the kill matrix: one recovery, the task of every step killed inside it, at every moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.matrix import TASK_KILLS
from tests.faults.mysql import world
from tests.faults.runner import MATCH, first_copy, strike

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


def test_every_step_killed_at_every_moment_ends_in_match(tmp_path: Path) -> None:
    with world(tmp_path / "world") as made:
        first_copy(made)
        results = strike(made, TASK_KILLS, "killed")
    assert len(results) == len(TASK_KILLS) >= 12
    assert {result["verdict"] for result in results} == {MATCH}, results[0]["said"]
    # the old rows and the new ones, and nothing in between
    assert {result["main_states_seen"] for result in results} == {2}
