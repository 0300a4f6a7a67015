"""A MariaDB database that a real connector follows into the lake."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.kind import MariaDbSettings
from stack.connect import MARIADB_CLASS
from stack.process import wait_until
from tests.integration.mariadb.support import endpoint, purge
from tests.integration.recovering import SECONDS, FollowedDatabase

if TYPE_CHECKING:
    from stack.mysql import MySqlServer


# the columns of the two tables that the fixture `followed` makes, and a row of the first
ORDERS = ("id", "v", "total", "at", "day", "seen", "note", "raw", "share")
EVENTS = ("n", "t")
ROW = (
    "{0}, CONCAT('ü|', {0}), {0} + 0.25, TIMESTAMP'2026-01-02 03:04:05.000006' + INTERVAL {0} SECOND,"
    " DATE'2026-01-01' + INTERVAL {0} DAY, TIMESTAMP'2026-10-25 00:30:00.5' + INTERVAL {0} MINUTE,"
    " REPEAT('long', 10), X'00ff', {0} / 3e0"
)


@dataclass(slots=True)
class Followed(FollowedDatabase):
    """Tables of one database of the server."""

    def __post_init__(self) -> None:
        full = tuple(f"{self.database}.{table}" for table in self.tables)
        self.set_up(MariaDbSource(endpoint(self.server)), MariaDbSettings("mariadb", "m", full), MariaDbCodec())

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.server.execute(
            f"USE {self.database}", "SET SESSION time_zone = '+00:00'", *statements
        )
        return rows

    def follow(self, settings: Mapping[str, str]) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        name = self.database
        self.connector.create(name, connector_config(self.server, name, self.kafka, settings))
        wait_until(
            lambda: self.connector.facts(name).offset is not None or None,
            timeout=SECONDS,
            what="the connector to have a position",
        )
        self.mirror(name)

    def stored(self) -> Mapping[str, Any]:
        """The raw offset."""
        offset = self.connector.facts(self.database).offset
        assert offset is not None
        return offset.raw

    def purge(self) -> None:
        """All but the newest file of the log."""
        purge(self.server)

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by PyMySQL."""
        columns = ", ".join(f"`{name}`" for name in order)
        return self.execute(f"SELECT {columns} FROM {table}")

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase: moments without their zone, which is UTC in both."""
        return tuple(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for value in row)


def connector_config(server: MySqlServer, name: str, kafka: str, settings: Mapping[str, str]) -> dict[str, str]:
    """A connector on the database `name`, whose topics begin with it; "" leaves one of its settings out."""
    config = {
        "connector.class": MARIADB_CLASS,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
        "database.include.list": name,
        "database.ssl.mode": "disable",
        "topic.prefix": name,
        "snapshot.mode": "no_data",
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"history-{name}",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.replace.null.with.default": "false",
        "heartbeat.interval.ms": "500",
        "connect.keep.alive.interval.ms": "500",
        "enable.time.adjuster": "false",
        **settings,
    }
    return {name: value for name, value in config.items() if value}
