"""Copies in a PostgreSQL that Debezium's JDBC sink fills, of the shop and of the peer: `make demo SINK=jdbc`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kafka import KafkaConsumer, TopicPartition

from demo.peer import KEYED
from stack import connections
from stack.process import wait_until
from stack.shop import connectors
from stack.shop.check import MySqlRows, TableCheck, compare_with
from stack.shop.dataset import SCHEMA
from stack.shop.postgres.copies import PostgresCopies

if TYPE_CHECKING:
    from demo.make import Settings
    from demo.show import Show
    from demo.sinks import Act
    from demo.world import World
    from stack.postgres import PostgresServer

COPY_SECONDS = 1800.0
# the sink connector needs the schema in every record
SCHEMAS = {
    **connectors.PLAIN,
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
}
LARGE_BATCHES = {"batch.size": "2000", "consumer.override.max.poll.records": "2000"}


class Jdbc:
    """See Sink. A schema for each of the two, whose names are also those of their connectors.

    A table without a key can't be put right through its topic, and times of day below zero stop the sink connector.
    """

    kind: ClassVar[str] = "jdbc"
    title: ClassVar[str] = "PostgreSQL for the copies, Debezium's JDBC sink, "
    tables: ClassVar[tuple[str, ...]] = ("customers", "orders", "order_items")
    alters: ClassVar[bool] = False
    services: ClassVar[tuple[str, ...]] = ("postgres",)
    plugins: ClassVar[tuple[str, ...]] = ("debezium-jdbc",)

    def declared(self) -> Mapping[str, Any]:
        """See Sink."""
        return {
            "sink": {"kind": "jdbc", "conn_id": "shop_copy", "database": "postgres", "connector": "shop-sink"},
            "control": {"kind": "sql", "conn_id": "shop_control"},
            "spark": {"conn_id": "spark_default"},
        }

    def connections(self, world: World) -> dict[str, connections.Connection]:
        """See Sink."""
        return {
            "shop_copy": connections.to_postgres(_server(world), "postgres"),
            "shop_control": {"conn_type": "sqlite", "host": str(world.folder / "control.db")},
        }

    def connector(self, name: str) -> Settings:  # noqa: ARG002 - both alike
        """See Sink: the sink connector fills the copies from the first record on."""
        tables = ",".join(f"{SCHEMA}.{table}" for table in self.tables)
        return {**SCHEMAS, "snapshot.mode": "initial", "table.include.list": tables}

    def copy(self, world: World, act: Act, show: Show) -> None:  # noqa: ARG002 - the sink connectors do it
        """See Sink."""
        began, server = time.monotonic(), _server(world)
        for name in connectors.NAMES:
            connectors.make_schema(server, name)
            settings = connectors.jdbc_sink(server, name, rf"{name}\.{SCHEMA}\..*", **LARGE_BATCHES, **SCHEMAS)
            connectors.create(world.worker, f"{name}-sink", settings)
        for name in connectors.NAMES:
            self._wait(world, name)
        show.line("both JDBC sinks have written all that is in their topics", time.monotonic() - began)

    def apply(self, act: Act, title: str) -> None:
        """Nothing: the sink connector does."""

    def wait_healed(self, world: World) -> None:
        """See Sink."""
        self._wait(world, "peer")

    def ghosts(self, world: World) -> dict[str, int]:
        """See Sink: of the peer's tables."""
        self._wait(world, "peer")
        return {table: len(self._keys(world, table) - world.shop.keys(table, KEYED[table])) for table in self.tables}

    def check(self, world: World) -> list[TableCheck]:
        """See Sink."""
        self._wait(world, "shop")
        return compare_with(MySqlRows(world.admin, SCHEMA), PostgresCopies(_login(world), "shop"), list(self.tables))

    def _keys(self, world: World, table: str) -> set[tuple[str, ...]]:
        rows = PostgresCopies(_login(world), "peer").rows(table, list(KEYED[table]))
        return {tuple(str(value) for value in row) for row in rows}

    def _wait(self, world: World, name: str) -> None:
        """Wait until the sink connector has committed all that its topics have now."""
        ends = _ends(world.bootstrap, [f"{name}.{SCHEMA}.{table}" for table in self.tables])

        def written() -> bool | None:
            there = {
                (one["partition"]["kafka_topic"], one["partition"]["kafka_partition"]): one["offset"]["kafka_offset"]
                for one in world.worker.call("GET", f"/connectors/{name}-sink/offsets")["offsets"]
            }
            return all(there.get(part, 0) >= end for part, end in ends.items()) or None

        wait_until(written, timeout=COPY_SECONDS, what=f"the JDBC sink of {name} to write all that is in its topics")


def _server(world: World) -> PostgresServer:
    return world.stack.postgres["postgres"]


def _login(world: World) -> dict[str, Any]:
    server = _server(world)
    address = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return {**address, "dbname": "postgres"}


def _ends(bootstrap: str, topics: list[str]) -> dict[tuple[str, int], int]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    try:
        parts = [TopicPartition(topic, n) for topic in topics for n in consumer.partitions_for_topic(topic) or ()]
        return {(part.topic, part.partition): end for part, end in consumer.end_offsets(parts).items()}
    finally:
        consumer.close()
