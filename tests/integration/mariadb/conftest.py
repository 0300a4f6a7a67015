"""What the tests of a MariaDB source stand on: the session's server, the product's login on it, and a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import stack
from airflow_cdc.sources.mariadb.client import MariaDbSource
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import end
from tests.integration.mariadb.support import endpoint


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
    made = servers.add_mysql(MySqlSettings(name=name, server_id=107, series="mariadb"))
    made.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(99))")
    yield made
    end(servers.mysql[name].child)


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """A stack of its own, or the one that runs: only where all servers are MariaDB's does the worker have its connector."""
    if there := os.environ.get("CDC_TEST_STACK"):
        yield stack.Stack.load(Path(there))
        return
    settings = MySqlSettings(name="mariadb", server_id=103, series="mariadb", max_binlog_size=4194304)
    folder = tmp_path_factory.mktemp("connected") / "stack"
    with stack.start(folder, ("kafka", "connect", "mysql"), mysql_settings=[settings]) as started:
        yield started
