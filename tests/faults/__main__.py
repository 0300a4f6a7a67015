"""The matrix on real servers: `python -m tests.faults [--source moments|postgres|canal|jdbc] [--only TEXT] [--from-round N]
[--to-round N] [--alone]`.

Writes build/faults.json (MySQL: every fault), build/faults-moments.json (MySQL: an ALTER or a failure at every moment),
build/faults-postgres.json, faults-canal.json or faults-jdbc.json (short forms). Faults in different steps strike the same
recovery, and share its verdict; if it is not MATCH, each gets one alone. With --from-round the cells of an earlier run stay
in the file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.faults import (
    canal,
    jdbc,
    matrix,
    matrix_canal,
    matrix_jdbc,
    matrix_moments,
    matrix_postgres,
    mysql,
    postgres,
)
from tests.faults.cell import Cell
from tests.faults.runner import MATCH, first_copy, rounds, strike
from tests.faults.world import FaultWorld

CONSOLE = Console(width=140)
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Matrix:
    """The cells of one kind of pipeline, the world they strike, and where its servers and its results are kept."""

    cells: tuple[Cell, ...]
    world: Callable[[Path], AbstractContextManager[FaultWorld]]
    folder: Path
    results: Path


MATRICES = {
    "mysql": Matrix(matrix.CELLS, mysql.world, Path("build/faults"), Path("build/faults.json")),
    "postgres": Matrix(
        matrix_postgres.CELLS, postgres.world, Path("build/faults-postgres"), Path("build/faults-postgres.json")
    ),
    "moments": Matrix(
        matrix_moments.CELLS, mysql.world, Path("build/faults-moments"), Path("build/faults-moments.json")
    ),
    "jdbc": Matrix(matrix_jdbc.CELLS, jdbc.world, Path("build/faults-jdbc"), Path("build/faults-jdbc.json")),
    "canal": Matrix(matrix_canal.CELLS, canal.world, Path("build/faults-canal"), Path("build/faults-canal.json")),
}


def main() -> int:
    """Run the cells; 0 if every one ended in MATCH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=MATRICES, default="mysql", help="whose matrix")
    parser.add_argument("--only", default="", help="only cells whose step, moment or fault contain this text")
    parser.add_argument("--from-round", type=int, default=1, help="leave out the rounds before this one")
    parser.add_argument("--to-round", type=int, default=None, help="leave out the rounds after this one")
    parser.add_argument("--alone", action="store_true", help="a recovery of its own for each cell")
    asked = parser.parse_args()
    chosen = MATRICES[asked.source]
    cells = [cell for cell in chosen.cells if asked.only in f"{cell.step}: {cell.moment}: {cell.fault}"]
    todo = ([[cell] for cell in cells] if asked.alone else rounds(cells))[asked.from_round - 1 : asked.to_round]
    shutil.rmtree(chosen.folder, ignore_errors=True)
    results: list[Result] = []
    before = _before(chosen.results, todo) if asked.from_round > 1 else []
    with chosen.world(chosen.folder.absolute()) as made:
        first_copy(made)
        for number, together in enumerate(todo, asked.from_round):
            results += _round(made, together, f"round-{number}")
            chosen.results.write_text(json.dumps(before + results, indent=2) + "\n")
            CONSOLE.print(f"round {number}: {len(results)} of {sum(map(len, todo))} cells")
    CONSOLE.print(_table(results))
    return int(any(result["verdict"] != MATCH for result in results))


def _before(path: Path, todo: list[list[Cell]]) -> list[Result]:
    """Results of an earlier run, without those of cells that run again."""
    again = {(cell.step, cell.moment, cell.fault) for cells in todo for cell in cells}
    kept: list[Result] = json.loads(path.read_text()) if path.exists() else []
    return [one for one in kept if (one["step"], one["moment"], one["fault"]) not in again]


def _round(made: FaultWorld, cells: list[Cell], name: str) -> list[Result]:
    """One recovery under all these cells; if it does not end in MATCH, one for each of them says which it was."""
    results = strike(made, cells, name)
    for result in results:
        CONSOLE.print(f"  {result['step']}: {result['moment']}: {result['fault']}: {result['verdict']}")
    if len(cells) == 1 or all(result["verdict"] == MATCH for result in results):
        return results
    for said in results[0]["said"]:
        CONSOLE.print(f"    {said}")
    return [result for at, cell in enumerate(cells, 1) for result in _round(made, [cell], f"{name}-cell-{at}")]


def _table(results: list[Result]) -> Table:
    names = ("step", "moment", "fault", "verdict", "main_states_seen", "ended", "seconds")
    table = Table(*names, title="the kill matrix")
    for result in results:
        table.add_row(*(str(result[name]) for name in names))
    return table


if __name__ == "__main__":
    sys.exit(main())
