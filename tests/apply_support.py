"""Debezium's records made by hand, and stages to apply them to: for tests that need no connector."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from airflow_cdc.spark_apps.adapters.iceberg_fit import fit_stage
from airflow_cdc.spark_apps.adapters.iceberg_letters import IcebergLetters
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.adapters.kafka import nonempty
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget
from airflow_cdc.spark_apps.driver.session import SessionOnDemand
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from airflow_cdc.spark_apps.ports import Bounds, Ranges
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.transports.kafka.wire import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UUID = "75ac0c48-0000-11f0-8000-000000000001"
CONFIG = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "p",
    "database.include.list": "shop",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.replace.null.with.default": "false",
}


def column(name: str, kind: str = "varchar(40)", *, nullable: bool = True, **more: Any) -> Column:
    """A column of `kind` as MySQL writes it; the ordinal is set by `table`."""
    data_type = kind.partition("(")[0].split()[0]
    inside = kind.partition("(")[2].partition(")")[0]
    sizes: dict[str, Any] = {}
    if data_type == "decimal":
        precision, scale = inside.split(",")
        sizes = {"precision": int(precision), "scale": int(scale)}
    elif data_type in {"varchar", "char"}:
        sizes = {"char_length": int(inside), "charset": "utf8mb4"}
    elif data_type in {"datetime", "timestamp", "time"}:
        sizes = {"fsp": int(inside or 0)}
    return mysql_column(name, 1, MySqlWords(data_type, kind, **{**sizes, **more}), nullable=nullable)


def table(name: str, columns: Sequence[Column], key: tuple[str, ...] = ()) -> Table:
    """A table of the schema shop with its columns in this order."""
    from dataclasses import replace

    return Table("shop", name, tuple(replace(c, ordinal=at) for at, c in enumerate(columns, 1)), key)


ITEMS = table("items", [column("id", "bigint", nullable=False), column("name"), column("qty", "int")], ("id",))
EVENTS = table("events", [column("kind"), column("n", "int")])


def settings(**changes: str) -> ConnectorSettings:
    """The connector's settings; `__` in a name stands for a dot."""
    return ConnectorSettings.from_config({**CONFIG, **{k.replace("__", "."): v for k, v in changes.items()}})


@dataclass(slots=True)
class Topic:
    """A topic in memory; every event moves the source's position on."""

    table: Table
    name: str = ""
    id: str = "topic-id"
    partitions: int = 1
    gtids: bool = True
    schemas: bool = False
    records: list[tuple[int, int, bytes | None, bytes | None]] = field(default_factory=list)
    gno: int = 100
    pos: int = 1000
    file: str = "mysql-bin.000003"
    server_id: int = 1
    ts_ms: int = 1_800_000_000_000
    begin: int = 0
    ends: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.name or f"p.{self.table.full_name}"

    def raw(self, key: bytes | None, value: bytes | None, partition: int = 0) -> int:
        """Append bytes as they are; returns the offset."""
        offset = self.ends.get(partition, self.begin)
        self.ends[partition] = offset + 1
        self.records.append((partition, offset, key, value))
        return offset

    def source(self, **changes: Any) -> dict[str, Any]:
        self.pos += 100
        place = {"file": self.file, "pos": self.pos, "row": 0, "server_id": self.server_id, "ts_ms": self.ts_ms}
        gtid = f"{UUID}:{self.gno}" if self.gtids else None
        named = {"db": self.table.schema, "table": self.table.name, "gtid": gtid, "snapshot": None}
        return {"version": "3.6.1.Final", "connector": "mysql", **place, **named, **changes}

    def event(
        self,
        op: str,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
        *,
        key: Mapping[str, Any] | None = None,
        partition: int = 0,
        source: Mapping[str, Any] | None = None,
        same_transaction: bool = False,
    ) -> dict[str, Any]:
        """Append a change; returns its source block, so that it can be repeated."""
        self.gno += not same_transaction
        place = dict(source or self.source())
        image = after or before or {}
        made = key or {name: image[name] for name in self.table.key if name in image}
        body = {"before": before, "after": after, "source": place, "op": op, "ts_ms": place["ts_ms"]}
        self.raw(self._wrap(made) if made else None, self._wrap(body), partition)
        return place

    def create(self, **after: Any) -> dict[str, Any]:
        return self.event("c", None, after)

    def update(self, before: Mapping[str, Any], **after: Any) -> dict[str, Any]:
        return self.event("u", before, after)

    def delete(self, *, tombstone: bool = True, **before: Any) -> dict[str, Any]:
        place = self.event("d", before, None)
        if tombstone and self.table.key:
            self.tombstone(**{name: before[name] for name in self.table.key})
        return place

    def tombstone(self, **key: Any) -> None:
        self.raw(self._wrap(key), None)

    def truncate(self) -> dict[str, Any]:
        return self.event("t", None, None)

    def _wrap(self, body: Mapping[str, Any]) -> bytes:
        return json.dumps({"schema": {"type": "struct"}, "payload": body} if self.schemas else body).encode()

    @property
    def state(self) -> TopicState:
        ends = {p: self.ends.get(p, self.begin) for p in range(self.partitions)}
        return TopicState(self.name, self.id, {p: (self.begin, end) for p, end in ends.items()})

    @property
    def upto(self) -> dict[str, dict[int, int]]:
        return {self.name: {p: end for p, (_, end) in self.state.partitions.items()}}


