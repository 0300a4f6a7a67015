"""Debezium MySQL into topics whose consumers nobody knows: the log was purged, and the topics themselves are put right.

A consumer of the test's own rebuilds both tables from the topics alone, as any sink would: it reads committed records, takes
rows by key, and deletes on a delete event or a tombstone. It uses no code of the product's.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import struct
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro

import stack
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.flows.run import RunOptions
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.topics import Topics, TopicsEndpoint, TopicsSettings
from airflow_cdc.sources.mysql import kind as mysql
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from stack import connect, versions
from tests.integration.mariadb import recovered
from tests.integration.mariadb.recovered import connector_config
from tests.integration.recovering import SinkParts
from tests.registered import worker_and_registry
from tests.systems import debezium_hudi
from tests.systems.case import Case
from tests.systems.debezium_formats import MYSQL, NAMES_FOR_AVRO, TABLES
from tests.systems.debezium_hudi import PURGED, DebeziumHudi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake
    from stack.registry import Registry

PARTITIONS: Final = 4
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of no zone, as the columns
WRAPPED: Final = {
    f"{side}.converter{name}": value
    for side in ("key", "value")
    for name, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
}


def meaning(name: str, value: Any, scale: int = 0) -> Any:  # noqa: PLR0911 - a table of types
    """A Connect value of this name as a person would have it in a table."""
    match name.rpartition(".")[2]:
        case "Decimal":
            return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{scale}")  # scaleb would round
        case "Date":
            return (EPOCH + dt.timedelta(days=value)).date()
        case "Timestamp":
            return EPOCH + dt.timedelta(milliseconds=value)
        case "MicroTimestamp":
            return EPOCH + dt.timedelta(microseconds=value)
        case "ZonedTimestamp":
            return dt.datetime.fromisoformat(value).replace(tzinfo=None)
        case "Year":
            return 0 if value == 1900 else value  # YEAR has no 1900
        case "Bits":
            return int.from_bytes(value, "little")
        case "Point" | "Geometry":
            return {"srid": value["srid"] or 0, "wkb": value["wkb"]}
    return int(value) if isinstance(value, bool) else value


def json_value(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of JsonConverter's, by the schema beside it."""
    if value is None:
        return None
    if schema["type"] == "bytes":
        value = base64.b64decode(value)
    elif schema["type"] == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    elif schema["type"] == "struct":
        value = {one["field"]: json_value(one, value[one["field"]]) for one in schema["fields"]}
    return meaning(schema.get("name") or "", value, int((schema.get("parameters") or {}).get("scale", 0)))


def read_json(data: bytes) -> dict[str, Any]:
    """The payload, with the fields' values by their schema."""
    whole = json.loads(data)
    value: dict[str, Any] = json_value({**whole["schema"], "name": ""}, whole["payload"])
    return value


@dataclass(frozen=True)
class Registered:
    """Reads Confluent's format, with the schemas of a registry."""

    url: str

    @cache  # noqa: B019 - as long as the test
    def schema(self, number: int) -> Any:
        with urllib.request.urlopen(f"{self.url}/schemas/ids/{number}", timeout=30) as answer:  # noqa: S310
            return json.loads(json.loads(answer.read())["schema"])

    def __hash__(self) -> int:
        return hash(self.url)

    def read(self, data: bytes) -> dict[str, Any]:
        """A key or a value."""
        schema = self.schema(int.from_bytes(data[1:5], "big"))
        bare: Any = fastavro.schemaless_reader(BytesIO(data[5:]), _without_logical(schema), None)
        value: dict[str, Any] = _avro_value(schema, bare, {})
        return value


def _without_logical(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
    return schema


def _avro_value(schema: Any, value: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        (schema,) = (one for one in schema if one != "null")
    if isinstance(schema, str):
        schema = named.get(schema.rpartition(".")[2], schema)
    if not isinstance(schema, dict):
        return value
    if schema["type"] == "record":
        named[schema["name"]] = schema
        value = value and {one["name"]: _avro_value(one["type"], value[one["name"]], named) for one in schema["fields"]}
        if value is None:  # its parts are named by the schema all the same
            for one in schema["fields"]:
                _avro_value(one["type"], None, named)
    if value is None:
        return None
    return meaning(schema.get("connect.name") or "", value, int(schema.get("scale", 0)))


@dataclass(slots=True)
class Rebuilt:
    """A table as a consumer has it that knows nothing but its topic. `places`: key → the partition of its records."""

    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)


def consumed(bootstrap: str, topic: str, read: Any = read_json, level: str = "read_committed") -> Rebuilt:
    """Read a topic from its beginning to its end, by default committed records alone."""
    from kafka import KafkaConsumer, TopicPartition

    table = Rebuilt()
    with closing(
        KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level, enable_auto_commit=False)
    ) as consumer:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not parts:  # nothing was sent yet
            return table
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < end for part, end in ends.items()):
            for batch in consumer.poll(timeout_ms=500).values():
                for record in batch:
                    _take(table, record, read)
    return table


