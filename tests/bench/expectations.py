"""What Great Expectations adds to a verification: `python -m tests.bench.expectations --tables 20 --rows 100000`.

Tables in an Iceberg lake, whose facts are counted, judged by suites and shown as Data Docs. Against it: the same facts by one
aggregation and one key count per table, two Spark queries that are nobody's. Figures are seconds of processor time of this
process and its children (JVM and Python), the median of several rounds in which both take turns. The product counts small
tables in memory and others by Spark, so both are measured. Writes build/bench/expectations.json; ends with 1 if a goal is not held.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_cdc.decisions.compare import expectations
from airflow_cdc.decisions.compare.expectations import Expected
from airflow_cdc.reports.data_docs import write_pages
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.compare.expectations import Pinned, count
from airflow_cdc.spark_apps.compare.few import FEW_ROWS
from tests.adversary.world import CATALOG, lake_properties, session
from tests.bench.processor import seconds
from tests.bench.result import FOLDER, Ratio, write_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOAL = 1.2
ROUNDS = 3
COLUMNS = {
    "id": "bigint", "customer": "string", "amount": "decimal(12,2)", "at": "timestamp_ntz", "number": "int",
    "state": "string", "note": "string", "price": "double", "day": "date",
}  # fmt: skip
NOT_NULL = ("id", "customer", "amount", "number")
VALUES = (
    "id", "concat('customer ', id % 97) AS customer", "CAST(id AS decimal(12,2)) AS amount",
    "TIMESTAMP_NTZ'2026-01-01 00:00:00' AS at", "CAST(id % 1000 AS int) AS number", "'open' AS state",
    "IF(id % 3 = 0, NULL, concat('note ', id)) AS note", "id / 7 AS price", "DATE'2026-01-01' AS day",
)  # fmt: skip


def main() -> int:
    """Measure both sizes; 0 if the goal is held by both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000, help="of each of the larger tables")
    asked = parser.parse_args()
    folder = FOLDER.absolute() / f"expectations-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    with session(folder) as spark:
        ratios = [measured(spark, folder, asked.tables, rows) for rows in (1_000, asked.rows)]
    return write_all(ratios, FOLDER / "expectations.json")


def measured(spark: SparkSession, folder: Path, tables: int, rows: int) -> Ratio:
    """One size: both sides once unmeasured, then in turns."""
    lake = Lake(CATALOG, lake_properties(folder))
    names = [f"t{number:03}" for number in range(tables)]
    for name in names:
        lake.ensure_table("many", name, list(COLUMNS.items()))
        spark.range(rows).selectExpr(*VALUES).writeTo(f"{CATALOG}.many.{name}").overwritePartitions()
    frames = {name: spark.table(f"{CATALOG}.many.{name}") for name in names}
    sides = (partial(bare, list(frames.values()), rows), partial(checked, lake, frames, rows))
    first = [cost(side) for side in sides]
    rounds = [[cost(side) for side in sides] for _ in range(ROUNDS)]
    against, ours = (median(costs) for costs in zip(*rounds, strict=True))
    more = {"rounds": rounds, "first, imports included": first, "load": round(os.getloadavg()[0], 1)}
    name = f"processor seconds of the expectations of {tables} tables with {rows:,} rows, against the same facts"
    return Ratio(name, ours, against, GOAL, more)


def cost(act: Callable[[], None]) -> float:
    """Seconds of processor time."""
    before = seconds()
    act()
    return round(seconds() - before, 2)


def bare(frames: list[DataFrame], rows: int) -> None:
    """Rows and NULLs by one aggregation, repeated keys by one count, table after table."""
    nulls = ", ".join(f"count_if({name} IS NULL) AS {name}" for name in NOT_NULL)
    for frame in frames:
        (counted,) = frame.selectExpr("count(*) AS found", *nulls.split(", ")).collect()
        assert (counted["found"], sum(counted[name] for name in NOT_NULL)) == (rows, 0)
        assert frame.groupBy("id").count().where("count > 1").count() == 0


def checked(lake: Lake, frames: dict[str, DataFrame], rows: int) -> None:
    """What a verification does with its snapshots."""
    tables = [
        Pinned(
            partial(_same, frame),
            Expected(f"many.{name}", 1, COLUMNS, NOT_NULL, rows, key=("id",)),
            partial(in_memory, lake, name) if rows <= FEW_ROWS else None,
        )
        for name, frame in frames.items()
    ]
    facts = count(tables)
    results = [expectations.judged(one) for one in facts]
    with tempfile.TemporaryDirectory() as docs:
        write_pages(facts, Path(docs))
    assert all(result.success for result in results), results


def _same(frame: DataFrame) -> DataFrame:
    return frame


def in_memory(lake: Lake, name: str) -> pa.Table:
    """The rows of a small table, read without Spark."""
    return lake.table("many", name).scan().to_arrow()


if __name__ == "__main__":
    sys.exit(main())
