"""What a table of a large pipeline costs: `python -m tests.bench.many_tables --tables 20,200 --rows 100`.

A pipeline of so many small tables is decided on, opened, read, verified, published and applied to on real servers; writes
build/bench/many_tables.json (seconds of each step, and per table). Ends with 1 if a table of the largest size takes more than
twice as long as one of the smallest. At the end every row has to be equal by the suite's own comparison.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from rich.console import Console
from rich.table import Table

from airflow_cdc.spark_apps.apply_changes import apply_changes
from tests.adversary.world import Pipe, Servers, servers
from tests.bench.recovered import Measured, differing, recovered
from tests.bench.result import FOLDER, Ratio

MOST = 2.0
# a connector that registers thousands of topics commits nothing meanwhile
STANDSTILL_S = 600.0
MODES = {"topic.creation.default.partitions": "1"}


def main() -> int:
    """Measure each size, smallest first; 0 if a table costs about the same in all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default="20,200", help="sizes of the pipelines")
    parser.add_argument("--rows", type=int, default=100, help="rows of each table")
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    asked = parser.parse_args()
    sizes = sorted(map(int, asked.tables.split(",")))
    folder = FOLDER.absolute() / f"world-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    with servers(folder, asked.stack) as running:
        measured = [measure(running, size, asked.rows) for size in sizes]
    Console(width=120).print(shown(measured))
    return summary(measured).write(FOLDER / "many_tables.json")


def summary(measured: list[Measured]) -> Ratio:
    """A table of the largest pipeline against one of the smallest, and what each step of each size took."""
    name = f"seconds of a table of {measured[-1].tables:,}, recovered and applied to, against one of {measured[0].tables:,}"
    more = {"sizes": [{"tables": one.tables, "steps": one.steps} for one in measured]}
    return Ratio(name, round(measured[-1].per_table, 3), round(measured[0].per_table, 3), MOST, more)


def measure(running: Servers, tables: int, rows: int) -> Measured:
    """A pipeline of so many tables, recovered from nothing, then applied to once with one change in each table."""
    result, names = Measured(tables), [f"t{number:05}" for number in range(tables)]
    with pipe_of(running, names, rows) as pipe:
        recovered(pipe, "full_snapshot", result)
        change_each(pipe, names)
        if why := pipe.drain(STANDSTILL_S):
            raise AssertionError(why)
        applied = result.step("apply", lambda: apply_changes(pipe.run(), running.spark))
        assert sum(one["records"] for one in applied["tables"].values()) == tables, applied
        result.step("apply nothing", lambda: apply_changes(pipe.run(), running.spark))
        assert not differing(pipe, names)
    return result


@contextmanager
def pipe_of(running: Servers, names: list[str], rows: int) -> Iterator[Pipe]:
    """The database with its tables, followed by a connector; taken away at the end."""
    pipe = Pipe(running, f"many{len(names)}", names, MODES)
    try:
        values = ", ".join(f"({number}, 'row {number}')" for number in range(rows))
        with closing(pipe.connect()) as connection, connection.cursor() as cursor:
            for name in names:
                cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(20), b INT NOT NULL DEFAULT 0)")
                cursor.execute(f"INSERT INTO {name} (id, a) VALUES {values}")
        pipe.follow()
        yield pipe
    finally:
        pipe.end()


def change_each(pipe: Pipe, names: list[str]) -> None:
    """One change in each table."""
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"UPDATE {name} SET b = b + 1 WHERE id = 1")


def shown(measured: list[Measured]) -> Table:
    """Seconds of each step, and milliseconds per table."""
    made = Table("step", *(f"{one.tables} tables" for one in measured), title="seconds (ms per table)")
    for step in measured[0].steps:
        made.add_row(step, *(f"{o.steps[step]:.1f} ({o.steps[step] / o.tables * 1000:.0f})" for o in measured))
    made.add_row("all", *(f"{sum(o.steps.values()):.1f} ({o.per_table * 1000:.0f})" for o in measured))
    return made


if __name__ == "__main__":
    sys.exit(main())
