"""What the strikes stand on: servers, each behind a proxy of the test's own, and a database that a connector follows."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack import kafka
from stack.object_store import ObjectStore, start_object_store
from stack.ports import HOST, free_port
from stack.process import end, wait_until
from tests.breaks.store_proxy import StoreProxy
from tests.breaks.struck import COLUMNS, ROWS
from tests.faults.proxy import Proxy
from tests.integration.postgres.recovered import MODES, Followed
from tests.integration.recovering import SECONDS, FollowedDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import stack

LONG: Final = "REPEAT(CONCAT('v', {n}, ' '), 150)"


@dataclass(frozen=True, slots=True)
class Servers:
    """A source, a broker and a worker; the product reaches the first two by proxies."""

    stack: stack.Stack
    source: Proxy
    broker: Proxy
    bootstrap: str

    def kill_broker(self) -> None:
        """SIGKILL of the broker."""
        assert self.stack.kafka is not None
        os.kill(self.stack.kafka.child.server_pid, signal.SIGKILL)

    def restart_broker(self) -> None:
        """Start it again on its data, and wait for it."""
        self.stack.restart_kafka()


@contextmanager
def behind_proxies(running: stack.Stack, port: int) -> Iterator[Servers]:
    """A broker with a second listener, which alone the product knows, and that is advertised as the proxy's port."""
    inner = free_port()
    with Proxy((HOST, port)) as source, Proxy((HOST, inner)) as broker:
        made = kafka.start_kafka(running.folder, running.logs, proxied=(inner, broker.port))
        running.kafka = kafka.wait_ready(made)
        running.add_connect(("debezium", "debezium-postgres"))
        yield Servers(running, source, broker, f"{HOST}:{broker.port}")


@dataclass(slots=True)
class StruckMySql(FollowedDatabase):
    """Two tables in MySQL, one of them without a key. `at`: the proxy's port; the connector reads the server itself."""

    at: int = 0
    broker: str = ""
    secured: bool = True
    changed: int = 0

    def follow(self) -> None:
        """Fill the tables, start the connector, and apply all that it sends."""
        name, server = self.database, self.server
        login = server.cdc
        ssl = None if self.secured else {"mode": "disabled"}
        source = MySqlSource(
            MySqlEndpoint(HOST, self.at, login.user, login.password, ssl=ssl, connect_timeout=5, read_timeout=60)
        )
        self.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(1000), day DATE, total DECIMAL(12,2), seen TIMESTAMP NULL)",
            "CREATE TABLE events (n INT, t VARCHAR(600))",
        )
        self.set_up(source, MySqlSettings("mysql", "m", tuple(f"{name}.{table}" for table in COLUMNS)), MySqlCodec())
        transport = KafkaTransport(KafkaEndpoint(self.broker))
        self.base = replace(self.base, clients=replace(self.base.clients, transport=transport))
        self.connector.create(name, connector_config(server, name, self.kafka))
        wait_until(lambda: self.connector.facts(name).offset, timeout=SECONDS, what="the connector to have a position")
        self.mirror(name)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        long = LONG.format(n="i")
        self.execute(
            f"INSERT INTO orders {numbers} SELECT i, {long}, DATE'2026-01-01' + INTERVAL i DAY, i + 0.25, TIMESTAMP'2026-10-24 22:00:00' + INTERVAL i MINUTE FROM n",
            f"INSERT INTO events {numbers} SELECT i % 50, CONCAT('e', i % 7, REPEAT('.', 400)) FROM n",
        )
        self.apply("first")

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Run statements in the database, in UTC and not through the proxy."""
        with closing(self.server.connect(database=self.database)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00'")
            for statement in statements:
                cursor.execute(statement)
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def change(self) -> None:
        """Rows of both tables come, change and go; the spoilt ones of other tests among them never go."""
        self.changed += 1
        n = self.changed
        self.execute(
            f"UPDATE orders SET v = {LONG.format(n=f'id + {n}')} WHERE id > 100 AND id % 3 = {n % 3}",
            f"DELETE FROM orders WHERE id > 1000 AND id % 2 = {n % 2}",
            f"INSERT INTO orders VALUES ({1000 + n}, 'new', '2026-02-01', {n}, NOW()), ({3000 + n}, 'new', '2026-02-01', {n}, NOW())",
            f"DELETE FROM events WHERE n = {10 + n % 30} LIMIT 2",
            f"INSERT INTO events VALUES ({n % 50}, 'twice'), ({n % 50}, 'twice'), (3, 'e')",
        )

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by PyMySQL."""
        return self.execute(f"SELECT {', '.join(order)} FROM {table}")

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase: moments in UTC."""
        return tuple(one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in row)


def connector_config(server: Any, name: str, bootstrap: str) -> dict[str, str]:
    """A connector that reads the database `name` from its first row."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
        "database.include.list": name,
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": name,
        "snapshot.mode": "no_data",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": f"history-{name}",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.replace.null.with.default": "false",
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "heartbeat.interval.ms": "500",
        "connect.keep.alive.interval.ms": "500",
        "enable.time.adjuster": "false",
    }


