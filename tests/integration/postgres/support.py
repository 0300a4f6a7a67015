"""Helpers of the tests of a PostgreSQL source."""

from __future__ import annotations

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
