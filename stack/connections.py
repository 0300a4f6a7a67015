"""Airflow connections to the servers, and the environment variables that define them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from stack.mysql import MySqlServer
from stack.postgres import PostgresServer

Connection: TypeAlias = dict[str, Any]


def to_mysql(server: MySqlServer) -> Connection:
    """The product's own user on a server."""
    return to_source(server.host, server.port, server.cdc.user, server.cdc.password)


def to_source(host: str, port: int, user: str, password: str) -> Connection:
    """A source by its address."""
    return {"conn_type": "cdc_mysql", "host": host, "port": port, "login": user, "password": password}


def to_postgres(server: PostgresServer, database: str) -> Connection:
    """The product's own user in a database of a PostgreSQL server."""
    login = server.cdc
    address = {"host": server.host, "port": server.port, "login": login.user, "password": login.password}
    return {"conn_type": "cdc_postgres", **address, "schema": database}


def to_connect(url: str) -> Connection:
    """A Connect worker by its URL (http)."""
    host, _, port = url.removeprefix("http://").partition(":")
    return {"conn_type": "kafka_connect", "host": host, "port": int(port or 0), "schema": "http"}


def to_kafka(bootstrap: str) -> Connection:
    """A broker."""
    return {"conn_type": "cdc_kafka", "extra": {"bootstrap.servers": bootstrap}}


def to_lake(properties: Mapping[str, str]) -> Connection:
    """An Iceberg catalog by PyIceberg's properties."""
    return {"conn_type": "iceberg_catalog", "extra": dict(properties)}


def to_spark(master: str) -> Connection:
    """A Spark master, such as local[2]."""
    return {"conn_type": "spark", "host": master}


def variables(connections: Mapping[str, Connection]) -> dict[str, str]:
    """The environment variables by which Airflow finds connections, by connection id."""
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()}
