"""What readers of a Hudi table see while a recovered table is published: `python -m tests.bench.hudi_publish`.

A table of 2,000 rows is replaced by 2,000 others, in several ways. Another process reads it without pause, by snapshot
and (merge on read) read-optimized queries. Each read saw all old rows, all new ones, a mixture, or failed. Some writers
are killed at a moment of the commit. Writes build/bench/hudi_publish.json; judges nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from stack.errors import StackError
from stack.hudi import HudiSpark, start_hudi
from stack.process import wait_until
from tests.bench.result import FOLDER

ROWS = 2_000
OLD_FROM, NEW_FROM = 0, 1_000
KEYS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "pos"}
STAGED = f"SELECT id, 'new' AS a, 2L AS pos FROM range({NEW_FROM}, {NEW_FROM + ROWS})"
# readers look again for this long after the writer is done or dead
AFTER_S = 2.0
QUERIES = {"cow": ("snapshot",), "mor": ("snapshot", "read_optimized")}


@dataclass(slots=True)
class Seen:
    """What one reader saw: how often, and in which order it changed."""

    counts: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)

    def add(self, state: str) -> None:
        self.counts[state] += 1
        if self.order[-1:] != [state]:
            self.order.append(state)


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one measurement."""

    kind: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def timeline(self) -> Path:
        return self.path / ".hoodie" / "timeline"

    def options(self, operation: str) -> dict[str, str]:
        """The options of a write."""
        return {"hoodie.table.name": self.name, "hoodie.datasource.write.operation": operation, **KEYS}

    def files(self, ending: str) -> int:
        """How many instants of the timeline have a file that ends so."""
        return sum(path.name.endswith(ending) and not path.name.startswith(".") for path in self.timeline.iterdir())


@dataclass(frozen=True, slots=True)
class Bench:
    """Two sessions and where their tables are."""

    folder: Path
    reader: HudiSpark
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def start(cls, folder: Path) -> Bench:
        """Start the reader."""
        return cls(folder, start_hudi(folder, folder / "reader.log"))

    def session(self, name: str) -> HudiSpark:
        """A further session, for a writer."""
        return start_hudi(self.folder, self.folder / f"{name}.log")

    def table(self, spark: HudiSpark, kind: str) -> Table:
        """A table with the old rows."""
        table = Table(kind, self.folder / f"t{next(self.numbers)}")
        register(spark, table)
        spark.sql(f"INSERT INTO {table.name} SELECT id, 'old', 1 FROM range({OLD_FROM}, {OLD_FROM + ROWS})")
        return table


def register(spark: HudiSpark, table: Table) -> None:
    """Make the table known to a session, and create it if it is not there."""
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table.name} (id BIGINT, a STRING, pos BIGINT) USING hudi LOCATION '{table.path}' "
        f"TBLPROPERTIES (type = '{table.kind}', primaryKey = 'id', preCombineField = 'pos')"
    )


def look(reader: HudiSpark, table: Table, query_type: str) -> str:
    """One read from nothing: old, new, or what it saw instead."""
    try:
        reader.sql(
            "CREATE OR REPLACE TEMPORARY VIEW seen USING hudi OPTIONS "
            f"(path '{table.path}', 'hoodie.datasource.query.type' '{query_type}')"
        )
        counts = ", ".join(f"count_if(a = '{word}')" for word in ("old", "new", "other"))
        old, new, other = reader.sql(f"SELECT {counts} FROM seen")[0]
    except StackError as error:
        return f"failed: {str(error)[:160]}"
    known = {(ROWS, 0, 0): "old", (0, ROWS, 0): "new"}
    return known.get((old, new, other), f"mixture: {old} old, {new} new, {other} other")


@contextmanager
def reading(bench: Bench, table: Table) -> Iterator[dict[str, Seen]]:
    """Read without pause, each kind of query in turn, until the block ends."""
    seen = {query: Seen() for query in QUERIES[table.kind]}
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            for query, its in seen.items():
                its.add(look(bench.reader, table, query))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        wait_until(lambda: all(its.order for its in seen.values()) or None, timeout=120, what="the first reads")
        yield seen
        threading.Event().wait(AFTER_S)
    finally:
        stop.set()
        thread.join()


