"""A MySQL database that Debezium reads and Debezium's JDBC sink copies into a PostgreSQL, on real servers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import yaml

import stack
from airflow_cdc.config.registry import parse_registry
from airflow_cdc.connectors.kafka_connect.client import KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint
from airflow_cdc.sinks.topics import TopicsEndpoint
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.transports.kafka.client import KafkaTransport
from airflow_cdc.transports.kafka.wire import KafkaEndpoint
from stack import connect
from stack.connect import DEBEZIUM_CLASS, ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer
from stack.process import wait_until
from stack.shop import connectors

SECONDS: Final = 240.0
PLUGINS: Final = ("debezium", "debezium-postgres", "debezium-jdbc")
SCHEMAS: Final = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of such a path."""

    running: stack.Stack
    worker: ConnectWorker

    @property
    def mysql(self) -> MySqlServer:
        """The source, or the database of the copies."""
        return self.running.mysql["mysql"]

    @property
    def postgres(self) -> PostgresServer:
        """The other one, where there is one."""
        return self.running.postgres["postgres"]

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        if self.running.kafka is None:
            raise AssertionError("the stack has no Kafka")
        return self.running.kafka.bootstrap


@contextmanager
def started(
    folder: Path,
    targets: tuple[str, ...] = ("postgres",),
    plugins: tuple[str, ...] = PLUGINS,
    java: tuple[str, ...] = connect.QUICK,
) -> Iterator[Servers]:
    """The servers, ended with the block. `plugins`: of the worker, by default both of Debezium's connectors."""
    settings = (MySqlSettings(max_binlog_size=4194304),)
    with stack.start(folder / "stack", ("kafka", "mysql", *targets), mysql_settings=settings) as running:
        if running.kafka is None:
            raise AssertionError("the stack has no Kafka")
        worker = connect.start_connect(
            folder / "stack", running.logs, running.kafka.bootstrap, plugins=plugins, java=java
        )
        running.others["connect"] = worker.child
        with connect.ready(worker):
            yield Servers(running, worker)


