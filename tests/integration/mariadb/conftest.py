"""What the tests of a MariaDB source stand on: the session's server, the product's login on it, and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