def no_session() -> tuple[SparkSession, list[str]]:
    """A session for what must work without one, and the threads that asked for it all the same."""
    asked = list[str]()

    def make() -> SparkSession:
        asked.append(threading.current_thread().name)
        raise AssertionError("a session of Spark was asked for")

    return SessionOnDemand.of(make), asked


def few_of(topics: Mapping[str, Topic], topic: str, bounds: Bounds, most_bytes: int) -> list[Record] | None:
    """Records of topics in memory, as transports.kafka.wire.read_few gives them."""
    within = [
        one for one in topics[topic].records if one[0] in bounds and bounds[one[0]][0] <= one[1] < bounds[one[0]][1]
    ]
    size = sum(len(key or b"") + len(value or b"") for _, _, key, value in within)
    return [Record(*one) for one in within] if size <= most_bytes else None


@dataclass(slots=True)
class Bench:
    """A lake with targets and stages for tests."""

    spark: SparkSession
    lake: Lake
    namespace: str = field(default_factory=lambda: f"s_{uuid.uuid4().hex[:8]}")
    pipeline: str = field(default_factory=lambda: f"p_{uuid.uuid4().hex[:8]}")
    reads: list[Ranges] = field(default_factory=list)

    def target(
        self, made: Table, stamp: Stamp | None, rows: Sequence[tuple[Any, ...]] = (), label: str = "t_1"
    ) -> ApplyTarget[Stage]:
        """A target with `rows`, its head stamped, and a fresh stage of it."""
        columns = [(c.name, sink_type(c)) for c in made.mirrored]
        self.lake.ensure_table(self.namespace, made.name, columns)
        name = f"`{self.lake.name}`.`{self.namespace}`.`{made.name}`"
        if rows:
            schema = ", ".join(f"`{c}` {t}" for c, t in columns)
            self.spark.createDataFrame(list(rows), schema).writeTo(name).append()
        if stamp is not None:
            append_nothing(self.spark, name, stamp.to_summary())
        return ApplyTarget(made, self.lake.stage(self.namespace, made.name, label))

    def context(
        self,
        topics: Sequence[Topic],
        epoch: int = 1,
        made: ConnectorSettings | None = None,
        *,
        in_memory: bool = False,
        **more: Any,
    ) -> ApplyContext:
        """A context that reads the topics in memory. `in_memory`: few records are applied without Spark."""

        def read(spark: SparkSession, ranges: Ranges) -> DataFrame:
            self.reads.append(ranges)
            wanted = nonempty(ranges)
            rows = [
                (t.name, p, o, None if k is None else bytearray(k), None if v is None else bytearray(v))
                for t in topics
                for p, o, k, v in t.records
                if t.name in wanted and p in wanted[t.name] and wanted[t.name][p][0] <= o < wanted[t.name][p][1]
            ]
            return spark.createDataFrame(rows, RAW_SCHEMA)

        def few(topic: str, bounds: Bounds, most_bytes: int) -> list[Record] | None:
            return few_of({t.name: t for t in topics}, topic, bounds, most_bytes)

        states = {t.name: t.state for t in topics}
        return ApplyContext(
            self.spark,
            IcebergWriter(self.lake),
            IcebergLetters(self.lake, self.pipeline),
            Epochs(epoch),
            MySqlLog(),
            Events(made or settings()),
            states,
            read,
            lambda _topic, _ranges: (),
            few if in_memory else None,
            **more,
        )

    def rows(self, stage: Stage) -> list[tuple[Any, ...]]:
        """The stage's rows, sorted."""
        found = self.lake.read_arrow(*stage.identifier).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)


def stamp_at(topic: Topic, offset: int | None = 0, epoch: int = 1, watermark: Mapping[str, Any] | None = None) -> Stamp:
    """A stamp whose next offset in every partition is `offset`; None: the topic is not in it."""
    offsets = (
        {} if offset is None else {topic.name: TopicOffsets(topic.id, dict.fromkeys(range(topic.partitions), offset))}
    )
    return Stamp(epoch, watermark, offsets)


def watermark(gtids: str | None = f"{UUID}:1-50", file: str = "mysql-bin.000003", pos: int = 500) -> dict[str, Any]:
    """W as JSON."""
    taken = "2026-11-21T10:00:00.000+00:00"
    position = {"kind": "mysql", "file": file, "pos": pos, "gtids": gtids, "server_id": 1}
    return {"format": 2, "position": position, "server": UUID, "taken_at": taken}


__all__ = [
    "EVENTS",
    "ITEMS",
    "Bench",
    "Topic",
    "column",
    "fit_stage",
    "reduce",
    "settings",
    "stamp_at",
    "table",
    "watermark",
]
