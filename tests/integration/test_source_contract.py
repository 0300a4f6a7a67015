"""Every built-in source does what airflow_cdc.testing asks of any source, on its real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pytest

import stack
from airflow_cdc.core.kind import SourceKind
from airflow_cdc.core.position import Position
from airflow_cdc.kinds import SOURCES
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.testing import SourceBench, SourceContract
from stack.mysql import MySqlServer
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import wait_until
from tests.integration.busy import busy_mysql, busy_postgres

NOBODY_LISTENS = 9  # the discard port


@dataclass(frozen=True, slots=True)
class MySqlBench:
    """A real MySQL server."""

    server: MySqlServer
    table: str
    kind: SourceKind

    @property
    def endpoint(self) -> MySqlEndpoint:
        return MySqlEndpoint(self.server.host, self.server.port, self.server.cdc.user, self.server.cdc.password)

    def write(self) -> None:
        self.server.execute(f"INSERT INTO {self.table} (v) VALUES ('x')")

    def position(self) -> Position:
        ((file, pos, *_),) = self.server.execute("SHOW MASTER STATUS")
        ((gtid_mode, executed),) = self.server.execute("SELECT @@gtid_mode, @@GLOBAL.gtid_executed")
        return MySqlPosition(file, int(pos), GtidSet.parse(executed) if gtid_mode == "ON" else None)

    def purge(self) -> None:
        """All but the newest file; one that is still being read is passed over without an error, so again."""
        self.server.execute("FLUSH BINARY LOGS")
        newest = str(self.server.execute("SHOW BINARY LOGS")[-1][0])

        def gone() -> bool | None:
            self.server.execute(f"PURGE BINARY LOGS TO '{newest}'")
            return self.server.execute("SHOW BINARY LOGS")[0][0] == newest or None

        wait_until(gone, timeout=30, what=f"all before {newest} are purged")

    def busy(self, statements: int) -> AbstractContextManager[None]:
        return busy_mysql(self.server, statements)

    def unreachable(self) -> MySqlEndpoint:
        return replace(self.endpoint, port=NOBODY_LISTENS)


class MariaDbBench(MySqlBench):
    """A real MariaDB server."""

    def position(self) -> Position:
        ((file, pos, *_),) = self.server.execute("SHOW MASTER STATUS")
        ((held,),) = self.server.execute("SELECT @@gtid_binlog_pos")
        return MariaDbPosition(file, int(pos), Domains.parse(held))


@dataclass(frozen=True, slots=True)
class PostgresBench:
    """A real PostgreSQL server; the log that it keeps is that of the pipeline's slot."""

    server: PostgresServer
    database: str
    slot: str

    @property
    def kind(self) -> SourceKind:
        return SOURCES["postgres"]

    @property
    def endpoint(self) -> PostgresEndpoint:
        login = self.server.cdc
        return PostgresEndpoint(
            self.server.host, self.server.port, login.user, login.password, self.database, slot=self.slot
        )

    def write(self) -> None:
        self.server.execute("INSERT INTO t (v) VALUES ('x')", dbname=self.database)

    def position(self) -> Position:
        ((lsn,),) = self.server.execute("SELECT pg_current_wal_lsn()::text")
        return PgPosition(Lsn.parse(lsn))

    def purge(self) -> None:
        """The slot is moved to the end: what lies before it is not given out any more."""
        move = f"SELECT pg_replication_slot_advance('{self.slot}', pg_current_wal_lsn())"
        self.server.execute(move, dbname=self.database)

    def busy(self, statements: int) -> AbstractContextManager[None]:
        return busy_postgres(self.server, statements)

    def unreachable(self) -> PostgresEndpoint:
        return replace(self.endpoint, port=NOBODY_LISTENS)


def table_in(server: MySqlServer, databases: Callable[..., str]) -> str:
    table = f"{databases(server)}.t"
    server.execute(f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))")
    return table


class TestMySql(SourceContract):
    """With gtid_mode ON."""

    @pytest.fixture
    def bench(self, mysql: MySqlServer, databases: Callable[..., str]) -> SourceBench:
        return MySqlBench(mysql, table_in(mysql, databases), SOURCES["mysql"])


class TestMySqlWithoutGtid(SourceContract):
    """With gtid_mode OFF: file and position count."""

    @pytest.fixture
    def bench(self, mysql_nogtid: MySqlServer, databases: Callable[..., str]) -> SourceBench:
        return MySqlBench(mysql_nogtid, table_in(mysql_nogtid, databases), SOURCES["mysql"])


class TestMariaDb(SourceContract):
    @pytest.fixture
    def bench(self, mariadb_server: MySqlServer, databases: Callable[..., str]) -> SourceBench:
        mariadb_server.execute(f"GRANT SLAVE MONITOR ON *.* TO '{mariadb_server.cdc.user}'@'%'")
        return MariaDbBench(mariadb_server, table_in(mariadb_server, databases), SOURCES["mariadb"])


class TestPostgres(SourceContract):
    @pytest.fixture
    def bench(self, servers: stack.Stack) -> Iterator[SourceBench]:
        server = servers.postgres.get("postgres") or servers.add_postgres(
            PostgresSettings(name="postgres", series="18")
        )
        name = f"t_{uuid.uuid4().hex[:8]}"
        server.execute(f"CREATE DATABASE {name}")
        server.execute("CREATE TABLE t (id SERIAL PRIMARY KEY, v TEXT)", dbname=name)
        server.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')", dbname=name)
        server.execute("GRANT pg_read_all_stats TO cdc")
        yield PostgresBench(server, name, name)
        server.execute("REVOKE pg_read_all_stats FROM cdc")
        server.execute(f"SELECT pg_drop_replication_slot('{name}')", dbname=name)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_every_built_in_source_is_held_by_the_suite() -> None:
    held = {"mysql": (TestMySql, TestMySqlWithoutGtid), "mariadb": (TestMariaDb,), "postgres": (TestPostgres,)}
    assert set(held) == set(SOURCES.built_in)
