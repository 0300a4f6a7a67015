"""What the tests of a MariaDB source stand on: the session's server, the product's login on it, and a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stack
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mariadb.client import MariaDbSource
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import end
from stack.versions import mariadb_series
from tests.integration.mariadb.recovered import Followed
from tests.integration.mariadb.support import endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def server(mariadb_server: MySqlServer) -> MySqlServer:
    return mariadb_server


@pytest.fixture
def source(server: MySqlServer) -> MariaDbSource:
    return MariaDbSource(endpoint(server))


@pytest.fixture
def table(server: MySqlServer, databases: Callable[..., str]) -> str:
    name = f"{databases(server)}.t"
    server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(99))")
    return name


@pytest.fixture
def own(servers: stack.Stack) -> Iterator[MySqlServer]:
    """A server whose log may be reset and cut; it ends with the test."""
    name = f"maria-own-{len(servers.mysql)}"
    made = servers.add_mysql(MySqlSettings(name=name, server_id=107, series=mariadb_series()))
    made.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(99))")
    yield made
    end(servers.mysql[name].child)


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """A stack of its own, or the one that runs: only where all servers are MariaDB's does the worker have its connector."""
    if there := os.environ.get("CDC_TEST_STACK"):
        yield stack.Stack.load(Path(there))
        return
    settings = MySqlSettings(name="mariadb", server_id=103, series=mariadb_series(), max_binlog_size=4194304)
    folder = tmp_path_factory.mktemp("connected") / "stack"
    with stack.start(folder, ("kafka", "connect", "mysql"), mysql_settings=[settings]) as started:
        yield started


@pytest.fixture
def followed(
    running: stack.Stack,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Followed]:
    server, broker, worker = running.mysql["mariadb"], running.kafka, running.connect
    assert broker is not None
    assert worker is not None
    name = databases(server, "r")
    lake = Lake("lake", lake_properties)
    made = Followed(server, spark, lake, broker.bootstrap, worker.url, tmp_path, name, ("orders", "events"))
    made.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, v VARCHAR(40) CHARACTER SET utf8mb4, total DECIMAL(12,2),"
        " at DATETIME(6), day DATE, seen TIMESTAMP(3) NULL, note TEXT, raw VARBINARY(9), share DOUBLE)",
        "CREATE TABLE events (n INT, t VARCHAR(9))",
    )
    yield made
    worker.call("DELETE", f"/connectors/{name}")
