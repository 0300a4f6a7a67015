"""A PostgreSQL database that Debezium reads and Debezium's JDBC sink copies into a MySQL, on real servers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pymysql

from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from stack.process import wait_until
from tests.integration.jdbc.fed import SCHEMAS, SECONDS, Fed
from tests.integration.postgres.support import connector_config, endpoint

ORDERS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, v varchar(40), total numeric(12,2), at timestamp, day date, seen timestamptz,"
    " ok boolean, raw bytea, padded char(5), mark uuid)"
)
ORDER = (
    "INSERT INTO orders SELECT i, 'ü|' || i, i + 0.25, TIMESTAMP '2026-01-02 03:04:05.000006' + i * INTERVAL '1 s', DATE '2026-01-02',"
    " TIMESTAMPTZ '2026-03-29 02:30:00.5+02', i % 2 = 0, '\\x00ff'::bytea, 'p' || i % 9, md5(i::text)::uuid"
    " FROM generate_series({}, {}) i"
)


@dataclass(slots=True)
class FromPostgres(Fed):
    """One database with a schema public, its slot and its publication of its name, and the target's database of that name."""

    name: str = field(default_factory=lambda: f"p_{uuid.uuid4().hex[:8]}")

    def create(self, *tables: str) -> None:
        """See Fed."""
        self.servers.postgres.execute(f"CREATE DATABASE {self.name}")
        self.execute(
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium",
            *tables,
            f"CREATE PUBLICATION {self.name} FOR TABLES IN SCHEMA public",
        )
        self.servers.mysql.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """See Fed."""
        rows: list[tuple[Any, ...]] = self.servers.postgres.execute(
            "SET TIME ZONE 'UTC'", *statements, dbname=self.name
        )
        return rows

    def target(self, *statements: str) -> list[tuple[Any, ...]]:
        """See Fed."""
        here = (f"USE {self.name}", "SET SESSION time_zone = '+00:00'")
        rows: list[tuple[Any, ...]] = self.servers.mysql.execute(*here, *statements)
        return rows

    def source_config(self) -> dict[str, str]:
        """See Fed."""
        return {
            **connector_config(self.servers.postgres, self.name, self.name, [r"public\..*"]),
            "decimal.handling.mode": "precise",
            "interval.handling.mode": "string",
            "value.converter.replace.null.with.default": "false",
            **SCHEMAS,
        }

    def topic(self, table: str) -> str:
        """See Fed."""
        return f"{self.name}.public.{table}"

    def sink_config(self) -> dict[str, str]:
        """See Fed."""
        server = self.servers.mysql
        options = (
            "sslMode=DISABLED&allowPublicKeyRetrieval=true&connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true"
        )
        return {
            **Fed.sink_config(self),  # a class with slots has no bare super()
            "topics.regex": rf"{self.name}\.public\..*",
            "connection.url": f"jdbc:mysql://{server.host}:{server.port}/{self.name}?{options}",
            "connection.username": server.user,
            "connection.password": server.password,
            # the target's database has the name of the source's
            "collection.name.format": "${source.db}.${source.table}",
        }

    def purge(self) -> None:
        """Drop the slot, once nobody reads it: its log is the server's to remove."""
        self._wait_unread()
        self.execute(f"SELECT pg_drop_replication_slot('{self.name}')")

    def source(self, tables: Sequence[str]) -> tuple[Mapping[str, Any], Any]:
        """See Fed."""
        names = [f"public.{table}" for table in tables]
        declared = {"kind": "postgres", "conn_id": "m", "tables": names, "slot": self.name, "publication": self.name}
        return declared, endpoint(self.servers.postgres, self.name)

    @property
    def target_kind(self) -> str:
        """See Fed."""
        return "mysql"

    def endpoint(self) -> JdbcEndpoint:
        """See Fed."""
        server = self.servers.mysql
        own = MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)
        return JdbcEndpoint(("mysql",), asdict(own), own.where, own.dataset)

    @property
    def no_table(self) -> type[Exception]:
        """See Fed."""
        return pymysql.err.ProgrammingError

    def close(self) -> None:
        """Delete both connectors, the slot, and both databases."""
        self.delete_connectors()
        self._wait_unread()
        drop = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{self.name}'"
        self.servers.postgres.execute(drop, f"DROP DATABASE {self.name} WITH (FORCE)")
        self.servers.mysql.execute(f"DROP DATABASE {self.name}")

    def _wait_unread(self) -> None:
        active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.name}' AND active"
        wait_until(
            lambda: not self.servers.postgres.execute(active) or None, timeout=SECONDS, what="the slot's reader to go"
        )
