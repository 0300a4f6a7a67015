"""The short form of the matrices: the tasks of a recovery killed inside them; an ALTER and failures at moments of another."""

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
MOMENTS = tuple(
    cell
    for cell in CELLS
    if (cell.step, cell.moment, cell.fault)
    in {
        (
            "stop_connector",
            "stop asked, not answered",
            "the connector deleted",
        ),  # one that refuses is asked for a minute
        ("fence_and_watermark", "W written", ALTER),
        ("verify", "between two tables' catch-up commits", "MySQL refuses"),
    }
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


def test_every_step_killed_in_the_middle_of_a_change_ends_in_match(made: MySqlWorld) -> None:
    assert len(CHANGING) == 4
    ends_in_match(made, CHANGING, "killed")


def test_a_step_that_fails_and_an_alter_end_soon_and_in_match(made: MySqlWorld) -> None:
    assert len(MOMENTS) == 3
    ends_in_match(made, MOMENTS, "moments")


@pytest.mark.slow
def test_every_step_killed_at_every_moment_ends_in_match(made: MySqlWorld) -> None:
    assert len(TASK_KILLS) >= 12
    ends_in_match(made, TASK_KILLS, "all-killed")
