"""What the tests of a PostgreSQL source stand on: the three series that are supported, and a fresh database on each.

`make test` asks the oldest and the newest series; `make slow` the one between, and the oldest where a test costs seconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session, open_session
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import wait_until
from tests.integration.postgres.recovered import Followed
from tests.integration.postgres.support import endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {"15": "pg15", "17": "pg17", "18": "postgres"}


@pytest.fixture(scope="session", params=["15", pytest.param("17", marks=pytest.mark.slow), "18"])
def server(request: pytest.FixtureRequest, servers: stack.Stack) -> PostgresServer:
    """A server of each series in turn, started when the first test asks for it."""
    name = NAMES[request.param]
    return servers.postgres.get(name) or servers.add_postgres(PostgresSettings(name=name, series=request.param))


@pytest.fixture(scope="session")
def newest(servers: stack.Stack) -> PostgresServer:
    """PostgreSQL 18 alone, for what does not differ."""
    return servers.postgres.get(NAMES["18"]) or servers.add_postgres(PostgresSettings(name=NAMES["18"], series="18"))


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    """A fresh database that both users may read, dropped with the slots in it."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    server.execute(f"CREATE DATABASE {name}")
    server.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium", dbname=name)
    yield name
    ours = f"FROM pg_replication_slots WHERE database = '{name}'"
    server.execute(f"SELECT pg_terminate_backend(active_pid) {ours} AND active")
    # the server's end of a connection goes a moment after ours
    wait_until(
        lambda: not server.execute(f"SELECT 1 {ours} AND active") or None, timeout=60, what="the slots' readers to go"
    )
    server.execute(f"SELECT pg_drop_replication_slot(slot_name) {ours}", f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def at(server: PostgresServer, database: str) -> PostgresEndpoint:
    """The product's login on that database."""
    return endpoint(server, database)


@pytest.fixture
def session(at: PostgresEndpoint) -> Iterator[Session]:
    with open_session(at) as opened:
        yield opened


@pytest.fixture
def lake(lake_properties: dict[str, str]) -> Lake:
    return Lake("lake", lake_properties)


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """A stack of its own: only where PostgreSQL is asked for does the worker have its connector."""
    with stack.start(tmp_path_factory.mktemp("recovery") / "stack", ("kafka", "connect", "postgres")) as started:
        yield started


@pytest.fixture
def followed(running: stack.Stack, spark: SparkSession, lake: Lake, tmp_path: Path) -> Iterator[Followed]:
    newest, broker, worker = running.postgres["postgres"], running.kafka, running.connect
    assert broker is not None
    assert worker is not None
    name = f"r_{uuid.uuid4().hex[:8]}"
    newest.execute(f"CREATE DATABASE {name}")
    newest.execute(
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium",
        "CREATE TABLE public.orders (id bigint PRIMARY KEY, v text, total numeric(12,2), at timestamp, day date,"
        " seen timestamptz, ok boolean, note text, raw bytea, tags text[], share double precision)",
        "ALTER TABLE public.orders ALTER note SET STORAGE EXTERNAL",
        "CREATE TABLE public.events (n int, t text)",
        "ALTER TABLE public.events REPLICA IDENTITY FULL",
        f"CREATE PUBLICATION {name} FOR TABLE public.orders, public.events",
        dbname=name,
    )
    made = Followed(newest, spark, lake, broker.bootstrap, worker.url, tmp_path, name, ("orders", "events"))
    yield made
    worker.call("DELETE", f"/connectors/{name}")
    slots = (
        f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{name}' AND NOT active"
    )
    newest.execute(slots)
