"""What is left of a change log in Iceberg, folded by Spark: of each key the change with the greatest offset."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.table import Table
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg_changelog.client import ChangelogSink
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.iceberg_changelog import ChangelogReader
from stack.connect import DEBEZIUM_CLASS, ICEBERG_SINK_CLASS
from tests.integration.changelog.logged import FLAT, PLACED
from tests.unit.tables import column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE: Final = Table(
    "shop", "orders", (column("id", "bigint", nullable=False), column("v", "varchar(20)", ordinal=2)), ("id",)
)
CONNECTOR: Final = {
    "connector.class": DEBEZIUM_CLASS,
    "topic.prefix": "s",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
CDC: Final = "struct<op: string, offset: bigint, source: string>"
IMAGE: Final = "struct<id: bigint, v: string>"
SENT: Final = "op string, source struct<db: string, `table`: string>, kafka_offset bigint, kafka_partition int"


@dataclass(slots=True)
class Log:
    """A log in a namespace of its own, and how it is read."""

    spark: SparkSession
    lake: Lake
    properties: dict[str, str]
    namespace: str

    def make(self, columns: str, *rows: str) -> None:
        """The log with these columns and rows (SQL), each row in a commit of its own."""
        self.spark.sql(f"CREATE TABLE lake.{self.namespace}.orders ({columns}) USING iceberg")
        for row in rows:
            self.append(row)

    def append(self, row: str) -> None:
        """One more commit."""
        self.spark.sql(f"INSERT INTO lake.{self.namespace}.orders {row}")

    def flat(self, *changes: tuple[int | None, str, int, str], source: str = "shop.orders") -> None:
        """A flat log of changes (offset, op, id, v)."""
        columns = f"id bigint, v string, _cdc {CDC}"
        self.make(columns, *(self.change(*one, source=source) for one in changes))

    def change(self, offset: int | None, op: str, key: int, value: str, source: str = "shop.orders") -> str:
        """A row of a flat log."""
        at = "NULL" if offset is None else f"{offset}L"
        return f"SELECT {key}L, '{value}', named_struct('op', '{op}', 'offset', {at}, 'source', '{source}')"

    def left(self, transforms: dict[str, str], end: int = 100) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        settings = {
            "topics": "s.shop.orders",
            "iceberg.tables": f"{self.namespace}.orders",
            "iceberg.tables.evolve-schema-enabled": "true",
            "connector.class": ICEBERG_SINK_CLASS,
            **{name: value for name, value in transforms.items() if name.startswith("transforms")},
        }
        feeder: Any = SimpleNamespace(name="log", settings=lambda: settings)
        sink = ChangelogSink(IcebergEndpoint("lake", self.properties), feeder)
        reader = ChangelogReader(sink, Events(ConnectorSettings.from_config(CONNECTOR)))
        rows = reader.rows(self.spark, TABLE, "s.shop.orders", lambda: {0: 0, 1: end})
        return sorted(tuple(row) for row in rows.collect())


@pytest.fixture
def log(spark: SparkSession, lake_properties: dict[str, str]) -> Iterator[Log]:
    lake, namespace = Lake("lake", lake_properties), f"l_{uuid.uuid4().hex[:8]}"
    lake.ensure_namespace(namespace)
    yield Log(spark, lake, lake_properties, namespace)
    lake.close()


def sent(op: str, offset: int, partition: int, *, after: str = "NULL", before: str | None = None) -> str:
    """A row of a log of changes as they were sent; `before` None: the log has no such column."""
    source = "named_struct('db', 'shop', 'table', 'orders')"
    images = [f"CAST({one} AS {IMAGE})" for one in (after, before) if one is not None]
    return f"SELECT '{op}', {source}, {offset}L, {partition}, {', '.join(images)}"


def image(key: int, value: str) -> str:
    return f"named_struct('id', {key}L, 'v', '{value}')"


def test_of_each_key_the_change_with_the_greatest_offset_is_left_unless_it_is_a_delete(log: Log) -> None:
    log.flat((0, "I", 1, "a"), (3, "U", 1, "b"), (4, "D", 2, "x"), (1, "I", 2, "x"), (2, "I", 3, "y"), (2, "I", 3, "y"))
    log.append(log.change(90, "U", 1, "of another table", source="shop.words"))
    assert log.left(FLAT) == [(1, "b"), (3, "y")]
    # a deleted row came back
    log.append(log.change(9, "I", 2, "again"))
    assert log.left(FLAT) == [(1, "b"), (2, "again"), (3, "y")]


def test_changes_as_they_were_sent_are_folded_before_and_after_the_first_delete(log: Log) -> None:
    log.make(
        f"{SENT}, after {IMAGE}", sent("r", 0, 0, after=image(1, "a")), sent("u", 1, 0, after=image(1, "b")),
        sent("c", 0, 1, after=image(2, "c")),
    )  # fmt: skip
    assert log.left(PLACED) == [(1, "b"), (2, "c")]
    log.spark.sql(f"ALTER TABLE lake.{log.namespace}.orders ADD COLUMN before {IMAGE}")
    log.append(sent("d", 1, 1, before=image(2, "c")))
    assert log.left(PLACED) == [(1, "b")]


def test_a_column_that_no_change_had_a_value_of_is_null(log: Log) -> None:
    log.make(f"id bigint, _cdc {CDC}", "SELECT 1L, named_struct('op', 'I', 'offset', 0L, 'source', 'shop.orders')")
    assert log.left(FLAT) == [(1, None)]


def scattered(log: Log) -> dict[str, str]:
    log.make(f"{SENT}, after {IMAGE}", *(sent("u", 5, part, after=image(1, "a")) for part in (0, 1)))
    return PLACED


def emptied(log: Log) -> dict[str, str]:
    log.make(f"{SENT}, after {IMAGE}", sent("r", 0, 0, after=image(1, "a")), sent("t", 1, 0))
    return PLACED


def placeless(log: Log) -> dict[str, str]:
    log.flat((0, "I", 1, "a"), (None, "I", 2, "b"))
    return FLAT


def made_anew(log: Log) -> dict[str, str]:
    log.flat((0, "I", 1, "a"), (100, "I", 2, "b"))
    return FLAT


def unreadable(log: Log) -> dict[str, str]:
    log.make(
        f"id bigint, v bigint, _cdc {CDC}",
        "SELECT 1L, 7L, named_struct('op', 'I', 'offset', 0L, 'source', 'shop.orders')",
    )
    return FLAT


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (scattered, "several partitions"),
        (emptied, "a TRUNCATE"),
        (placeless, "1 of its rows do not say at which offset"),
        (made_anew, r"offset 100, and the topic ends at 100"),
        (unreadable, "last change can't be read: the row's column v"),
    ],
)
def test_a_log_that_does_not_say_what_is_left_is_refused(
    log: Log, make: Callable[[Log], dict[str, str]], why: str
) -> None:
    transforms = make(log)
    with pytest.raises(SinkError, match=why):
        log.left(transforms)
