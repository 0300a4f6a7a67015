"""What the tests of a MariaDB source stand on: the session's server, the product's login on it, and a table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_cdc.systems.mysql import MySqlSource
from stack.mysql import MySqlServer
from tests.integration.mariadb.support import endpoint


@pytest.fixture
def server(mariadb_server: MySqlServer) -> MySqlServer:
    return mariadb_server


@pytest.fixture
def source(server: MySqlServer) -> MySqlSource:
    return MySqlSource(endpoint(server))


@pytest.fixture
def table(server: MySqlServer, databases: Callable[..., str]) -> str:
    name = f"{databases(server)}.t"
    server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(99))")
    return name
