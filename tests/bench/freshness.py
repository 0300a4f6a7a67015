"""How soon a change can be read in main: `python -m tests.bench.freshness --minutes 15`.

A writer makes 200 changes a second over five tables of a real MySQL; the pipeline applies continuously; a reader looks at
main of every table all the time and notes which changes it holds. A change is as old as the time from before its commit
to the reader's having it. The figure is the 95th percentile, against the minute between two scheduled runs. At the end
every row is compared. Writes build/bench/freshness.json; ends with 1 if the goal is not held, with 2 if a row differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from statistics import median, quantiles

from airflow_cdc.core.pipeline import ApplySpec
from airflow_cdc.core.poll import poll_until
from airflow_cdc.spark_apps.apply_changes import keep_applying
from tests.adversary.world import Pipe, servers
from tests.bench.recovered import differing
from tests.bench.result import FOLDER, WRONG, Ratio

TABLES = tuple(f"t{number}" for number in range(5))
ROWS, RATE = 1_000, 200
SCHEDULED_S, MOST_S = 60.0, 5.0
MODES = {"topic.creation.default.partitions": "1"}


@dataclass(slots=True)
class Changes:
    """Changes by table, oldest first: (number, time before its commit); those that a reader had get their age."""

    waiting: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: {table: [] for table in TABLES})
    ages: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def made(self, table: str, number: int, at: float) -> None:
        with self.lock:
            self.waiting[table].append((number, at))

    def read(self, table: str, newest: int, at: float) -> None:
        """A reader had all of the table's changes up to `newest` at this time."""
        with self.lock:
            had = [one for one in self.waiting[table] if one[0] <= newest]
            self.waiting[table] = self.waiting[table][len(had) :]
            self.ages += [at - made for _, made in had]


def main() -> int:
    """Measure; 0 if the goal is held and both sides are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    asked = parser.parse_args()
    folder = FOLDER.absolute() / f"world-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    with servers(folder, asked.stack) as running:
        pipe = Pipe(running, "fresh", list(TABLES), MODES)
        try:
            fill(pipe)
            pipe.follow()
            assert pipe.recover("full_snapshot") == "MATCH"
            changes, batches = measure(pipe, asked.minutes * 60)
            unequal = differing(pipe, TABLES)
        finally:
            pipe.end()
    more = {"median": round(median(changes.ages), 2), "changes": len(changes.ages), "batches": batches}
    p95 = round(quantiles(changes.ages, n=20)[-1], 2)
    name = f"seconds from commit to readable in main, p95, {RATE} changes a second over {len(TABLES)} tables"
    row = Ratio(name, p95, SCHEDULED_S, round(MOST_S / SCHEDULED_S, 3), {**more, "differing_rows": unequal})
    status = row.write(FOLDER / "freshness.json")
    return WRONG if unequal else status


def fill(pipe: Pipe) -> None:
    """The tables: `number` is that of the change that wrote the row last."""
    values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(
                f"CREATE TABLE {table} (id INT PRIMARY KEY, a VARCHAR(20), number BIGINT NOT NULL DEFAULT 0)"
            )
            cursor.execute(f"INSERT INTO {table} (id, a) VALUES {values}")


def measure(pipe: Pipe, seconds: float) -> tuple[Changes, int]:
    """Write, apply and read for so long, and on until the last change was read; the ages, and the number of batches."""
    changes, over, said = Changes(), threading.Event(), dict[str, int]()
    run = pipe.run()
    staying = replace(run, pipeline=replace(run.pipeline, apply=ApplySpec("continuous", lasts=86_400)))

    def apply() -> None:
        said["batches"] = keep_applying(staying, pipe.servers.spark, lambda: not over.is_set())["batches"]

    applying = threading.Thread(target=apply, daemon=True)
    with reading(pipe, changes):
        applying.start()
        write(pipe, changes, seconds)
        poll_until(lambda: all_read(changes), timeout=120, what="the last change to be readable")
    over.set()
    applying.join(120)
    return changes, said["batches"]


def all_read(changes: Changes) -> bool | None:
    return None if any(changes.waiting.values()) else True


def write(pipe: Pipe, changes: Changes, seconds: float) -> None:
    """RATE changes a second, each a transaction of its own; a writer that falls behind does not catch up."""
    began = time.monotonic()
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        number = 0
        while (now := time.monotonic()) < began + seconds:
            number += 1
            table, key = TABLES[number % len(TABLES)], (number * 7) % ROWS
            at = time.time()
            cursor.execute(f"UPDATE {table} SET number = %s WHERE id = %s", (number, key))
            changes.made(table, number, at)
            threading.Event().wait(max(0.0, began + number / RATE - now))


@contextmanager
def reading(pipe: Pipe, changes: Changes) -> Iterator[None]:
    """A reader in a process of its own, as a user's is, that looks at main of each table whenever that has moved."""
    command = [sys.executable, "-m", "tests.bench.freshness_reader", str(pipe.servers.folder), pipe.namespace, *TABLES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        thread = threading.Thread(target=note, args=(process, changes), daemon=True)
        thread.start()
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it ends then
            thread.join(60)


def note(process: subprocess.Popen[str], changes: Changes) -> None:
    """Note what the reader says: table, newest change, and when it had read it."""
    for line in process.stdout or ():
        table, newest, at = line.split()
        changes.read(table, int(newest), float(at))


if __name__ == "__main__":
    sys.exit(main())
