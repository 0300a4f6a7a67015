"""The short form of the matrices: the tasks of one recovery killed inside them, an ALTER and failures at its moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.faults.cell import Cell
from tests.faults.matrix import TASK_KILLS
from tests.faults.matrix_moments import ALTER, CELLS
from tests.faults.mysql import MySqlWorld, world
from tests.faults.runner import MATCH, first_copy, strike

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

# the middle of each step that changes something which the next run of it finds changed
KILLED = {
    ("fence_and_watermark", "W written"),
    ("recover", "between two chunks' commits"),
    ("reset_offset", "between write and read-back"),
    ("publish", "between two tables"),
}
# a service that refuses is asked for a minute, so that one that does stands for all
FAILING = {
    ("stop_connector", "stop asked, not answered", "the connector deleted"),
    ("fence_and_watermark", "W written", ALTER),
    ("verify", "between two tables' catch-up commits", "MySQL refuses"),
}
SHORT = (
    *(cell for cell in TASK_KILLS if (cell.step, cell.moment) in KILLED),
    *(cell for cell in CELLS if (cell.step, cell.moment, cell.fault) in FAILING),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlWorld]:
    """Its tables are copied once; every test makes a gap of its own."""
    with world(tmp_path_factory.mktemp("faults") / "world") as shop:
        first_copy(shop)
        yield shop


def ends_in_match(made: MySqlWorld, cells: Sequence[Cell], name: str) -> None:
    results = strike(made, cells, name)
    assert len(results) == len(cells)
    assert {result["verdict"] for result in results} == {MATCH}, results[0]["said"]
    # the old rows and the new ones, and nothing in between
    assert {result["main_states_seen"] for result in results} == {2}


def test_steps_that_are_killed_or_fail_and_an_alter_end_soon_and_in_match(made: MySqlWorld) -> None:
    assert len(SHORT) == len(KILLED) + len(FAILING)
    ends_in_match(made, SHORT, "short")


@pytest.mark.slow
def test_every_step_killed_at_every_moment_ends_in_match(made: MySqlWorld) -> None:
    assert len(TASK_KILLS) >= 12
    ends_in_match(made, TASK_KILLS, "all-killed")
