"""The kill matrices are told in the docs, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.faults import matrix_canal, matrix_postgres
from tests.faults.cell import Cell, Fault
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


@pytest.mark.parametrize(
    ("heading", "page", "cells", "faults"),
    [
        ("### PostgreSQL", "kill-matrix-postgres.md", matrix_postgres.CELLS, matrix_postgres.FAULTS),
        ("### Canal, RabbitMQ, OpenSearch", "kill-matrix-canal.md", matrix_canal.CELLS, matrix_canal.FAULTS),
    ],
    ids=["postgres", "canal"],
)
def test_every_cell_of_a_short_form_has_its_line_and_ended_in_match(
    heading: str, page: str, cells: tuple[Cell, ...], faults: Mapping[str, Fault]
) -> None:
    told = PAGE.read_text().split(heading, 1)[1].split("\n### ")[0]
    lines = [f"| {cell.step}: {cell.moment} | {cell.fault} |" for cell in cells]
    assert [line for line in lines if line not in told] == []
    evidence = (ROOT / "docs" / "evidence" / page).read_text()
    seen = [f"| {cell.step} | {cell.moment} | {cell.fault} | MATCH |" for cell in cells]
    assert [line for line in seen if line not in evidence] == []
    assert {cell.fault for cell in cells} == set(faults)
    assert len(set(cells)) == len(cells) >= 12
