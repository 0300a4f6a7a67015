"""Debezium's events in other forms: in Avro, key and value, with a registry; and flattened, with what keeps their place.

MySQL's log was purged, PostgreSQL's slot dropped. The tables and how they are compared are those of other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import stack
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.sources.mysql import kind as mysql
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from stack import connect, versions
from stack.mysql import MySqlSettings
from tests.integration.mariadb import recovered
from tests.integration.mariadb.recovered import connector_config
from tests.integration.postgres.recovered import Followed as FollowedPostgres
from tests.registered import worker_and_registry
from tests.systems import debezium_hudi, debezium_postgres
from tests.systems.case import Case
from tests.systems.debezium_hudi import PURGED, DebeziumHudi
from tests.systems.debezium_postgres import DebeziumPostgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake
    from stack.registry import Registry

NAMES_FOR_AVRO: Final = {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}
# as docs/how-to/connect-variants.md says
FLATTENED: Final = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    "transforms.unwrap.add.fields": "op,source.ts_ms,source.gtid,source.server_id,source.file,source.pos,source.row",
}


@dataclass(slots=True)
class IntoLake(recovered.Followed):
    """Tables of one database of MySQL."""

    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        server, full = self.server, tuple(f"{self.database}.{table}" for table in self.tables)
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        self.set_up(source, mysql.MySqlSettings("mysql", "m", full), MySqlCodec())

    def follow(self, settings: Mapping[str, str] = {}) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        own = {
            "connector.class": connect.DEBEZIUM_CLASS,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
        }
        config = connector_config(self.server, self.database, self.kafka, {**own, **self.settings, **settings})
        self.connector.create(self.database, config)
        self.wait_read()
        self.mirror(self.database)

    def sink_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """What the sink's table holds."""
        rows: Sequence[Mapping[str, Any]] = self.lake.read_arrow(self.database, sink_name(table)).to_pylist()
        return rows


@dataclass(slots=True)
class DebeziumMySql(DebeziumHudi):
    """The tables of DebeziumHudi, mirrored into Iceberg."""

    followed: Any


def in_avro(schemas: Registry, form: str = "confluent") -> dict[str, str]:
    """The connector's settings by which key and value are Avro."""
    return {**NAMES_FOR_AVRO, **schemas.converter("key", form), **schemas.converter("value", form)}


MYSQL: Final = (MySqlSettings(max_binlog_size=4194304),)
TABLES: Final = ("kinds", "words")


@contextmanager
def avro_opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumMySql]:
    """A server, a broker, a worker and a registry of its own, and a database with both tables."""
    name = "systems_avro"
    with (
        stack.start(folder / "stack", ("kafka", "mysql"), mysql_settings=MYSQL) as running,
        worker_and_registry(folder / "stack", running) as (worker, schemas),
    ):
        server = running.mysql["mysql"]
        debezium_hudi.create(server, name)
        followed = IntoLake(server, spark, lake, worker.bootstrap, worker.url, folder, name, TABLES, in_avro(schemas))
        about = f"MySQL {server.version}, Debezium {versions.DEBEZIUM}, Apicurio {versions.APICURIO}"
        yield DebeziumMySql(followed, about)


@contextmanager
def flattened_opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumMySql]:
    """A server, a broker and a worker of its own, and a database with both tables."""
    name = "systems_flattened"
    with stack.start(folder / "stack", ("kafka", "connect", "mysql"), mysql_settings=MYSQL) as running:
        server, worker = running.mysql["mysql"], running.connect
        if worker is None:
            raise AssertionError("the stack has no Connect")
        debezium_hudi.create(server, name)
        followed = IntoLake(server, spark, lake, worker.bootstrap, worker.url, folder, name, TABLES, FLATTENED)
        yield DebeziumMySql(followed, f"MySQL {server.version}, Debezium {versions.DEBEZIUM}")


@contextmanager
def postgres_opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumPostgres]:
    """A server, a broker, a worker and a registry of its own, and a database with both tables. Ids are in headers."""
    name = "systems_avro_pg"
    with (
        stack.start(folder / "stack", ("kafka", "postgres")) as running,
        worker_and_registry(folder / "stack", running) as (worker, schemas),
    ):
        server, tables = running.postgres["postgres"], ("kinds", "events")
        debezium_postgres.create(server, name)
        followed = FollowedPostgres(server, spark, lake, worker.bootstrap, worker.url, folder, name, tables)
        ((version,),) = server.execute("SHOW server_version")
        about = f"PostgreSQL {version}, Debezium {versions.DEBEZIUM}, Apicurio {versions.APICURIO}"
        settings = {**debezium_postgres.SETTINGS, **in_avro(schemas, "headers")}
        yield DebeziumPostgres(followed, about, settings)


CASES = (
    Case("Debezium MySQL in Avro", PURGED, avro_opened),
    Case("Debezium PostgreSQL in Avro", debezium_postgres.CASE.failure, postgres_opened),
    Case("Debezium MySQL flattened", PURGED, flattened_opened),
)
