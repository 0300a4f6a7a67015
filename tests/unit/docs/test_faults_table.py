"""The kill matrices are told in the docs, cell by cell."""

from __future__ import annotations

from tests.faults import matrix_canal, matrix_postgres
from tests.faults.matrix import CELLS, FAULTS, MOMENTS
from tests.paths import ROOT

PAGE = ROOT / "docs" / "what-can-go-wrong.md"


def test_every_cell_has_its_line_and_every_fault_strikes_somewhere() -> None:
    told = PAGE.read_text().split("## The kill matrix", 1)[1].split("\n### ")[0]
    lines = [f"| {cell.step}: {cell.moment} | {cell.fault} |" for cell in CELLS]
    assert [line for line in lines if line not in told] == []
    assert told.count("| what happens |") == 1
    assert sum(line.startswith("| ") for line in told.splitlines()) == len(CELLS) + 1
    assert {cell.fault for cell in CELLS} == set(FAULTS)


def test_the_task_of_every_moment_is_killed_and_no_cell_stands_twice() -> None:
    assert {(cell.step, cell.moment) for cell in CELLS} == set(MOMENTS)
    assert len(set(CELLS)) == len(CELLS) >= 50


def test_every_cell_of_postgresql_has_its_line_and_ended_in_match() -> None:
    told = PAGE.read_text().split("### PostgreSQL", 1)[1]
    evidence = (ROOT / "docs" / "evidence" / "kill-matrix-postgres.md").read_text()
    cells = matrix_postgres.CELLS
    lines = [f"| {cell.step}: {cell.moment} | {cell.fault} |" for cell in cells]
    assert [line for line in lines if line not in told] == []
    seen = [f"| {cell.step} | {cell.moment} | {cell.fault} | MATCH |" for cell in cells]
    assert [line for line in seen if line not in evidence] == []
    assert {cell.fault for cell in cells} == set(matrix_postgres.FAULTS)
    assert len(set(cells)) == len(cells) >= 12


def test_every_fault_of_canal_strikes_somewhere() -> None:
    cells = matrix_canal.CELLS
    assert {cell.fault for cell in cells} == set(matrix_canal.FAULTS)
    assert len(set(cells)) == len(cells) >= 12
