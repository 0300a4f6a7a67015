"""One table read into a stage, with a topic in memory for what happens afterwards: what comparisons are tried on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.compare.judge import judge
from airflow_cdc.spark_apps.compare.scan import Outcome, Reached, Subject, compare_tables
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import pinned
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from tests import apply_support
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.ports import Ranges

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT, doc JSON)"
FILL = (
    f"INSERT INTO orders {NUMBERS.format(1000)} SELECT i, CONCAT('n', i), i % 9, JSON_OBJECT('b', i, 'a', 1.5) FROM n"
)

PLAIN = "CREATE TABLE plain (id BIGINT PRIMARY KEY, name VARCHAR(40))"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"
FILL_EVENTS = f"INSERT INTO events {NUMBERS.format(300)} SELECT ELT(1 + i % 3, 'a', 'b', NULL), i % 50 FROM n"
GTID_UUID = apply_support.UUID


@dataclass(slots=True)
class Scene:
    """One table read into a stage, and a topic in memory for what happens afterwards.

    `start`: the end of the topic that the stage holds, if it is not the present one; `begun` lies before it. `in_memory`: few
    rows and few events are read without Spark.
    """

    rig: Rig
    table: Table
    stage: Stage
    head: int
    events: apply_support.Topic
    begun: Watermark
    lock: threading.Lock = field(default_factory=threading.Lock)
    start: int | None = None
    reached: int = 0
    in_memory: bool = False
    spark: SparkSession | None = None  # the rig's, unless a test has another

    def source(self, *statements: str) -> None:
        """A change of the source alone, in one session."""
        self.rig.run(*statements)

    def sink(self, statement: str) -> None:
        """A change of the stage alone; what is compared is the stage after it."""
        self.rig.spark.sql(statement.replace("{}", self.stage.spark_name(self.rig.lake.name)))
        self.head = self.rig.lake.stage_head(self.stage)

    def reach(self, hook: Callable[[int], None] = lambda _: None) -> Reached:
        """The position and the ends at one instant."""
        hook(self.reached)
        self.reached += 1
        with self.lock:
            return Reached(self.rig.source.position(), self.events.upto)

    def compare(self, hook: Callable[[int], None] = lambda _: None) -> Outcome:
        """Compare the stage's head with the source; the topic's present ends are those that the stage holds.

        `hook(n)` is called before the n-th look at the source's position, so between reading and judging.
        """
        ends = self.events.upto[self.events.name]
        if self.start is not None:
            ends = {0: self.start}
        begun = Reached(self.rig.source.position(), self.events.upto)
        sink = pinned(self.spark or self.rig.spark, self.rig.tools().writer, self.stage, self.head)
        few = partial(apply_support.few_of, {self.events.name: self.events}) if self.in_memory else None
        decoder = Events(settings_for(self.table))
        subject = Subject(
            self.table,
            sink if self.in_memory else replace(sink, small=None),
            Topic(self.table, self.events.name, {0: 0}, MySqlLog(), decoder, reader(self.events), few),
            ends,
            begun.position if self.start is None else self.begun,
            1000,
        )
        watermark = self.rig.source.watermark()
        found = compare_tables(
            self.rig.tools().reader, [subject], judge, lambda: self.reach(hook), watermark=watermark, start=begun
        )
        return found[0]

    def verdict(self, hook: Callable[[int], None] = lambda _: None) -> tuple[Verdict, Outcome]:
        outcome = self.compare(hook)
        return outcome.verdict, outcome


def settings_for(table: Table) -> Any:
    return apply_support.settings(database__include__list=table.schema)


def reader(*topics: apply_support.Topic) -> Callable[[SparkSession, Ranges], DataFrame]:
    """Records of the topics in memory, as Kafka would give them."""

    def read(spark: SparkSession, ranges: Ranges) -> DataFrame:
        rows = [
            (events.name, p, o, None if k is None else bytearray(k), None if v is None else bytearray(v))
            for events in topics
            for wanted in [ranges.get(events.name, {})]
            for p, o, k, v in list(events.records)
            if p in wanted and wanted[p][0] <= o < wanted[p][1]
        ]
        return spark.createDataFrame(rows, RAW_SCHEMA)

    return read


def make_scene(rig: Rig, name: str, *statements: str, in_memory: bool = False) -> Scene:
    """The table made by the statements and read into a stage."""
    rig.run(*statements)
    table = rig.table(name)
    stage, head = rig.snapshot(table)
    # named as Debezium names it: characters that no topic may have become underscores
    topic = apply_support.Topic(table, settings_for(table).topic_of(table.full_name))
    return Scene(rig, table, stage, head, topic, rig.source.position(), in_memory=in_memory)


def counts(outcome: Outcome) -> tuple[int, int, int, int]:
    tally = outcome.tally
    return tally.missing, tally.ghosts, tally.different, tally.unsettled


def order(number: int, **changes: Any) -> dict[str, Any]:
    """A row of `orders` as an event carries it."""
    return {"id": number, "name": f"n{number}", "qty": number % 9, "doc": f'{{"a":1.5,"b":{number}}}', **changes}


def five_changes(made: Scene) -> None:
    """An update, a delete, an insert, a changed key, and a delete with a new insert, in source and topic."""
    made.source("UPDATE orders SET qty = 50 WHERE id = 10")
    made.events.update(order(10), **order(10, qty=50))
    made.source("DELETE FROM orders WHERE id = 11")
    made.events.delete(**order(11))
    made.source("INSERT INTO orders VALUES (2000, 'n2000', 2, NULL)")
    made.events.create(**order(2000, qty=2, doc=None))
    made.source("UPDATE orders SET id = 3000 WHERE id = 12")
    made.events.delete(**order(12))
    made.events.create(**order(12, id=3000))
    made.source("DELETE FROM orders WHERE id = 13")
    made.source("INSERT INTO orders VALUES (13, 'again', 1, '[]')")
    made.events.delete(**order(13))
    made.events.create(**order(13, name="again", qty=1, doc="[]"))
