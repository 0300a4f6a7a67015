"""A real MariaDB from Debian packages: it starts, answers, and ends; what it runs with is what a source needs."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

import stack
from stack import debian, mariadb, versions
from stack.guard import descendants
from stack.mysql import MySqlServer, MySqlSettings, User
from stack.process import start_time, wait_until

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch

SETTINGS = MySqlSettings(name="mariadb", server_id=103, series="mariadb", max_binlog_size=4194304)


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ("log_bin", "1"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("max_binlog_size", "4194304"),
        ("server_id", "103"),
        ("gtid_domain_id", "0"),
        ("bind_address", "127.0.0.1"),
    ],
)
def test_mariadb_runs_as_a_source_must(mariadb_server: MySqlServer, variable: str, wanted: str) -> None:
    assert str(mariadb_server.execute(f"SELECT @@GLOBAL.{variable}")[0][0]) == wanted


def test_its_users_have_what_they_need_and_nothing_else(mariadb_server: MySqlServer) -> None:
    with mariadb_server.connect(mariadb_server.cdc) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GRANTS")
        granted = [str(row[0]).removeprefix("GRANT ").partition(" ON ")[0] for row in cursor.fetchall()]
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("CREATE DATABASE not_allowed")
    assert sorted(name for names in granted for name in names.split(", ")) == sorted(mariadb.CDC_PRIVILEGES)
    users = {str(user): str(host) for user, host in mariadb_server.execute("SELECT User, Host FROM mysql.user")}
    assert users == {"root": "%", "cdc": "%", "debezium": "%", "mariadb.sys": "localhost"}


@pytest.mark.parametrize("login", [User("root", "wrong"), User("root", ""), User("", "")])
def test_nobody_comes_in_without_the_password(mariadb_server: MySqlServer, login: User) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        mariadb_server.connect(login)


@pytest.mark.parametrize("series", sorted(versions.MARIADB))
def test_it_starts_restarts_on_its_data_and_ends(tmp_path: Path, series: str) -> None:
    settings = replace(SETTINGS, series=series)
    with stack.start(tmp_path / "s", ("mysql",), mysql_settings=[settings]) as own:
        server = own.mysql["mariadb"]
        assert server.version.startswith(f"{versions.MYSQL_TESTED[series]}.")
        assert "MariaDB" in server.version
        assert server.execute("SHOW MASTER STATUS")[0][0] == "mysql-bin.000001"
        server.execute("CREATE DATABASE kept")
        again = own.restart_mysql("mariadb")
        assert ("kept",) in again.execute("SHOW DATABASES")
        state = json.loads((own.folder / "stack.json").read_text())
        assert state["versions"]["mysql"] == {"mariadb": again.version}
        pids = (again.child.pid, *descendants(again.child.pid))
    assert wait_until(lambda: all(start_time(pid) is None for pid in pids) or None, timeout=30, what="it is gone")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((again.host, again.port), timeout=5)


def test_the_second_time_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object) -> None:
        raise AssertionError("apt was asked although all is in the cache")

    mariadb.install("mariadb", ())
    monkeypatch.setattr(debian, "_run", no_network)
    assert mariadb.install("mariadb", ()).version.startswith("10.11.")