def _take(table: Rebuilt, record: Any, read: Any) -> None:
    key = json.dumps(read(record.key), sort_keys=True)
    if table.places.setdefault(key, record.partition) != record.partition:
        raise AssertionError(f"records of {key} are in two partitions")
    event = None if record.value is None else read(record.value)
    table.operations.append("tombstone" if event is None else event["op"])
    if event is None or event["op"] == "d":
        table.rows.pop(key, None)
    else:
        table.rows[key] = event["after"]


@dataclass(slots=True)
class IntoTopics(recovered.Followed):
    """Tables of one database of MySQL, whose topics are all that is known."""

    settings: Mapping[str, str] = field(default_factory=dict)
    read: Any = read_json

    def __post_init__(self) -> None:
        server, full = self.server, tuple(f"{self.database}.{table}" for table in self.tables)
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        self.set_up(source, mysql.MySqlSettings("mysql", "m", full), MySqlCodec())
        # how many rows will be deleted is known to nobody before the topics are read
        self.base = replace(self.base, options=RunOptions(approved=True))

    def sink_parts(self) -> SinkParts:
        """See FollowedDatabase: nothing but the topics; the control document is in the lake."""
        return SinkParts(Topics(TopicsEndpoint()), TopicsSettings("topics"), IcebergControlStore(self.lake))

    def follow(self, settings: Mapping[str, str] = {}) -> None:
        """Start the connector on the empty tables."""
        own = {
            "connector.class": connect.DEBEZIUM_CLASS,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "bigint.unsigned.handling.mode": "precise",
            "topic.creation.default.partitions": str(PARTITIONS),
            "topic.creation.default.replication.factor": "1",
        }
        config = connector_config(self.server, self.database, self.kafka, {**own, **self.settings, **settings})
        self.connector.create(self.database, config)
        self.wait_read()

    def apply(self, run_id: str) -> dict[str, Any]:
        """All that the source has committed so far is in the topics."""
        self.wait_read()
        return {}

    def consumed(self, table: str, level: str = "read_committed") -> Rebuilt:
        """What the test's own consumer makes of a topic."""
        return consumed(self.kafka, f"{self.database}.{self.database}.{table}", self.read, level)

    def sink_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """Its rows."""
        return list(self.consumed(table).rows.values())


@dataclass(slots=True)
class DebeziumTopics(DebeziumHudi):
    """The tables of DebeziumHudi, rebuilt from their topics."""

    followed: Any

    def spoil(self) -> None:
        """See System: with the connector stopped, or its events would bring the topics there, too."""
        self.followed.connector.stop(self.followed.database)
        DebeziumHudi.spoil(self)  # a class with slots has no bare super()


@contextmanager
def json_opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumTopics]:
    """A server, a broker and a worker of its own, and a database with both tables."""
    name = "systems_topics"
    with stack.start(folder / "stack", ("kafka", "connect", "mysql"), mysql_settings=MYSQL) as running:
        server, worker = running.mysql["mysql"], running.connect
        if worker is None:
            raise AssertionError("the stack has no Connect")
        debezium_hudi.create(server, name)
        followed = IntoTopics(server, spark, lake, worker.bootstrap, worker.url, folder, name, TABLES, WRAPPED)
        yield DebeziumTopics(followed, f"MySQL {server.version}, Debezium {versions.DEBEZIUM}")


def _confluent(schemas: Registry) -> dict[str, str]:
    return {**NAMES_FOR_AVRO, **schemas.converter("key", "confluent"), **schemas.converter("value", "confluent")}


@contextmanager
def avro_opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumTopics]:
    """And a registry."""
    name = "systems_topics_avro"
    with (
        stack.start(folder / "stack", ("kafka", "mysql"), mysql_settings=MYSQL) as running,
        worker_and_registry(folder / "stack", running) as (worker, schemas),
    ):
        server = running.mysql["mysql"]
        debezium_hudi.create(server, name)
        read = Registered(schemas.confluent).read
        followed = IntoTopics(
            server, spark, lake, worker.bootstrap, worker.url, folder, name, TABLES, _confluent(schemas), read
        )
        about = f"MySQL {server.version}, Debezium {versions.DEBEZIUM}, Apicurio {versions.APICURIO}"
        yield DebeziumTopics(followed, about)


CASES = (
    Case("Debezium MySQL into topics, in JSON", PURGED, json_opened),
    Case("Debezium MySQL into topics, in Avro", PURGED, avro_opened),
)
