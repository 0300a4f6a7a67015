"""What a driver holds while a busy table is compared: `python -m tests.bench.in_flight --events 500000,5000000`.

Each size is a process of its own: a table on a real MySQL server, its mirror in an embedded lake, and so many events after
the compared ends, made by Spark as it reads them (no broker holds them). Half are updates of the table's rows, half rows that
came and went. Every key is judged by its events; the verdict has to be MATCH. The memory is the greatest sum of PSS of the
driver's Python and JVM, whose heap is touched at its start: whatever grows with the events is not in it, or it fails.
Writes build/bench/in_flight.json: `ours` is the largest size's, `against` the smallest's. Ends with 1 if it does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import stack
from airflow_cdc.core.report import Verdict
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.debezium import Events as Decoder
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.compare import flight
from airflow_cdc.spark_apps.compare.judge import judge
from airflow_cdc.spark_apps.compare.scan import Outcome, Reached, Subject, compare_tables
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.session import build_session
from stack import jvm
from tests.adversary.world import CATALOG, lake_properties
from tests.bench.result import FOLDER, Ratio
from tests.integration.rig import Rig
from tests.integration.verify_support import NUMBERS, Scene, make_scene, settings_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.ports import Ranges

RESULTS = FOLDER / "in_flight.json"
MOST = 1.2
HEAP = "1g"
ROWS = 20_000
TABLE = "CREATE TABLE busy (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
FILL = f"INSERT INTO busy {NUMBERS.format(ROWS)} SELECT i, CONCAT('n', i), 0 FROM n"


def main() -> int:
    """Measure each size; 0 if the memory of the largest is about that of the smallest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", default="500000,5000000", help="how many events are in flight, smallest first")
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    parser.add_argument("--at-once", type=int, default=0, help="instead of EVENTS_AT_ONCE, to see what it is for")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sizes = [int(text) for text in asked.events.split(",")]
    if asked.child:
        flight.EVENTS_AT_ONCE = asked.at_once or flight.EVENTS_AT_ONCE
        print(json.dumps(measure(Path(asked.stack), sizes[0])))
        return 0
    folder = RESULTS.parent.absolute() / f"world-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    with running(folder, asked.stack) as place:
        measured = [in_a_process(place, size, asked.at_once) for size in sizes]
    return summary(measured).write(RESULTS)


@contextmanager
def running(folder: Path, given: str) -> Iterator[Path]:
    """The folder of a stack with a MySQL server."""
    if given:
        yield Path(given)
        return
    with stack.start(folder / "s", services=("mysql",)):
        yield folder / "s"


