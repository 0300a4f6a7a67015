"""What a small pipeline costs: `python -m tests.bench.small`.

Five tables of 1,000 rows with a JSON and a FLOAT column, in which a hundred rows a second change throughout, are recovered after
the log was purged, and then have their waiting events applied. Each application is a process of its own, started as Airflow's tasks
start it. Against them: as many drivers, started by spark-submit, that make a session and nothing else. Figures are processor
seconds of the processes with all their children, beside them seconds. Writes build/bench/small.json; ends with 1 if a goal
is not held, with 2 if a row differs at the end.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import stack
from airflow_cdc import spark_main
from airflow_cdc.core.poll import poll_until
from airflow_cdc.operators.driver_settings import private_settings
from airflow_cdc.operators.python_first import with_late_jvm
from airflow_cdc.spark_apps.driver.session import python_of
from stack import jvm
from tests.adversary.world import Pipe, Servers
from tests.bench.recovered import Measured, differing, driver_settings, recovered, repeating
from tests.bench.result import FOLDER, WRONG, Ratio, write_all
from tests.bench.whole import EMPTY
from tests.faults.world import submit_command, submit_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.flows.run import Run

TABLES = tuple(f"t{number}" for number in range(5))
ROWS = 1_000
MODES = {"topic.creation.default.partitions": "1"}
DDL = "id INT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME, doc JSON, weight FLOAT, n INT NOT NULL"
ROW = "%s, CONCAT('customer ', %s), %s / 100, '2026-01-01', JSON_OBJECT('a', 1.5, 'b', %s), %s / 7, 0"
PAUSE_S = 0.01
GOAL = 1.0


@dataclass(slots=True)
class Submitted:
    """Runs applications as Airflow's tasks do. `cost`: application → (processor seconds, seconds)."""

    servers: Servers
    cost: dict[str, tuple[float, float]] = field(default_factory=dict)

    def app(self, name: str) -> Callable[[Run], Mapping[str, Any]]:
        """The application, with a run as its argument."""
        return lambda run: self._submitted(name, run)

    def _submitted(self, name: str, run: Run) -> Mapping[str, Any]:
        with private_settings(driver_settings(run, self.servers.endpoints)) as path:
            command = [str(Path(spark_main.__file__).resolve()), name, "--settings", str(path)]
            self.cost[name] = costs([sys.executable, *command], with_late_jvm(submit_options()))
            return spark_main.read_result(path)


def main() -> int:
    """Measure; 0 if the goals are held and all rows are equal."""
    folder = FOLDER.absolute() / f"small-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    jvm.archive()
    with stack.start(folder / "s") as started:
        servers = Servers(folder, started, cast("SparkSession", None))
        with pipe_of(servers) as pipe:
            by, steps = Submitted(servers), Measured(len(TABLES))
            pipe.pause()
            with changing(pipe):
                lost(pipe)
                recovered(pipe, "full_snapshot", steps, apps={name: by.app(name) for name in ("recover", "verify")})
            assert not (why := pipe.drain()), why
            by.app("apply_changes")(pipe.run())
            unequal = differing(pipe, TABLES)
        script = folder / "empty.py"
        script.write_text(EMPTY)
        empty = costs([*submit_command(), str(script)])
    status = write_all(rows_of(by.cost, empty, steps), FOLDER / "small.json")
    return WRONG if unequal else status


def rows_of(cost: Mapping[str, tuple[float, float]], empty: tuple[float, float], steps: Measured) -> list[Ratio]:
    """The rows, from what each application and an empty driver cost."""
    what = f"{len(TABLES)} tables of {ROWS:,} rows that change, processor seconds, against"
    more = {"(processor seconds, seconds)": dict(cost) | {"empty": empty}, "load": round(os.getloadavg()[0], 1)}
    two = cost["recover"][0] + cost["verify"][0]
    return [
        Ratio(f"recover and verify of {what} two empty Spark drivers", two, 2 * empty[0], GOAL, more | steps.steps),
        Ratio(f"apply to {what} an empty Spark driver", cost["apply_changes"][0], empty[0], GOAL, more),
    ]


def costs(command: Sequence[str], more: Mapping[str, str] = {}) -> tuple[float, float]:
    """Processor seconds of a process with its children, and its seconds. Raises CalledProcessError if it fails.

    `more`: of its environment.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env={**os.environ, **python_of(local=True), **more}, check=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return round(used, 2), round(time.monotonic() - began, 2)


@contextmanager
def pipe_of(servers: Servers) -> Iterator[Pipe]:
    """The tables with their rows, followed by a connector; taken away at the end."""
    pipe = Pipe(servers, "small", list(TABLES), MODES)
    try:
        with closing(pipe.connect()) as connection, connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(f"CREATE TABLE {table} ({DDL})")
                cursor.executemany(f"INSERT INTO {table} VALUES ({ROW})", [(number,) * 5 for number in range(ROWS)])
        pipe.follow()
        yield pipe
    finally:
        pipe.end()


def lost(pipe: Pipe) -> None:
    """Purge the log once the writer has changed some rows that the connector, which is paused, has not read."""
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:

        def changed() -> bool | None:
            cursor.execute(f"SELECT max(n) FROM {TABLES[0]}")
            connection.commit()
            return cursor.fetchone()[0] > 0 or None

        poll_until(changed, timeout=30, what="the writer to have written")
    pipe.purge()


@contextmanager
def changing(pipe: Pipe) -> Iterator[None]:
    """A writer that updates, deletes and inserts rows, one after the other, until the block ends."""
    numbers = count(1)
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        connection.autocommit(True)

        def write() -> None:
            number = next(numbers)
            table, key = TABLES[number % len(TABLES)], number * 7 % ROWS
            cursor.execute(f"UPDATE {table} SET n = n + 1, weight = n / 3 WHERE id = {key}")
            if number % 10 == 0:
                cursor.execute(f"DELETE FROM {table} WHERE id = {key}")
            if number % 20 == 0:
                cursor.execute(f"INSERT INTO {table} VALUES ({ROW})", (ROWS + number,) * 5)

        with repeating(write, PAUSE_S):
            yield


if __name__ == "__main__":
    sys.exit(main())
