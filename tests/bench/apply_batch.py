"""What a batch of five tables costs to apply: `python -m tests.bench.apply_batch`.

A real MySQL, Debezium and Kafka; 1,000 changes in each table, each a transaction of its own. A new driver applies them
(its JVM, and its session if it needs one), then batch after batch of the same size. Against it: a bare Spark session, in a process
of its own, that reads the same topics once and parses them with a typed `from_json`. Figures are seconds of processor
time of the process and all its children (JVM and Python); servers and writer are not in them. Writes
build/bench/apply_batch.json; ends with 1 if a goal is not held, with 2 if a row differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import stack
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.kafka import read_topics
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.driver.session import LOCAL, SessionOnDemand
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.wire import admin
from stack import jvm
from tests.adversary.world import CATALOG, Pipe, Servers, lake_properties, session
from tests.bench.processor import seconds
from tests.bench.recovered import differing
from tests.bench.result import FOLDER, WRONG, Ratio, write_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = tuple(f"t{number}" for number in range(5))
ROWS = 1_000
FOLLOWING = 6
MODES = {"topic.creation.default.partitions": "1"}
COLUMNS = [
    ("id", "bigint"), ("customer", "string"), ("amount", "decimal(12,2)"), ("at", "timestamp_ntz"), ("number", "bigint"),
]  # fmt: skip
DDL = "id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME, number BIGINT NOT NULL"
ROW = "id: bigint, customer: string, amount: string, at: bigint, number: bigint"
SOURCE = (
    "db: string, `table`: string, gtid: string, server_id: bigint, file: string, pos: bigint, `row`: int, ts_ms: bigint"
)
TYPED = f"op string, after struct<{ROW}>, source struct<{SOURCE}>"
FIRST, FOLLOW, FURTHER_S = 2.0, 0.3, 0.15


def main() -> int:
    """Measure; 0 if the goals are held and both sides are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    parser.add_argument(
        "--child", default="", choices=["", "ours", "bare", "prime"], help="what a measured process is to do"
    )
    parser.add_argument("--folder", default="", help="of a measured process: where the lake is")
    parser.add_argument("--database", default="", help="of a measured process: what the pipeline mirrors")
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps({"ours": ours, "bare": bare, "prime": prime}[asked.child](asked)))
        return 0
    folder = FOLDER.absolute() / f"batch-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    jvm.archive()  # made here if there is none: no part of what either costs
    with servers(folder, asked.stack) as running:
        pipe = Pipe(running, "batch", list(TABLES), MODES)
        try:
            fill(pipe)
            against = measured(pipe, "bare")
            measured(pipe, "prime")  # leaves each table's definition, which every table has after its recovery
            change(pipe, TABLES, 99)
            figures = measured(pipe, "ours")
            unequal = differing(pipe, TABLES)
        finally:
            pipe.end()
    return report(figures, against["seconds"], unequal)


def report(figures: dict[str, Any], bare_seconds: float, unequal: int) -> int:
    """Three rows; the exit status."""
    batch = f"processor seconds of a batch of {len(TABLES)} tables with {ROWS:,} records each"
    five, one = (median(figures[name]) for name in ("five", "one"))
    more = {"load": round(os.getloadavg()[0], 1), "differing_rows": unequal}
    rows = (
        Ratio(
            f"{batch}, the first of a new driver, against a bare session", figures["first"], bare_seconds, FIRST, more
        ),
        Ratio(
            f"{batch}, following, against a bare session", five, bare_seconds, FOLLOW, more | {"each": figures["five"]}
        ),
        Ratio(
            "processor seconds of each further table of a batch", (five - one) / (len(TABLES) - 1), 1.0, FURTHER_S, more
        ),
    )
    status = write_all(rows, FOLDER / "apply_batch.json")
    return WRONG if unequal else status


@contextmanager
def servers(folder: Path, running: str) -> Iterator[Servers]:
    """Servers without a Spark session: the measured processes have their own."""
    none = cast("SparkSession", None)
    if running:
        yield Servers(folder, stack.Stack.load(Path(running)), none)
        return
    with stack.start(folder / "s") as started:
        yield Servers(folder, started, none)


def fill(pipe: Pipe) -> None:
    """The tables on both sides, equal and stamped at the end of their topics; then the first batch."""
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"CREATE TABLE {table} ({DDL})")
    pipe.follow()
    names = [f"{pipe.database}.{pipe.database}.{table}" for table in TABLES]
    with admin(KafkaEndpoint(pipe.servers.bootstrap)) as client:
        client.create_topics({name: {"num_partitions": 1, "replication_factor": 1} for name in names})
    states = poll_until(lambda: _all_there(pipe, names), timeout=30, what="the topics to exist")
    lake = Lake(CATALOG, lake_properties(pipe.servers.folder))
    for table, name in zip(TABLES, names, strict=True):
        lake.ensure_table(pipe.namespace, table, COLUMNS)
        stamp = Stamp(0, None, {name: TopicOffsets(states[name].id, {0: 0})})
        lake.commit_nothing(pipe.namespace, table, stamp.to_summary())
    change(pipe, TABLES, 0)


