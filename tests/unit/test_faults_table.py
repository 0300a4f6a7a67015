"""The kill matrix is told in the docs, fault by fault."""

from __future__ import annotations

from pathlib import Path

from tests.faults.matrix import CELLS, FAULTS, MOMENTS

PAGE = Path(__file__).parents[2] / "docs" / "what-can-go-wrong.md"


def test_every_fault_is_told_and_strikes_somewhere() -> None:
    told = PAGE.read_text().split("## The kill matrix", 1)[1]
    assert [fault for fault in FAULTS if f"| {fault} |" not in told] == []
    assert {cell.fault for cell in CELLS} == set(FAULTS)


def test_the_task_of_every_moment_is_killed_and_no_cell_stands_twice() -> None:
    assert {(cell.step, cell.moment) for cell in CELLS} == set(MOMENTS)
    assert len(set(CELLS)) == len(CELLS) >= 50