@contextmanager
def store_behind_a_proxy(folder: Path) -> Iterator[tuple[ObjectStore, StoreProxy]]:
    """An object store, and the proxy by which the product finds it."""
    store = start_object_store(folder, folder / "logs")
    try:
        with StoreProxy(store.url) as proxy:
            yield replace(store, url=proxy.own_url), proxy
    finally:
        end(store.child)


def lake_in(name: str, folder: Path, more: Mapping[str, str]) -> Lake:
    """A lake whose catalog is a file of `folder`; `more`: where its warehouse is, and how it is reached."""
    return Lake(name, {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", **more})


def in_s3(store: ObjectStore) -> dict[str, str]:
    """Where a warehouse is that is in the store. A catalog in SQL does not tell Spark which files `s3://` means."""
    return {**store.iceberg(), "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}


def add_catalog(spark: SparkSession, lake: Lake) -> None:
    """Let a running session know the lake, and those that an application makes beside it, which start from the context's settings."""
    context: Any = spark.sparkContext._jsc.sc().conf()
    for key, value in lake.spark_conf().items():
        if key.startswith(f"spark.sql.catalog.{lake.name}"):
            spark.conf.set(key, value)
            context.set(key, value)


def waiting(seconds: float, act: Callable[[], Any]) -> Callable[[], None]:
    """`act` that many seconds after it is called."""

    def wait_and_act() -> None:
        time.sleep(seconds)
        act()

    return wait_and_act


@dataclass(slots=True)
class StruckPostgres(Followed):
    """Two tables in PostgreSQL, one of them without a key. `at`: the proxy's port; the connector reads the server itself."""

    at: int = 0
    broker: str = ""
    changed: int = 0

    def follow(self, settings: Mapping[str, str] = MODES) -> None:
        """Fill the tables, start the connector, and apply all that it sends."""
        name = self.database
        self.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, v text, day date, total numeric(12,2), seen timestamptz)",
            "CREATE TABLE events (n int, t text)",
            "ALTER TABLE events REPLICA IDENTITY FULL",
            f"CREATE PUBLICATION {name} FOR TABLE orders, events",
        )
        own = replace(self.source.endpoint, port=self.at, connect_timeout=5.0, read_timeout=60.0)
        self.source = type(self.source)(own)
        transport = KafkaTransport(KafkaEndpoint(self.broker))
        self.base = replace(self.base, clients=replace(self.base.clients, source=self.source, transport=transport))
        Followed.follow(self, settings)
        self.execute(
            "INSERT INTO orders SELECT i, repeat('v' || i || ' ', 150), DATE '2026-01-01' + i, i + 0.25,"
            f" TIMESTAMPTZ '2026-10-24 22:00:00+00' + i * INTERVAL '1 minute' FROM generate_series(1, {ROWS}) i",
            f"INSERT INTO events SELECT i % 50, 'e' || i % 7 || repeat('.', 400) FROM generate_series(1, {ROWS}) i",
        )
        self.apply("first")

    def change(self) -> None:
        """Rows of both tables come, change and go."""
        self.changed += 1
        n = self.changed
        self.execute(
            f"UPDATE orders SET v = repeat('v' || id + {n} || ' ', 150) WHERE id > 100 AND id % 3 = {n % 3}",
            f"DELETE FROM orders WHERE id > 1000 AND id % 2 = {n % 2}",
            f"INSERT INTO orders VALUES ({1000 + n}, 'new', '2026-02-01', {n}, now()), ({3000 + n}, 'new', NULL, {n}, now())",
            f"DELETE FROM events WHERE ctid IN (SELECT ctid FROM events WHERE n = {10 + n % 30} LIMIT 2)",
            f"INSERT INTO events VALUES ({n % 50}, 'twice'), ({n % 50}, 'twice'), (3, 'e')",
        )
