"""What a cluster makes of a large table: `python -m tests.bench.cluster --rows 1000000`.

A Spark standalone cluster of two workers with a core each, beside a real MySQL server, Debezium and Kafka, all on this
machine. The steps `recover` and `verify` of a table of nine narrow columns are measured in warm drivers, by the clock and in
processor time of the executors, of the source, and of the whole machine. From two executors and two sizes a model of each step:

    seconds = fixed + rows × clock × bound / bound of two executors on this machine

`bound` is what a row needs at least: the executors' processor time shared by them, the source's by the connections that read
it, or all of it shared by the machine's cores, whichever is largest. It is checked with what it has not seen: twice as many
rows, and one executor. Then it says how long 1 TB and 10 TB would take where executors and source have machines of their own: a
table is read on a connection per task, and digested on as many, up to eight.
Writes build/bench/cluster.json; ends with 1 if the model is off by more than its goal, or if a recovery is not MATCH.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.compare.scan import CONNECTIONS
from airflow_cdc.spark_apps.driver.session import build_session
from stack import fetch
from stack.spark_cluster import SparkCluster, start_spark_cluster
from tests.adversary.world import CATALOG, Servers, lake_properties
from tests.bench.large import NARROW, pipe_of
from tests.bench.processor import of_machine, seconds
from tests.bench.recovered import Measured, differing, recovered, repeating
from tests.bench.result import FOLDER, Ratio, write_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.mysql import MySqlServer

T = TypeVar("T")

GOAL = 1.25
STEPS = ("recover", "verify")
ROUNDS = 3
PAUSE_S = 0.1
CORES = os.cpu_count() or 1
# bytes → how they are called; executors; cores of a source with a machine of its own
SIZES, EXECUTORS, SOURCE_CORES = {10**12: "1 TB", 10**13: "10 TB"}, (16, 128), 16


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of a step: by the clock, and of processors by the executors, by the source, and by all on this machine."""

    clock: float
    executors: float
    source: float
    machine: float

    def less(self, other: Used) -> Used:
        """What was used since `other`."""
        return Used(*(getattr(self, name) - getattr(other, name) for name in self.__slots__))

    def to_json(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 2) for name in self.__slots__}


def connections(step: str, executors: int) -> int:
    """How many read one table at the same time: one for each task, and for a digest no more than a comparison opens."""
    return executors if step == "recover" else min(executors, CONNECTIONS)


@dataclass(frozen=True, slots=True)
class Model:
    """A step: seconds that do not grow, and what each row takes."""

    step: str
    fixed: float
    row: Used

    @classmethod
    def of(cls, step: str, few: tuple[int, Used], many: tuple[int, Used]) -> Model:
        """Through two sizes (rows, what they used) on two executors."""
        rows, used = many[0] - few[0], many[1].less(few[1])
        row = Used(*(getattr(used, name) / rows for name in Used.__slots__))
        assert min(row.clock, row.executors) > 0, f"{many[0]:,} rows are too few to tell what each costs: {row}"
        return cls(step, many[1].clock - many[0] * row.clock, row)

    def bounds(self, executors: int, cores: int, source_cores: int) -> dict[str, float]:
        """What → the least seconds of a row that it leaves."""
        readers = min(connections(self.step, executors), source_cores)
        return {
            "executors": self.row.executors / executors,
            "source": self.row.source / readers,
            "machine": self.row.machine / cores,
        }

    def seconds(self, rows: int, executors: int, cores: int = CORES, source_cores: int = CORES) -> float:
        """How long it says that the step takes."""
        here = max(self.bounds(2, CORES, CORES).values())
        return self.fixed + rows * self.row.clock * max(self.bounds(executors, cores, source_cores).values()) / here


@dataclass(slots=True)
class Counted(Measured):
    """Notes also what each step used."""

    now: Callable[[], Used] = lambda: Used(0, 0, 0, 0)
    used: dict[str, Used] = field(default_factory=dict)

    def step(self, name: str, act: Callable[[], T]) -> T:
        """See Measured."""
        before = self.now()
        answer = Measured.step(self, name, act)
        self.used[name] = self.now().less(before)
        return answer