def in_a_process(place: Path, events: int, at_once: int) -> dict[str, float]:
    """One size, measured where nothing was held before."""
    asked = ["--events", str(events), "--stack", str(place), "--at-once", str(at_once), "--child"]
    done = subprocess.run([sys.executable, "-m", __spec__.name, *asked], stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(figures, file=sys.stderr)
    return figures


def summary(measured: list[dict[str, float]]) -> Ratio:
    """The largest size against the smallest, and what each size took."""
    name = f"driver MB with {measured[-1]['events']:,} events in flight against {measured[0]['events']:,}"
    return Ratio(name, measured[-1]["mb"], measured[0]["mb"], MOST, {"sizes": measured})


@dataclass(slots=True)
class Events:
    """A topic of `count` events that Spark makes as it reads them; beside that all that a scene asks of its topic."""

    scene: Scene
    count: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.scene.events.name

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Event i changes a row of the table if i is even, else one of a pair makes a row that the other one takes away."""
        begin, end = ranges.get(self.name, {}).get(0, (0, 0))
        events = spark.range(begin, end, 1, max(2, (end - begin) // 100_000)).withColumnRenamed("id", "i")
        events = events.selectExpr(
            "i",
            f"CASE WHEN i % 2 = 0 THEN 'u' WHEN (i DIV {2 * ROWS}) % 2 = 0 THEN 'c' ELSE 'd' END AS op",
            f"CASE WHEN i % 2 = 0 THEN (i DIV 2) % {ROWS} + 1"
            f" ELSE 1000000000 + i DIV {4 * ROWS} * {ROWS} + (i DIV 2) % {ROWS} END AS id",
            f"i DIV {2 * ROWS} AS round",
        )
        events = events.selectExpr("*", f"IF(op = 'u', {_row('round')}, IF(op = 'd', {_row('0')}, 'null')) AS before")
        events = events.selectExpr(
            "*", f"IF(op = 'u', {_row('round + 1')}, IF(op = 'c', {_row('0')}, 'null')) AS after"
        )
        return events.selectExpr(
            f"'{self.name}' AS topic",
            "0 AS partition",
            "i AS offset",
            "CAST(concat('{\"id\":', id, '}') AS binary) AS key",
            f"CAST({self._value()} AS binary) AS value",
        )

    def _value(self) -> str:
        table = self.scene.table
        source = (
            '"source":{"version":"3.6.1.Final","connector":"mysql","file":"mysql-bin.000009","row":0,"server_id":1,'
            f'"ts_ms":1800000000000,"db":"{table.schema}","table":"{table.name}","snapshot":null,'
        )
        return (
            f'concat(\'{{"before":\', before, \',"after":\', after, \',{source}"pos":\', 4 + i, \',"gtid":"\','
            ' \'3e11fa47-71ca-11e1-9e33-c80aa9429562:\', 1000000 + i, \'"},"op":"\', op, \'","ts_ms":1800000000000}\')'
        )


def _row(qty: str) -> str:
    return f"concat('{{\"id\":', id, ',\"name\":\"n', id, '\",\"qty\":', {qty}, '}}')"


def measure(place: Path, events: int) -> dict[str, float]:
    """Seconds and MB of one comparison with so many events in flight."""
    folder = place / f"lake-{events}-{os.getpid()}"
    folder.mkdir(parents=True)
    servers, lake = stack.Stack.load(place), Lake(CATALOG, lake_properties(folder))
    server, schema = servers.mysql["mysql"], f"flight_{os.getpid()}"
    heap = f"-Duser.timezone=UTC -Xms{HEAP} -XX:+AlwaysPreTouch"
    settings = {"spark.master": "local[2]", "spark.driver.memory": HEAP, "spark.sql.shuffle.partitions": "2"}
    settings["spark.local.dir"] = str(folder / "local")
    spark = build_session("in-flight", lake, (), settings | jvm.conf(heap))
    try:
        server.execute(f"CREATE DATABASE {schema}")
        scene = make_scene(Rig(server, spark, lake, schema), "busy", TABLE, FILL)
        began = time.monotonic()
        with watched() as memory:
            outcome = compared(scene, Events(scene, events))
        taken = round(time.monotonic() - began, 1)
    finally:
        server.execute(f"DROP DATABASE IF EXISTS {schema}")
        spark.stop()
    assert outcome.verdict is Verdict.MATCH, (outcome.tally, outcome.reasons)
    keys = ROWS + len({i // (4 * ROWS) for i in range(1, events, 2 * ROWS)}) * ROWS
    assert abs(outcome.in_flight - keys) <= ROWS, (outcome.in_flight, keys)
    return {"events": events, "keys": outcome.in_flight, "seconds": taken, **memory}


def compared(scene: Scene, events: Events) -> Outcome:
    """The scene compared while all these events come after its ends."""
    rig, table = scene.rig, scene.table
    topic = Topic(table, events.name, {0: 0}, MySqlLog(), Decoder(settings_for(table)), events.read)
    sink = SinkView(rig.spark, rig.tools().writer.at(rig.spark, scene.stage, scene.head), scene.head)
    begun = Reached(rig.source.position(), {events.name: {0: 0}})
    subject = Subject(table, sink, topic, {0: 0}, begun.position, ROWS)
    now = Reached(begun.position, {events.name: {0: events.count}})
    reader, watermark = rig.tools().reader, rig.source.watermark()
    (outcome,) = compare_tables(reader, [subject], judge, lambda: now, watermark=watermark, start=begun)
    return outcome


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Within the block the greatest memory of this process and those below it, in MB: all together, and Python alone."""
    peak, over = {"mb": 0.0, "python_mb": 0.0}, threading.Event()

    def look() -> None:
        while not over.wait(0.25):
            sizes = {pid: pss_mb(pid) for pid in tree(os.getpid())}
            peak["mb"] = round(max(peak["mb"], sum(sizes.values())), 1)
            peak["python_mb"] = round(max(peak["python_mb"], sizes[os.getpid()]), 1)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    pids = [pid]
    for number in pids:
        for task in Path(f"/proc/{number}/task").glob("*/children"):
            with suppress(OSError):
                pids += map(int, task.read_text().split())
    return pids


def pss_mb(pid: int) -> float:
    """The process's share of memory in MB; 0 if it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
