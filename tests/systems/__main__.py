"""`python -m tests.systems [NAME …]`: each system's own failure, recovered under writes → build/systems.json.

A row is good if cdc_recovery's own check says MATCH, and the independent check, once what was written meanwhile is applied,
finds no row missing, too much or different; and finds these once rows are changed in the source alone. Ends with 1 if one is not.
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

from tests.spark_session import embedded_catalog
from tests.systems import (
    canal_mysql,
    canal_rabbitmq,
    debezium_changelog,
    debezium_formats,
    debezium_jdbc,
    debezium_jdbc_postgres,
    debezium_mariadb,
    debezium_postgres,
    debezium_search,
    debezium_topics,
    flink_mysql,
)
from tests.systems import elsewhere as on_another_spark
from tests.systems.case import Case, Result
from tests.systems.elsewhere import run_elsewhere
from tests.systems.running import lake_and_spark, run

FOLDER, RESULTS = Path("build/systems"), Path("build/systems.json")
CASES: tuple[Case, ...] = (
    debezium_postgres.CASE,
    *debezium_formats.CASES,
    *debezium_mariadb.CASES,
    canal_mysql.CASE,
    *canal_rabbitmq.CASES,
    debezium_search.CASE,
    *debezium_topics.CASES,
    debezium_jdbc.CASE,
    debezium_jdbc_postgres.CASE,
    *debezium_changelog.CASES,
    flink_mysql.CASE,
    *on_another_spark.CASES,
)
COLUMNS = ("system", "version", "failure", "problem", "seconds", "missing", "ghosts", "different", "verdict")
TEXT = 160


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen rows one after the other, and write what they came to."""
    parser = argparse.ArgumentParser(prog="make systems", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the systems' names; all of them by default")
    names = [name.lower() for name in parser.parse_args(argv).names]
    chosen = [case for case in CASES if not names or any(name in case.system.lower() for name in names)]
    if not chosen:
        parser.error(f"no system's name has a part of these; there are {', '.join(case.system for case in CASES)}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    console, results = Console(width=180, highlight=False), list[Result]()
    with lake_and_spark(FOLDER.absolute(), embedded_catalog(FOLDER.absolute())) as (lake, spark):
        for case in chosen:
            if why := case.left_out:
                console.print(f"{case.system}: not run: {why}")
                continue
            folder = FOLDER.absolute() / str(len(results))
            results.append(run_elsewhere(case, folder) if case.elsewhere else run(case, folder, spark, lake))
            console.print(f"{results[-1].system}: {results[-1].text}")
            RESULTS.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    console.print(table_of(results))
    return 0 if results and all(result.good for result in results) else 1


def table_of(results: Sequence[Result]) -> Table:
    """The results as a person reads them."""
    table = Table(*COLUMNS)
    for result in results:
        table.add_row(*(str(getattr(result, name)) for name in COLUMNS), style="" if result.good else "red")
    return table


if __name__ == "__main__":
    sys.exit(main())