def main() -> int:
    """Measure and compare; 0 if the model holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    folder = FOLDER.absolute() / f"cluster-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    with stack.start(folder / "s") as started:
        cluster = start_spark_cluster(started.folder, started.logs, memory="1600m")
        try:
            servers = Servers(folder, started, cast("SparkSession", None))
            with ticking(servers.mysql):
                rows = list(measured(servers, cluster, asked.rows))
        finally:
            cluster.stop()
    return write_all(rows, FOLDER / "cluster.json")


def measured(servers: Servers, cluster: SparkCluster, rows: int) -> Iterator[Ratio]:
    """The model against what it has not seen."""
    double, two, third = points(servers, cluster, (2 * rows, rows, rows // 3), 2)
    (one,) = points(servers, cluster, (rows,), 1)
    models = [Model.of(step, (rows // 3, third[step]), (rows, two[step])) for step in STEPS]
    by_name = {"2 executors, a third": third, "2 executors": two, "2 executors, twice": double, "1 executor": one}
    more: dict[str, object] = {
        "measured": {name: {step: used.to_json() for step, used in point.items()} for name, point in by_name.items()},
        "µs of a row": {model.step: _micro(model.row) for model in models},
        "fixed": {model.step: round(model.fixed, 2) for model in models},
        **far(models, bytes_of_a_row(servers, rows)),
        "load": round(os.getloadavg()[0], 1),
    }
    yield off(models, 2 * rows, 2, double, more)
    yield off(models, rows, 1, one, {})


def off(models: list[Model], rows: int, executors: int, found: Mapping[str, Used], more: dict[str, object]) -> Ratio:
    """How far the model is from what was measured, as a factor."""
    predicted = sum(model.seconds(rows, executors) for model in models)
    took = sum(used.clock for used in found.values())
    what = f"recover and verify of {rows:,} rows, executors: {executors}; what the model says and what was measured"
    return Ratio(
        what,
        round(max(predicted, took), 2),
        round(min(predicted, took), 2),
        GOAL,
        more | {"predicted": round(predicted, 2)},
    )


def far(models: list[Model], row_bytes: int) -> dict[str, object]:
    """How long much larger tables would take on executors and a source with machines of their own, and what bounds each."""
    hours, bounds = {}, {}
    for count in EXECUTORS:
        cores = 10**6  # enough for whatever is neither an executor nor the source
        for model in models:
            by = model.bounds(count, cores, SOURCE_CORES)
            bounds[f"{model.step} on {count} executors"] = max(by, key=lambda name: by[name])
        for size, name in SIZES.items():
            predicted = sum(model.seconds(size // row_bytes, count, cores, SOURCE_CORES) for model in models)
            hours[f"{name} on {count} executors"] = round(predicted / 3600, 1)
    return {"bytes of a row": row_bytes, "hours": hours, "bound by": bounds}


def _micro(row: Used) -> dict[str, float]:
    return Used(*(getattr(row, name) * 1e6 for name in Used.__slots__)).to_json()


def points(servers: Servers, cluster: SparkCluster, sizes: Sequence[int], executors: int) -> list[dict[str, Used]]:
    """Of each size: step → what it used in the quickest of some recoveries in one driver.

    The sizes take turns, because a machine that others share is not as quick a minute later. The first recovery of each does
    not count: its sink is empty, and the code is not yet compiled.
    """

    def now() -> Used:
        in_executors = sum(seconds(worker.pid) for worker in cluster.workers)
        return Used(time.monotonic(), in_executors, seconds(servers.mysql.child.pid), of_machine())

    with session(servers.folder, cluster, executors) as spark, ExitStack() as ends:
        running = replace(servers, spark=spark)
        pipes = {rows: ends.enter_context(pipe_of(running, NARROW, rows)) for rows in sizes}
        rounds: list[dict[int, Counted]] = []
        for number in range(ROUNDS + 1):
            counted = {rows: Counted(1, f"{rows:,} rows on {executors}, {number}: 1", now=now) for rows in sizes}
            for rows, pipe in pipes.items():
                recovered(pipe, "full_snapshot", counted[rows])
            rounds.append(counted)
        for pipe in pipes.values():
            assert not differing(pipe, pipe.tables)
    return [{step: _quickest(counted[rows].used[step] for counted in rounds[1:]) for step in STEPS} for rows in sizes]


@contextmanager
def ticking(server: MySqlServer) -> Iterator[None]:
    """A source that is written to all the time, if little: of one at rest a connector reports every five seconds, and verify waits."""
    name = f"ticks_{os.getpid()}"
    server.execute(
        f"CREATE DATABASE {name}", f"CREATE TABLE {name}.ticks (n BIGINT)", f"INSERT INTO {name}.ticks VALUES (0)"
    )
    try:
        with repeating(lambda: server.execute(f"UPDATE {name}.ticks SET n = n + 1"), PAUSE_S):
            yield
    finally:
        server.execute(f"DROP DATABASE {name}")


def _quickest(some: Iterable[Used]) -> Used:
    return min(some, key=lambda used: used.clock)


def bytes_of_a_row(servers: Servers, rows: int) -> int:
    """What the server says that a row of the table takes."""
    asked = "SELECT data_length DIV table_rows FROM information_schema.tables WHERE table_schema = DATABASE()"
    with (
        pipe_of(servers, NARROW, rows // 10) as pipe,
        closing(pipe.connect()) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(asked)
        (size,) = cast("tuple[Any]", cursor.fetchone())
    return int(size)


@contextmanager
def session(folder: Path, cluster: SparkCluster, executors: int) -> Iterator[SparkSession]:
    """A driver's session on the cluster, as the applications build it, on so many executors of one core."""
    os.environ.pop("PYSPARK_PYTHON", None)
    extra = {
        "spark.master": cluster.master,
        "spark.cores.max": str(executors),
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.executor.memory": "1200m",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait": "0s",
        "spark.local.dir": str(folder / "driver"),
    }
    jars = [str(jar) for jar in fetch.set_jars("spark")]
    spark = build_session("cdc cluster bench", Lake(CATALOG, lake_properties(folder)), jars, extra)
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
