"""A source and its published mirror, with topics in memory: what the tests of repair, nightly check and backfill stand on."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.spark_apps.adapters import kafka
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from airflow_cdc.spark_apps.snapshot.read import read_table
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from airflow_cdc.transports.kafka.wire import Record
from tests import apply_support
from tests.integration.rig import Rig

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.ports import Ranges

DDL = TopicState("p", "ddl-id", {0: (0, 0)})  # where the connector tells of every DDL: there was none
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"


@dataclass(slots=True)
class Mirror:
    """One database, its topics, and its sink tables in a namespace of the same name."""

    rig: Rig
    folder: Path
    topics: dict[str, apply_support.Topic] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def opened(self, monkeypatch: pytest.MonkeyPatch) -> Mirror:
        """Let drivers read the topics in memory; the pipeline has had one recovery."""
        monkeypatch.setattr(kafka, "read_topics", lambda spark, _endpoint, ranges, **_: self.read(spark, ranges))
        monkeypatch.setattr(kafka, "read_few", lambda _endpoint, *wanted: apply_support.few_of(self.topics, *wanted))
        return self

    def table(self, name: str, *statements: str) -> Table:
        """A table made by the statements, copied into the sink and published, stamped at its topic's beginning."""
        self.rig.run(*statements)
        table = self.rig.table(name)
        topic = self.topics[f"p.{table.full_name}"] = apply_support.Topic(table)
        offsets = {
            topic.name: TopicOffsets(topic.id, {0: 0}),
            DDL.name: TopicOffsets(DDL.id, {0: 0}),
        }
        reading = self.rig.reading(table, self.rig.source.watermark())
        reading = replace(reading, stamp=replace(reading.stamp, epoch=0, offsets=offsets))
        head = read_table(self.rig.tools(), reading, Progress({table.full_name: 0}))
        self.rig.lake.publish(reading.stage, head, reading.stage.base_head)
        self.rig.lake.drop_stage(reading.stage)
        return table

    def topic(self, table: Table) -> apply_support.Topic:
        return self.topics[f"p.{table.full_name}"]

    def run(self, run_id: str = "run-1", tables: Sequence[str] = (), policy: Any = None, **options: Any) -> Run:
        """A run over all tables; `tables` (without schema) are those that its options name."""
        names = [t.table.name for t in self.topics.values() if t.table.schema == self.rig.schema]
        made = self.rig.recovery_run(names, self.folder, FakeConnect(self), FakeTransport(self))
        pipeline = replace(made.pipeline, policy=policy or made.pipeline.policy)
        asked = {**options, **({"tables": [f"{self.rig.schema}.{t}" for t in tables]} if tables else {})}
        return replace(made, pipeline=pipeline, run_id=run_id, options=RunOptions.from_json(asked))

    def main(self, table: Table) -> str:
        """The sink table in Spark SQL."""
        return f"`{self.rig.lake.name}`.`{self.rig.schema}`.`{table.name}`"

    def interfere(self, table: Table, *statements: str) -> None:
        """Change main behind everybody's back; {} stands for it."""
        for statement in statements:
            self.rig.spark.sql(statement.replace("{}", self.main(table)))

    def applied(self, table: Table, *statements: str) -> None:
        """As another writer: change main, and stamp it with the topic's present end."""
        self.interfere(table, *statements)
        stamp = self.rig.lake.stamp(self.rig.schema, table.name)
        assert stamp is not None
        topic = self.topic(table)
        seen = {topic.name: TopicOffsets(topic.id, {0: topic.state.partitions[0][1]})}
        append_nothing(self.rig.spark, self.main(table), replace(stamp, offsets={**stamp.offsets, **seen}).to_summary())

    def head(self, table: Table) -> int | None:
        return self.rig.lake.head(self.rig.schema, table.name)

    def rows(self, table: Table) -> list[tuple[Any, ...]]:
        """Main's rows, read without Spark; moments are in UTC and have no zone."""
        found = self.rig.lake.read_arrow(self.rig.schema, table.name).to_pylist()
        return sorted((tuple(map(without_zone, row.values())) for row in found), key=repr)

    def source_rows(self, table: Table) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.rig.run(f"SELECT * FROM {table.name}")), key=repr)

    def stages(self) -> list[str]:
        return [stage.label for stage in self.rig.lake.stages(self.rig.schema)]

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """Records of the topics, as Kafka would give them."""
        rows = [
            (name, p, o, None if k is None else bytearray(k), None if v is None else bytearray(v))
            for name, wanted in ranges.items()
            for p, o, k, v in list(self.topics[name].records)
            if p in wanted and wanted[p][0] <= o < wanted[p][1]
        ]
        return spark.createDataFrame(rows, RAW_SCHEMA)


def without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class FakeConnect:
    """A connector that has always read everything."""

    codec = MySqlCodec()

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror

    def raw_config(self, _name: str) -> dict[str, str]:
        return {**apply_support.CONFIG, "database.include.list": self.mirror.rig.schema}

    def committed_offset(self, _name: str, _server: str) -> dict[str, Any]:
        with self.mirror.lock:  # a change stands in source and topic, or in neither
            at = mysql_position(self.mirror.rig.source.position().position)
        return {"file": at.file, "pos": at.pos, "gtids": str(at.gtids), "ts_sec": 1}


class FakeTransport:
    """Topics in memory."""

    endpoint = KafkaEndpoint("127.0.0.1:1")

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror

    def topic_states(self, names: Sequence[str]) -> Mapping[str, TopicState]:
        with self.mirror.lock:
            known = {DDL.name: DDL, **{name: topic.state for name, topic in self.mirror.topics.items()}}
            return {name: known[name] for name in names if name in known}

    gathered = topic_states

    def records(self, _topic: str, _ranges: Mapping[int, tuple[int, int]]) -> list[Record]:
        """No definition changes behind the back of these tests."""
        return []
