"""The suite of control stores on a real PostgreSQL and a real MySQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import stack
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from stack.mysql import MySqlServer
from stack.postgres import PostgresServer, PostgresSettings
from tests.contract.control_store import ControlStoreSuite, StoreBench
from tests.contract.sql_bench import SqlBench


@pytest.fixture(scope="session")
def postgres(servers: stack.Stack) -> PostgresServer:
    """A PostgreSQL, started when the first test asks for it."""
    settings = PostgresSettings()
    return servers.postgres.get(settings.name) or servers.add_postgres(settings)


class TestPostgresControlStore(ControlStoreSuite):
    """The suite, each test in a database of its own."""

    @pytest.fixture
    def bench(self, postgres: PostgresServer) -> Iterator[StoreBench]:
        name = f"control_{uuid.uuid4().hex[:8]}"
        postgres.execute(f"CREATE DATABASE {name}")
        yield SqlBench(
            SqlEndpoint(
                "postgresql+psycopg",
                name,
                postgres.host,
                postgres.port,
                postgres.user,
                postgres.password,
                {"connect_timeout": "10", "tcp_user_timeout": "30000", "options": "-c statement_timeout=30000"},
            )
        )
        postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.slow
class TestMySqlControlStore(ControlStoreSuite):
    """The suite, each test in a database of its own, whose character set knows no emoji."""

    @pytest.fixture
    def bench(self, mysql: MySqlServer) -> Iterator[StoreBench]:
        name = f"control_{uuid.uuid4().hex[:8]}"
        mysql.execute(f"CREATE DATABASE {name} CHARACTER SET latin1")
        yield SqlBench(
            SqlEndpoint(
                "mysql+pymysql",
                name,
                mysql.host,
                mysql.port,
                mysql.user,
                mysql.password,
                {"connect_timeout": "10", "read_timeout": "30", "write_timeout": "30"},
            )
        )
        mysql.execute(f"DROP DATABASE {name}")


def test_a_login_that_may_only_read_is_told_so(postgres: PostgresServer) -> None:
    """The table cannot be made: what is missing is said, and nothing is taken for an empty store."""
    endpoint = SqlEndpoint(
        "postgresql+psycopg",
        "postgres",
        postgres.host,
        postgres.port,
        postgres.cdc.user,
        postgres.cdc.password,
    )
    store = SqlControlStore(endpoint)
    assert store.load("shop") is None
    with pytest.raises(Exception, match="permission denied"):
        store.swap("shop", None, "{}")