@dataclass(slots=True)
class Fed:
    """One database, its connector, the sink connector, and the schema of its name in the target."""

    servers: Servers
    name: str = field(default_factory=lambda: f"j_{uuid.uuid4().hex[:8]}")

    @property
    def sink(self) -> str:
        """The sink connector's name."""
        return f"{self.name}-sink"

    def create(self, *tables: str) -> None:
        """The database with these tables (DDL), and an empty schema for their copies."""
        self.servers.mysql.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")
        self.execute(*tables)
        connectors.make_schema(self.servers.postgres, self.name)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """SQL at the source, in its database and in UTC."""
        rows: list[tuple[Any, ...]] = self.servers.mysql.execute(
            f"USE {self.name}", "SET SESSION time_zone = '+00:00'", *statements
        )
        return rows

    def target(self, *statements: str) -> list[tuple[Any, ...]]:
        """SQL at the target, in the copies' schema and in UTC."""
        here = (f"SET search_path TO {self.name}", "SET TIME ZONE 'UTC'")
        return self.servers.postgres.execute(*here, *statements)

    def follow(self, settings: Mapping[str, str] = {}) -> None:
        """Start the source connector."""
        self.servers.worker.call("PUT", f"/connectors/{self.name}/config", {**self.source_config(), **settings})

    def source_config(self) -> dict[str, str]:
        """The source connector's configuration."""
        server = self.servers.mysql
        return {
            "connector.class": DEBEZIUM_CLASS,
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(90000 + int(uuid.uuid4().hex[:4], 16)),
            "database.include.list": self.name,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": self.name,
            "snapshot.mode": "initial",
            "include.schema.changes": "true",
            "bigint.unsigned.handling.mode": "precise",
            "decimal.handling.mode": "precise",
            "schema.history.internal.kafka.bootstrap.servers": self.servers.bootstrap,
            "schema.history.internal.kafka.topic": f"history-{self.name}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "value.converter.replace.null.with.default": "false",
            "heartbeat.interval.ms": "500",
            "enable.time.adjuster": "false",
            **SCHEMAS,
        }

    @property
    def second(self) -> str:
        """The name of another sink connector, which a test may make."""
        return f"{self.name}-two"

    def topic(self, table: str) -> str:
        """A table's topic."""
        return f"{self.name}.{self.name}.{table}"

    def send(self, table: str, key: bytes, value: bytes | None) -> None:
        """A record of the test's own into a table's topic."""
        KafkaTransport(KafkaEndpoint(self.servers.bootstrap)).send(self.topic(table), key, value)

    def feed(self, settings: Mapping[str, str] = {}, *, name: str = "") -> None:
        """Start the sink connector, or change its settings. `name`: another one."""
        made = {**self.sink_config(), **settings}
        self.servers.worker.call("PUT", f"/connectors/{name or self.sink}/config", made)

    def sink_config(self) -> dict[str, str]:
        """The sink connector's configuration; "" leaves one of them out."""
        topics = rf"{self.name}\.{self.name}\..*"
        return connectors.jdbc_sink(self.servers.postgres, self.name, topics, **{"tasks.max": "1"}, **SCHEMAS)

    def stop_source(self) -> None:
        """Stop the source connector, once it has committed all that it read."""
        connect = KafkaConnect(ConnectEndpoint(self.servers.worker.url))
        connect.stop(self.name)

    def failure(self) -> str:
        """Resume the source connector; what its task says once it has failed."""
        worker = self.servers.worker
        worker.call("PUT", f"/connectors/{self.name}/resume")

        def trace() -> str | None:
            tasks = worker.call("GET", f"/connectors/{self.name}/status")["tasks"]
            return next((task["trace"] for task in tasks if task["state"] == "FAILED"), None)

        return str(wait_until(trace, timeout=SECONDS, what="the connector to fail"))

    def purge(self) -> None:
        """Remove all but the newest file of the source's log."""
        self.execute("FLUSH BINARY LOGS")
        ((newest, *_),) = self.execute("SHOW MASTER STATUS")
        self.execute(f"PURGE BINARY LOGS TO '{newest}'")

    def source(self, tables: Sequence[str]) -> tuple[Mapping[str, Any], Any]:
        """The source as pipelines.yaml has it, with these tables, and its endpoint."""
        server = self.servers.mysql
        declared = {"kind": "mysql", "conn_id": "m", "tables": [f"{self.name}.{table}" for table in tables]}
        return declared, MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)

    @property
    def target_kind(self) -> str:
        """The kind of the target's database."""
        return "postgres"

    def endpoint(self) -> JdbcEndpoint:
        """The target as the product is given it."""
        server = self.servers.postgres
        own = PostgresEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)
        return JdbcEndpoint(("postgres",), asdict(own), own.where, own.dataset)

    @property
    def no_table(self) -> type[Exception]:
        """What the target's client raises for a table that the sink connector has not made yet."""
        return psycopg.errors.UndefinedTable

    def wait_target(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        """Wait until a query of the target gives these rows."""

        def there() -> bool | None:
            try:
                return True if self.target(sql) == rows else None
            except self.no_table:
                return None

        wait_until(there, timeout=SECONDS, what=f"{sql} to give {len(rows)} rows")

    def delete_connectors(self) -> None:
        """Delete the source's connector, and each that feeds the target."""
        for name in self.servers.worker.call("GET", "/connectors"):
            if name.startswith(self.name):
                self.servers.worker.call("DELETE", f"/connectors/{name}")

    def close(self) -> None:
        """Delete both connectors, and the schema of the copies."""
        self.delete_connectors()
        self.servers.postgres.execute(f"DROP SCHEMA {self.name} CASCADE")
        self.servers.mysql.execute(f"DROP DATABASE {self.name}")


def run_of(
    fed: Fed, folder: Path, tables: Sequence[str], *, database: str = "", consumers: bool = False, **policy: Any
) -> Run:
    """A run of the pipeline over these tables, its clients opened by their kinds.

    `database`: as the sink's settings name it. `consumers`: nobody knows who reads the topics.
    """
    source, endpoint = fed.source(tables)
    kind = database or fed.target_kind
    declared = {
        "source": source,
        "connector": {"kind": "debezium", "conn_id": "c", "name": fed.name},
        "transport": {"kind": "kafka", "conn_id": "k"},
        "sink": {"kind": "topics"}
        if consumers
        else {"kind": "jdbc", "conn_id": "t", "database": kind, "connector": fed.sink},
        "control": {"kind": "sql", "conn_id": "s"},
        "policy": {"hold": {"mode": "off"}, "standstill": "300s", **policy},
    }
    pipeline = parse_registry(yaml.safe_dump({"pipelines": {fed.name: declared}}), "test")[fed.name]
    endpoints = Endpoints(
        pipeline.source.at(endpoint),
        ConnectEndpoint(fed.servers.worker.url),
        KafkaEndpoint(fed.servers.bootstrap),
        TopicsEndpoint() if consumers else pipeline.sink.at(fed.endpoint()),
        control=SqlEndpoint("sqlite", str(folder / "control.db"), options={"timeout": "30"}),
    )
    return make_run(pipeline, endpoints, "run-1", str(folder / "reports"))
