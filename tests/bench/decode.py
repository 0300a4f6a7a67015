"""What a record costs to decode: `python -m tests.bench.decode --records 50000`.

The product's decoding of Debezium's events of a table of nine columns, against Spark reading and parsing the same events
once, typed: both to nowhere, in turns, in one driver. Figures are microseconds of processor time per record, of the driver's
JVM and the Python processes that it starts, the median of the rounds. Writes build/bench/decode.json; ends with 1 if the goal is
not held.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil

from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.session import EXACT, LOCAL
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from tests.apply_support import UUID, column, settings, table
from tests.bench.result import FOLDER, Ratio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 1.5
ROUNDS = 7
CONF = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
}
ORDERS = table(
    "orders",
    [
        column("id", "bigint", nullable=False),
        column("customer_id", "bigint"),
        column("status", "varchar(20)"),
        column("amount", "decimal(12,2)"),
        column("currency", "char(3)"),
        column("note", "varchar(200)"),
        column("created_at", "datetime"),
        column("updated_at", "timestamp(6)"),
        column("weight", "double"),
    ],
    ("id",),
)
ROW = (
    "id: bigint, customer_id: bigint, status: string, amount: string, currency: string, note: string, created_at: bigint,"
    " updated_at: string, weight: double"
)
SOURCE = (
    "db: string, `table`: string, gtid: string, server_id: bigint, file: string, pos: bigint, `row`: int, ts_ms: bigint,"
    " snapshot: string"
)
TYPED = f"op string, after struct<{ROW}>, source struct<{SOURCE}>"


def main() -> int:
    """Measure; 0 if the goal is held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    records = parser.parse_args().records
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        raw = events(spark, records, Path(folder) / "events")
        ours, against = in_turns(spark, records, lambda: decoded(raw), lambda: typed(raw))
    spark.stop()
    name = f"processor time of decoding {records:,} records, microseconds each, against a typed from_json"
    return Ratio(name, ours, against, MOST).write(FOLDER / "decode.json")


def session() -> SparkSession:
    """A local session as the drivers' own, without a sink."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("bench-decode")
    for key, value in {**LOCAL, **EXACT, **CONF}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register_functions(spark)
    return spark


def events(spark: SparkSession, records: int, path: Path) -> DataFrame:
    """Updates of as many rows, as a connector without the schema around its records writes them."""
    rows = [("p.shop.orders", 0, i, bytearray(json.dumps({"id": i}).encode()), update(i)) for i in range(records)]
    spark.createDataFrame(rows, RAW_SCHEMA).coalesce(1).write.parquet(str(path))
    return spark.read.parquet(str(path))


def update(number: int) -> bytearray:
    """One event."""
    source = {
        "version": "3.6.1.Final", "connector": "mysql", "name": "p", "ts_ms": 1_700_000_000_000, "snapshot": "false",
        "db": "shop", "sequence": None, "ts_us": 1_700_000_000_000_000, "table": "orders", "server_id": 1,
        "gtid": f"{UUID}:{number + 1}", "file": "mysql-bin.000003", "pos": 1000 + number, "row": 0, "thread": 12,
    }  # fmt: skip
    both = {"before": image(number, 0), "after": image(number, 1), "source": source, "op": "u", "transaction": None}
    return bytearray(json.dumps({**both, "ts_ms": 1_700_000_000_000}, separators=(",", ":")).encode())


def image(number: int, by: int) -> dict[str, object]:
    """A row, before or after its change."""
    return {
        "id": number, "customer_id": number * 7 % 9999, "status": "paid", "amount": "AfQ=", "currency": "EUR",
        "note": f"some text ✓ {number}", "created_at": 1_700_000_000_000 + number,
        "updated_at": "2026-01-02T03:04:05.123456Z", "weight": 1.5 + number * 0.001 + by,
    }  # fmt: skip


def decoded(raw: DataFrame) -> DataFrame:
    """As apply decodes a table with a key."""
    return Events(settings()).decode(raw, ORDERS, ("after",))


def typed(raw: DataFrame) -> DataFrame:
    """The least that reads the same values."""
    return raw.selectExpr(
        "topic",
        "partition",
        "offset",
        "from_json(CAST(key AS string), 'id bigint') AS key",
        f"from_json(CAST(value AS string), '{TYPED}') AS event",
    )


def in_turns(
    spark: SparkSession, records: int, ours: Callable[[], DataFrame], against: Callable[[], DataFrame]
) -> tuple[float, float]:
    """Microseconds per record of each, the median; the first round of each compiles and does not count."""
    taken: dict[Callable[[], DataFrame], list[float]] = {ours: [], against: []}
    for _ in range(ROUNDS + 1):
        for frame, figures in taken.items():
            before = tree_seconds(spark)
            frame().write.format("noop").mode("overwrite").save()
            figures.append((tree_seconds(spark) - before) / records * 1e6)
    first = {name: round(figures[0], 1) for name, figures in zip(("ours", "against"), taken.values(), strict=True)}
    print(f"the first round: {first}", flush=True)
    return round(median(taken[ours][1:]), 1), round(median(taken[against][1:]), 1)


def tree_seconds(spark: SparkSession) -> float:
    """Processor time of the driver's JVM and of every process below it, ended ones included, in seconds."""
    jvm = psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    times = [one.cpu_times() for one in (jvm, *jvm.children(recursive=True))]
    return float(sum(one.user + one.system + one.children_user + one.children_system for one in times))


if __name__ == "__main__":
    sys.exit(main())
