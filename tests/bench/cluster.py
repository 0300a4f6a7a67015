"""What a cluster makes of a large table: `python -m tests.bench.cluster --rows 1000000`.

A Spark standalone cluster of two workers with a core each, beside a real MySQL server, Debezium and Kafka, all on this
machine. The steps `recover` and `verify` of a table of nine narrow columns are measured in warm drivers on one executor and on
two, with `--rows` and with a quarter of them. From these a model: seconds = fixed + rows × (each / executors + together), where
`together` is what more executors do not share: the source's own work, the driver's, the connector's. It is checked with twice
as many rows on two executors, which it has not seen. Then it says how long 1 TB and 10 TB would take with 16 and 128
executors: what is fixed or together is the machine's that this runs on, so that is a bound and no promise.
Writes build/bench/cluster.json; ends with 1 if the model is off by more than its goal, or if a recovery is not MATCH.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.driver.session import build_session
from stack import fetch
from stack.spark_cluster import SparkCluster, start_spark_cluster
from tests.adversary.world import CATALOG, Servers, lake_properties
from tests.bench.large import NARROW, pipe_of
from tests.bench.recovered import Measured, differing, recovered
from tests.bench.result import FOLDER, Ratio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL = 1.25
STEPS = ("recover", "verify")
# bytes → how they are called; and executors
SIZES, EXECUTORS = {10**12: "1 TB", 10**13: "10 TB"}, (16, 128)


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds of both steps over `rows` rows on so many executors of one core."""

    executors: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Model:
    """seconds = fixed + rows × (each / executors + together)."""

    fixed: float
    each: float
    together: float

    @classmethod
    def of(cls, one: Point, two: Point, quarter: Point) -> Model:
        """Through three points: `one` and `two` executors over as many rows, and `quarter`, on two, over fewer."""
        per_row = (two.seconds - quarter.seconds) / (two.rows - quarter.rows)  # each / 2 + together
        each = 2 * (one.seconds - two.seconds) / one.rows
        return cls(two.seconds - two.rows * per_row, each, per_row - each / 2)

    def seconds(self, executors: int, rows: int) -> float:
        """How long it says that the steps take."""
        return self.fixed + rows * (self.each / executors + self.together)


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
            found = measured(Servers(folder, started, cast("SparkSession", None)), cluster, asked.rows)
        finally:
            cluster.stop()
    return found.write(FOLDER / "cluster.json")


def measured(servers: Servers, cluster: SparkCluster, rows: int) -> Ratio:
    """The model against what was measured."""
    (one,) = points(servers, cluster, 1, (rows,))
    quarter, two, double = points(servers, cluster, 2, (rows // 4, rows, 2 * rows))
    model = Model.of(one, two, quarter)
    assert min(model.each, model.together) >= 0, (
        f"{rows:,} rows are too few to tell what they cost from what is fixed: {model}"
    )
    said = model.seconds(double.executors, double.rows)
    row_bytes = bytes_of_a_row(servers, rows)
    hours = {
        f"hours for {name} on {count} executors": round(model.seconds(count, size // row_bytes) / 3600, 1)
        for size, name in SIZES.items()
        for count in EXECUTORS
    }
    worse, better = max(said, double.seconds), min(said, double.seconds)
    more = {
        "seconds": {f"{p.executors} × {p.rows:,}": p.seconds for p in (one, quarter, two, double)},
        "fixed": round(model.fixed, 2),
        "µs of a row, on one executor": round(model.each * 1e6, 2),
        "µs of a row, together": round(model.together * 1e6, 2),
        "bytes of a row": row_bytes,
        **hours,
        "load": round(os.getloadavg()[0], 1),
    }
    what = f"recover and verify of {double.rows:,} rows on two executors: what the model says against what was measured"
    return Ratio(what, round(worse, 2), round(better, 2), GOAL, more)


def points(servers: Servers, cluster: SparkCluster, executors: int, sizes: Sequence[int]) -> list[Point]:
    """The seconds of each size, in one driver, whose first recovery does not count."""
    with session(servers.folder, cluster, executors) as spark:
        running = replace(servers, spark=spark)
        _seconds(running, sizes[0], executors)
        return [Point(executors, rows, _seconds(running, rows, executors)) for rows in sizes]


def _seconds(servers: Servers, rows: int, executors: int) -> float:
    with pipe_of(servers, NARROW, rows) as pipe:
        recovered(pipe, "full_snapshot", Measured(1, f"{rows:,} rows on {executors}, first: 1"))
        done = recovered(pipe, "full_snapshot", Measured(1, f"{rows:,} rows on {executors}: 1"))
        assert not differing(pipe, pipe.tables)
    return round(sum(done.steps[name] for name in STEPS), 2)


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
