"""A MySQL database that Debezium reads and Iceberg's Kafka Connect sink appends to tables of a catalog, on real servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from pyiceberg.exceptions import NoSuchTableError

from airflow_cdc.config.registry import parse_registry
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.kinds import SINKS
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.iceberg_changelog import KIND
from airflow_cdc.transports.kafka.wire import KafkaEndpoint
from stack.connect import ICEBERG_SINK_CLASS
from stack.kafka import quick
from stack.process import wait_until
from tests.integration.jdbc import fed
from tests.integration.jdbc.fed import SCHEMAS, SECONDS, Fed, Servers

if TYPE_CHECKING:
    from airflow_cdc.sinks.iceberg.client import Lake

PLUGINS: Final = ("debezium", "iceberg-sink")
BARE: Final = {name: "false" if name.endswith("enable") else value for name, value in SCHEMAS.items()}
FLAT: Final = {
    "transforms": "flat",
    "transforms.flat.type": "org.apache.iceberg.connect.transforms.DebeziumTransform",
    "iceberg.tables.dynamic-enabled": "true",
    "iceberg.tables.route-field": "_cdc.target",
}
PLACED: Final = {
    "transforms": "place",
    "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.place.offset.field": "kafka_offset",
    "transforms.place.partition.field": "kafka_partition",
}


@contextmanager
def started(folder: Path) -> Iterator[Servers]:
    """The servers, ended with the block. The worker has Debezium's connector and Iceberg's sink."""
    with fed.started(folder, (), PLUGINS, quick("1g")) as servers:
        yield servers


@dataclass(slots=True)
class Logged(Fed):
    """One database, its connector, the sink connector, and the namespace of its name in the catalog.

    `flat`: with DebeziumTransform and records with their schemas; else changes stand as they were sent, without schemas.
    """

    lake: Lake = None  # type: ignore[assignment]  # the fields before it have defaults
    flat: bool = True

    def create(self, *tables: str) -> None:
        """The database with these tables (DDL), and an empty namespace for their logs."""
        self.servers.mysql.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.execute(*tables)
        self.lake.ensure_namespace(self.name)

    def source_config(self) -> dict[str, str]:
        """See Fed."""
        return {**Fed.source_config(self), **self.forms}

    @property
    def forms(self) -> Mapping[str, str]:
        """The converters of both connectors."""
        return SCHEMAS if self.flat else BARE

    @property
    def control(self) -> str:
        """The sink connector's control topic."""
        return f"control-{self.name}"

    def sink_config(self) -> dict[str, str]:
        """See Fed."""
        prefix = f"spark.sql.catalog.{self.lake.name}."
        catalog = {
            name.removeprefix(prefix): value
            for name, value in self.lake.spark_conf().items()
            if name.startswith(prefix)
        }
        tables = ("kinds", "words", "orders")
        routes = FLAT if self.flat else {
            **PLACED,
            "iceberg.tables": ",".join(f"{self.name}.{table}" for table in tables),
            "iceberg.tables.route-field": "source.table",
            **{f"iceberg.table.{self.name}.{table}.route-regex": table for table in tables},
        }  # fmt: skip
        return {
            "connector.class": ICEBERG_SINK_CLASS,
            "tasks.max": "1",
            "topics.regex": rf"{self.name}\.{self.name}\..*",
            "consumer.override.metadata.max.age.ms": "1000",
            "consumer.override.auto.offset.reset": "earliest",
            "iceberg.catalog": self.lake.name,
            **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.control.topic": self.control,
            "iceberg.control.commit.interval-ms": "2000",
            **routes,
            **self.forms,
        }

    def log(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table's log, read by PyIceberg alone; [] before the sink connector has made it."""
        try:
            return list(self.lake.catalog.load_table((self.name, table)).scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []

    def left(self, table: str, key: Sequence[str]) -> list[dict[str, Any]]:
        """The rows that are left of a log: of each key the change with the greatest offset, unless it is a delete."""
        newest: dict[tuple[Any, ...], tuple[int, dict[str, Any] | None]] = {}
        for change in self.log(table):
            if self.flat:
                offset, gone, row = change["_cdc"]["offset"], change["_cdc"]["op"] == "D", change
            else:
                offset, gone = change["kafka_offset"], change["op"] == "d"
                row = change["before"] if gone else change["after"]
            key_of = tuple(row[name] for name in key)
            if key_of not in newest or offset >= newest[key_of][0]:
                newest[key_of] = (offset, None if gone else row)
        return [row for _, row in newest.values() if row is not None]

    def wait_left(self, table: str, key: Sequence[str], rows: int) -> None:
        """Wait until so many rows are left of a log."""

        def there() -> bool | None:
            return True if len(self.left(table, key)) == rows else None

        wait_until(there, timeout=SECONDS, what=f"{rows} rows of {table} in its log")

    def close(self) -> None:
        """Delete both connectors, and the database."""
        self.delete_connectors()
        self.servers.mysql.execute(f"DROP DATABASE {self.name}")


def run_of(logged: Logged, folder: Path, tables: Sequence[str], **policy: Any) -> Run:
    """A run of the pipeline over these tables, its clients opened by their kinds."""
    source, endpoint = logged.source(tables)
    declared = {
        "source": source,
        "connector": {"kind": "debezium", "conn_id": "c", "name": logged.name},
        "transport": {"kind": "kafka", "conn_id": "k"},
        "sink": {"kind": "iceberg_changelog", "catalog": logged.lake.name, "connector": logged.sink},
        "control": {"kind": "sql", "conn_id": "s"},
        "policy": {"hold": {"mode": "off"}, "standstill": "300s", **policy},
    }
    # configuration does not take the kind yet
    if KIND.name not in SINKS.built_in:
        SINKS.built_in = (*SINKS.built_in, KIND.name)
    pipeline = parse_registry(yaml.safe_dump({"pipelines": {logged.name: declared}}), "test")[logged.name]
    endpoints = Endpoints(
        pipeline.source.at(endpoint),
        ConnectEndpoint(logged.servers.worker.url),
        KafkaEndpoint(logged.servers.bootstrap),
        IcebergEndpoint(logged.lake.name, dict(logged.lake._properties)),
        control=SqlEndpoint("sqlite", str(folder / "control.db"), options={"timeout": "30"}),
    )
    return make_run(pipeline, endpoints, "run-1", str(folder / "reports"))
