"""`python -m tests.catalogs [NAME …]`: a recovery into each kind of catalog → build/catalogs.json.

Each row is the system named by --system (see tests.systems) with its own failure, recovered under writes, every row
compared by SQL of the test's own. Ends with 1 if one is not MATCH, or the comparison finds a row.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from stack import fetch
from tests.catalogs.catalogs import CATALOGS, CatalogCase
from tests.systems.__main__ import CASES
from tests.systems.case import Case, Result
from tests.systems.running import run

FOLDER, RESULTS = Path("build/catalogs"), Path("build/catalogs.json")
COLUMNS = ("catalog", "runs on", "system", "seconds", "missing", "ghosts", "different", "verdict")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen rows one after the other, and write what they came to."""
    parser = argparse.ArgumentParser(prog="make catalogs", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="embedded, jdbc, hive, rest, guarded, rest-cluster; all of them by default"
    )
    parser.add_argument("--system", default="MariaDB 10", help="part of a system's name")
    asked = parser.parse_args(argv)
    case = next(case for case in CASES if asked.system.lower() in case.system.lower())
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    results: list[tuple[CatalogCase, Result]] = []
    for catalog in CATALOGS:
        if not asked.names or catalog.name in asked.names:
            results.append((catalog, recovered_into(catalog, case)))
            rows = [{"catalog": one.name, "runs_on": one.version, **asdict(result)} for one, result in results]
            RESULTS.write_text(json.dumps(rows, indent=2) + "\n")
    Console(width=180, highlight=False).print(table_of(results))
    return 0 if results and all(result.good for _, result in results) else 1


def recovered_into(catalog: CatalogCase, case: Case) -> Result:
    """One row."""
    folder = FOLDER.absolute() / catalog.name
    folder.mkdir()
    with (
        catalog.opened(folder) as properties,
        catalog.session(folder, properties, fetch.set_jars("spark-s3")) as (lake, spark),
    ):
        return run(case, folder / "system", spark, lake, catalog.publishing)


def table_of(results: Sequence[tuple[CatalogCase, Result]]) -> Table:
    """The results as a person reads them."""
    table = Table(*COLUMNS)
    for catalog, result in results:
        seen = (result.system, result.seconds, result.missing, result.ghosts, result.different, result.verdict)
        table.add_row(catalog.name, catalog.version, *map(str, seen), style="" if result.good else "red")
    return table


if __name__ == "__main__":
    sys.exit(main())
