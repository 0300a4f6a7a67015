"""Servers that replicate from the source, as an observation sees them, on servers of their own: one statement that lists
them ends MySQL itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

import stack
from airflow_cdc.sources.mysql.probe import seen_replicas
from airflow_cdc.sources.mysql.session import MySqlEndpoint, open_session
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until

REGISTER = 0x15
DUMP = 0x12
KINDS = {"8.0": "mysql-alone-80", "9.7": "mysql-alone-97", "mariadb": "mariadb-alone"}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    """A server that nothing else uses."""
    with stack.start(tmp_path_factory.mktemp("alone"), services=()) as own:
        yield own.add_mysql(MySqlSettings(name=KINDS[request.param], server_id=171, series=request.param))


def connected(server: MySqlServer) -> pymysql.Connection[Any]:
    return pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password)


def registered(connection: pymysql.Connection[Any], server_id: int) -> None:
    """Say what a replica says before it asks for the log (Canal and go-mysql do so, too)."""
    words = b"".join(bytes([len(word)]) + word for word in (b"replica-host", b"repl", b"secret"))
    _inside(connection)._execute_command(
        REGISTER, struct.pack("<I", server_id) + words + struct.pack("<HII", 3306, 0, 0)
    )
    assert _inside(connection)._read_packet().is_ok_packet()


def _inside(connection: pymysql.Connection[Any]) -> Any:
    return connection


def observed(server: MySqlServer) -> tuple[str, ...]:
    """What an observation lists, by the provider's own user."""
    with open_session(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)) as session:
        return seen_replicas(session)


def test_a_client_that_registered_and_left_does_not_end_the_server_that_is_observed(server: MySqlServer) -> None:
    """SHOW SLAVE HOSTS reads the session of each client that registered, also of one that is gone: 8.0.15 dies of it."""
    for server_id in range(901, 911):
        connection = connected(server)
        registered(connection, server_id)
        _inside(connection)._force_close()
    seen = [observed(server) for _ in range(3)]
    assert seen == [()] * 3
    assert server.execute("SELECT 1") == [(1,)]


def test_who_reads_the_log_is_seen(server: MySqlServer) -> None:
    """A replica or a connector, by its login and address; nobody once it has left."""
    reader = connected(server)
    file = server.execute("SHOW BINARY LOGS")[0][0]
    with reader.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum")
        cursor.execute("SET @source_binlog_checksum = @@GLOBAL.binlog_checksum")
    _inside(reader)._execute_command(DUMP, struct.pack("<IHI", 4, 0, 950) + file.encode())
    _inside(reader)._read_packet()
    (seen,) = observed(server)
    assert seen.startswith((f"{server.user} at 127.0.0.1:", f"{server.user} at localhost:"))
    server.execute(f"KILL {_inside(reader).thread_id()}")
    wait_until(lambda: observed(server) == (), timeout=20, interval=0.2, what="the reader is gone")