def one_commit(writer: HudiSpark, table: Table) -> None:
    """The stage's rows replace the table in one insert_overwrite_table."""
    writer.write(STAGED, table.path, table.options("insert_overwrite_table"))


def in_place(writer: HudiSpark, table: Table) -> None:
    """A savepoint, then what recovery by rewriting does: ghosts deleted, rows written in two parts."""
    savepoint(writer, table)
    writer.sql(f"DELETE FROM {table.name} WHERE id < {NEW_FROM}")
    for part in ("id < 2000", "id >= 2000"):
        writer.write(f"SELECT * FROM ({STAGED}) WHERE {part}", table.path, table.options("upsert"))


def in_place_and_back(writer: HudiSpark, table: Table) -> None:
    """The same, given up half way: the table is rolled back to the savepoint."""
    instant = savepoint(writer, table)
    writer.sql(f"DELETE FROM {table.name} WHERE id < {NEW_FROM}")
    writer.sql(f"CALL rollback_to_savepoint(table => '{table.name}', instant_time => '{instant}')")


def savepoint(writer: HudiSpark, table: Table) -> str:
    """Make a savepoint of the newest commit."""
    instant = str(writer.sql(f"CALL show_commits(table => '{table.name}', limit => 1)")[0][0])
    writer.sql(f"CALL create_savepoint(table => '{table.name}', commit_time => '{instant}')")
    return instant


def renamed_folders(writer: HudiSpark, table: Table) -> None:
    """A whole table at another path takes the place of the old one: two renames, the best that a file system offers."""
    staged = Table(table.kind, table.path.with_name(f"{table.name}_stage"))
    register(writer, staged)
    writer.write(STAGED, staged.path, {**staged.options("upsert")})
    table.path.rename(table.path.with_name(f"{table.name}_old"))
    staged.path.rename(table.path)


WAYS: dict[str, Callable[[HudiSpark, Table], None]] = {
    "one insert_overwrite_table": one_commit,
    "savepoint, rewritten in place": in_place,
    "savepoint, given up, rolled back": in_place_and_back,
    "staged table, folders renamed": renamed_folders,
}
# moments of the commit: the file on the timeline after whose appearance the writer is killed
MOMENTS = (".replacecommit.requested", ".replacecommit.inflight", ".replacecommit")


def measure(bench: Bench, writer: HudiSpark, way: str, kind: str) -> dict[str, object]:
    """One way without a kill."""
    table = bench.table(writer, kind)
    with reading(bench, table) as seen:
        WAYS[way](writer, table)
    return result(table, way, "", seen)


def killed(bench: Bench, second: HudiSpark, kind: str, moment: str) -> dict[str, object]:
    """The writer of one insert_overwrite_table is killed; then another writer repeats it."""
    writer = bench.session("killed")
    try:
        table = bench.table(writer, kind)
        with reading(bench, table) as seen:
            kill_at(writer, table, moment)
    finally:
        writer.stop()
    with reading(bench, table) as again:
        one_commit(second, table)
    return {**result(table, "one insert_overwrite_table", moment, seen), "then repeated": of(again)}


def kill_at(writer: HudiSpark, table: Table, moment: str) -> None:
    """Start the write, and kill the writer as soon as a further file of that ending is on the timeline."""
    before = table.files(moment)

    def write() -> None:
        with suppress(StackError):
            one_commit(writer, table)

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(lambda: table.files(moment) > before or None, timeout=120, what=moment, interval=0.001)
    writer.kill()
    thread.join()


