"""The whole matrix on real servers: `python -m tests.faults [--only TEXT]`; writes build/faults.json."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.matrix import CELLS
from tests.faults.runner import MATCH, first_copy, strike
from tests.faults.world import world

FOLDER = Path("build/faults")
RESULTS = Path("build/faults.json")


def main() -> int:
    """Run the cells; 0 if every one ended in MATCH."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only cells whose step, moment or fault contain this text")
    asked = parser.parse_args().only
    cells = [cell for cell in CELLS if asked in f"{cell.step}: {cell.moment}: {cell.fault}"]
    shutil.rmtree(FOLDER, ignore_errors=True)
    results, console = [], Console(width=140)
    with world(FOLDER.absolute()) as made:
        first_copy(made)
        for number, cell in enumerate(cells, 1):
            (result,) = strike(made, [cell], f"cell-{number}")
            results.append(result)
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
            console.print(f"{number:3d}/{len(cells)} {cell.step}: {cell.moment}: {cell.fault}: {result['verdict']}")
    console.print(_table(results))
    return int(any(result["verdict"] != MATCH for result in results))


def _table(results: list[dict[str, object]]) -> Table:
    names = ("step", "moment", "fault", "verdict", "main_states_seen", "seconds")
    table = Table(*names, title="the kill matrix")
    for result in results:
        table.add_row(*(str(result[name]) for name in names))
    return table


if __name__ == "__main__":
    sys.exit(main())