def _all_there(pipe: Pipe, names: list[str]) -> Any:
    states = KafkaTransport(KafkaEndpoint(pipe.servers.bootstrap)).topic_states(names)
    return states if len(states) == len(names) else None


def change(pipe: Pipe, tables: tuple[str, ...], batch: int) -> None:
    """ROWS changes in each table, and wait until its topic has them: inserts, then updates of the same rows."""
    ends = _ends(pipe)
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        connection.autocommit(True)
        for at in range(ROWS):
            for table in tables:
                row = (
                    at,
                    f"customer {at % 97} ✓",
                    f"{at}.{batch % 100:02}",
                    f"2026-01-01 00:00:{batch % 60:02}",
                    batch,
                )
                cursor.execute(f"REPLACE INTO {table} VALUES (%s, %s, %s, %s, %s)", row)
    wanted = {name: end + ROWS for name, end in ends.items() if name.rpartition(".")[2] in tables}
    reached = lambda: all(_ends(pipe)[name] >= end for name, end in wanted.items()) or None  # noqa: E731
    poll_until(reached, timeout=120, what="the changes to be in the topics")


def _ends(pipe: Pipe) -> dict[str, int]:
    names = [f"{pipe.database}.{pipe.database}.{table}" for table in TABLES]
    states = KafkaTransport(KafkaEndpoint(pipe.servers.bootstrap)).topic_states(names)
    return {name: state.partitions[0][1] for name, state in states.items()}


def measured(pipe: Pipe, what: str) -> dict[str, Any]:
    """The figures of a process of its own."""
    place = ["--child", what, "--folder", str(pipe.servers.folder), "--stack", str(pipe.servers.stack.folder)]
    command = [sys.executable, "-m", "tests.bench.apply_batch", *place, "--database", pipe.database]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return cast("dict[str, Any]", json.loads(done.stdout.splitlines()[-1]))


def bare(asked: argparse.Namespace) -> dict[str, Any]:
    """A bare session that reads and parses the first batch of all tables in one job."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("bare")
    for key, value in {**LOCAL, "spark.driver.memory": "1500m", **jvm.conf(), "spark.master": "local[2]"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    endpoint = KafkaEndpoint(stack.Stack.load(Path(asked.stack)).kafka.bootstrap)  # type: ignore[union-attr]
    ranges = {f"{asked.database}.{asked.database}.{table}": {0: (0, ROWS)} for table in TABLES}
    parsed = read_topics(spark, endpoint, ranges).selectExpr(
        "topic", "offset", "from_json(CAST(key AS string), 'id bigint') AS key",
        f"from_json(CAST(value AS string), '{TYPED}') AS event",
    )  # fmt: skip
    counts = parsed.groupBy("topic", "event.op").count().collect()
    assert sum(row["count"] for row in counts) == ROWS * len(TABLES)
    taken = seconds()
    spark.stop()
    return {"seconds": round(taken, 2)}


def prime(asked: argparse.Namespace) -> dict[str, Any]:
    """A driver that applies what waits."""
    folder = Path(asked.folder)
    with session(folder) as spark:
        running = Servers(folder, stack.Stack.load(Path(asked.stack)), spark)
        _applied(Pipe(running, "batch", list(TABLES), MODES, database=asked.database), len(TABLES))
    return {}


def ours(asked: argparse.Namespace) -> dict[str, Any]:
    """A driver that applies: its first batch, and batches after it of all tables and of one."""
    from pyspark import SparkConf, SparkContext

    # the JVM that spark-submit starts a driver from, with or without a session
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(jvm.conf().items())))
    folder = Path(asked.folder)
    with ExitStack() as ending:
        spark = SessionOnDemand.of(lambda: ending.enter_context(session(folder)))
        running = Servers(folder, stack.Stack.load(Path(asked.stack)), spark)
        pipe = Pipe(running, "batch", list(TABLES), MODES, database=asked.database)
        _applied(pipe, len(TABLES))
        first = seconds()
        five = [following(pipe, TABLES, batch) for batch in range(1, FOLLOWING)]
        one = [following(pipe, TABLES[:1], batch) for batch in range(FOLLOWING, 2 * FOLLOWING)]
    return {"first": round(first, 2), "five": five, "one": one}


def following(pipe: Pipe, tables: tuple[str, ...], batch: int) -> float:
    """The seconds of one more batch."""
    change(pipe, tables, batch)
    before = seconds()
    _applied(pipe, len(tables))
    return round(seconds() - before, 2)


def _applied(pipe: Pipe, tables: int) -> None:
    results = apply_changes(pipe.run(), pipe.servers.spark)["tables"].values()
    assert sum(bool(result["published"]) for result in results) == tables, results
    assert sum(result["records"] for result in results) >= ROWS * tables


if __name__ == "__main__":
    sys.exit(main())