# a query that is still running while somebody else commits
SLOW = f"SELECT * FROM ({STAGED}) WHERE id <> {NEW_FROM} OR reflect('java.lang.Thread', 'sleep', 15000L) IS NOT NULL"
# changes nothing: a session's first write takes longer than the slow query
WARM_UP = "SELECT 0L AS id, 'old' AS a, 1L AS pos"
OTHERS = "SELECT 5000L AS id, 'other' AS a, 3L AS pos"
MODES: dict[str, dict[str, str]] = {
    "one writer (default)": {},
    "optimistic, file lock": {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    },
}
BEFORE, DURING = "before the publish began", "while it ran"
# (mode, when the other commits, how it writes): bulk_insert puts its row into a file of its own
CONTESTS = (
    ("optimistic, file lock", DURING, "upsert"),
    ("optimistic, file lock", DURING, "bulk_insert"),
    ("optimistic, file lock", BEFORE, "upsert"),
    ("one writer (default)", DURING, "upsert"),
)


def contested(bench: Bench, writer: HudiSpark, kind: str, contest: tuple[str, str, str]) -> dict[str, object]:
    """Another process commits a row that the stage does not know: does the publish fail, or is the row lost?"""
    mode, when, operation = contest
    table, other = bench.table(writer, kind), bench.session("other")
    said: list[str] = []
    publish = threading.Thread(target=lambda: said.append(attempt(writer, table, "insert_overwrite_table", SLOW, mode)))
    try:
        attempt(other, table, "upsert", WARM_UP, mode)
        if when == BEFORE:
            others = attempt(other, table, operation, OTHERS, mode)
        before = table.files(".requested")
        publish.start()
        wait_until(lambda: table.files(".requested") > before or None, timeout=120, what="the publish to begin")
        if when == DURING:
            others = attempt(other, table, operation, OTHERS, mode)
        publish.join()
    finally:
        other.stop()
    seen = look(bench.reader, table, "snapshot")
    return {"contest": contest, "kind": kind, "publish": said, "other writer": others, "table": seen}


def attempt(writer: HudiSpark, table: Table, operation: str, query: str, mode: str) -> str:
    """Write; "committed", or why it was not."""
    try:
        writer.write(query, table.path, {**table.options(operation), **MODES[mode]})
    except StackError as error:
        return f"failed: {str(error)[:400]}"
    return "committed"


def result(table: Table, way: str, moment: str, seen: dict[str, Seen]) -> dict[str, object]:
    """One line of the file."""
    return {"way": way, "kind": table.kind, "killed at": moment, "seen": of(seen)}


def of(seen: dict[str, Seen]) -> dict[str, dict[str, object]]:
    """What readers saw, as JSON."""
    return {query: {"reads": dict(its.counts), "order": its.order} for query, its in seen.items()}


def ways(bench: Bench) -> Iterator[dict[str, object]]:
    """Each way without a kill; the one that is chosen more often."""
    writer = bench.session("writer")
    for way, kind in itertools.product((*WAYS, *[next(iter(WAYS))] * 4), QUERIES):
        yield measure(bench, writer, way, kind)
    writer.stop()


def contests(bench: Bench) -> Iterator[dict[str, object]]:
    """Two writers at once."""
    writer = bench.session("writer")
    for contest, kind in itertools.product(CONTESTS, QUERIES):
        yield contested(bench, writer, kind, contest)
    writer.stop()


def kills(bench: Bench) -> Iterator[dict[str, object]]:
    """The writer killed at each moment of its commit."""
    second = bench.session("second")
    for moment, kind in itertools.product(MOMENTS, QUERIES):
        yield killed(bench, second, kind, moment)
    second.stop()


GROUPS = {"ways": ways, "kills": kills, "contests": contests}


def main() -> int:
    """Measure and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("build/hudi_publish"), help="an empty folder for the tables"
    )
    parser.add_argument("--groups", nargs="*", default=[*GROUPS], choices=[*GROUPS])
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True)
    bench = Bench.start(folder)
    results = []
    for one in itertools.chain.from_iterable(GROUPS[name](bench) for name in args.groups):
        results.append(one)
        print(json.dumps(one), flush=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "hudi_publish.json").write_text(json.dumps(results, indent=1))
    bench.reader.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
