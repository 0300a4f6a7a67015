"""Helpers of the tests of a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_cdc.sources.postgres.session import PostgresEndpoint
from stack.installation import User
from stack.postgres import PostgresServer


def endpoint(
    server: PostgresServer, database: str = "postgres", user: User | None = None, **more: Any
) -> PostgresEndpoint:
    """The product's login (or another one) on a database of the server."""
    login = user or server.cdc
    return PostgresEndpoint(server.host, server.port, login.user, login.password, database, **more)


def connector_config(server: PostgresServer, name: str, database: str, tables: Sequence[str]) -> dict[str, str]:
    """A connector on a database, whose slot, publication and topics have its own name."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.dbname": database,
        "plugin.name": "pgoutput",
        "topic.prefix": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "disabled",
        "table.include.list": ",".join(tables),
        "heartbeat.interval.ms": "500",
    }
