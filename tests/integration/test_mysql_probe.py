"""What diagnosis and forecast read of a real server's log: places, times, the purge itself, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import stack
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary, MySqlFacts
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition
from airflow_cdc.sources.mysql.probe import began, inspect_position
from airflow_cdc.sources.mysql.server_log import list_binlog_files
from stack.mysql import MySqlServer, MySqlSettings

BASE = "mysql-bin-changelog"  # as managed servers name their files


@pytest.fixture(scope="module")
def server(servers: stack.Stack) -> MySqlServer:
    """A server of its own, whose log is purged and whose files have another name."""
    settings = MySqlSettings(name="probe", server_id=103, extra=(f"--log-bin={BASE}",))
    return servers.mysql.get(settings.name) or servers.add_mysql(settings)


@pytest.fixture
def source(server: MySqlServer) -> MySqlSource:
    return MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))


@pytest.fixture
def least(server: MySqlServer) -> Iterator[MySqlSource]:
    """A user who may see where the log stands, and nothing of what is in it."""
    server.execute("CREATE USER 'least'@'%' IDENTIFIED BY 'x'", "GRANT REPLICATION CLIENT ON *.* TO 'least'@'%'")
    yield MySqlSource(MySqlEndpoint(server.host, server.port, "least", "x"))
    server.execute("DROP USER 'least'@'%'")


@pytest.fixture
def table(server: MySqlServer, databases: Callable[..., str]) -> str:
    schema = databases(server)
    server.execute(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(99))")
    return f"{schema}.t"


def closed_file(server: MySqlServer, table: str) -> tuple[str, list[tuple[int, str]]]:
    """A file with a change in it, closed; its events as (position, type)."""
    server.execute("FLUSH BINARY LOGS", f"INSERT INTO {table} (v) VALUES ('x')")
    file = str(server.execute("SHOW BINARY LOGS")[-1][0])
    server.execute("FLUSH BINARY LOGS")
    return file, [(int(row[1]), str(row[2])) for row in server.execute(f"SHOW BINLOG EVENTS IN '{file}'")]


def facts_at(source: MySqlSource, file: str, pos: int) -> MySqlFacts:
    return source.facts_for((), MySqlPosition(file, pos))


def look(source: MySqlSource, file: str, *positions: int) -> list[EventAtPosition | None]:
    """What stands at each position of a file."""
    with source.session() as session:
        files = list_binlog_files(session)
        return [inspect_position(session, BinlogPosition(file, pos), files) for pos in positions]


def test_every_place_of_a_file_is_told_apart(server: MySqlServer, source: MySqlSource, table: str) -> None:
    file, events = closed_file(server, table)
    size = {str(row[0]): int(row[1]) for row in server.execute("SHOW BINARY LOGS")}[file]
    boundaries = {pos for pos, _ in events} | {size}
    positions = range(events[0][0], size + 1)
    for pos, seen in zip(positions, look(source, file, *positions), strict=True):
        assert seen is not None
        assert seen.place is (EventBoundary.BOUNDARY if pos in boundaries else EventBoundary.INSIDE), pos
    assert look(source, file, size + 1) == [None]
    assert look(source, f"{BASE}.999999", 4) == [None]


def test_a_file_that_was_read_to_its_end_is_known(server: MySqlServer, source: MySqlSource, table: str) -> None:
    file, events = closed_file(server, table)
    ends = {kind: pos for pos, kind in events}
    at_rotate, at_change = look(source, file, ends["Rotate"], events[2][0])
    assert at_rotate is not None
    assert at_change is not None
    assert (at_rotate.read_to_the_end, at_change.read_to_the_end) == (True, False)


def test_the_time_a_file_was_begun_is_read_from_its_first_event(
    server: MySqlServer, source: MySqlSource, least: MySqlSource
) -> None:
    server.execute("FLUSH BINARY LOGS")
    now = float(server.execute("SELECT UNIX_TIMESTAMP()")[0][0])
    newest = str(server.execute("SHOW BINARY LOGS")[-1][0])
    told = began(source.endpoint, newest)
    assert told is not None
    assert abs(told - now) <= 2
    assert began(source.endpoint, f"{BASE}.999999") is None
    assert began(least.endpoint, newest) is None  # not allowed: not known, never a guess


def test_without_rights_the_log_is_not_looked_into(server: MySqlServer, least: MySqlSource, table: str) -> None:
    file, events = closed_file(server, table)
    facts = facts_at(least, file, events[2][0])
    assert facts.at_offset is None
    assert facts.retention is not None
    assert facts.retention.written_until is None
    assert "XA_RECOVER_ADMIN on *.*" in facts.missing_privileges


def test_the_server_purges_when_the_forecast_says_and_not_before(
    server: MySqlServer, source: MySqlSource, table: str
) -> None:
    keep = 4
    before = server.execute("SELECT @@GLOBAL.binlog_expire_logs_seconds")[0][0]
    server.execute(f"SET GLOBAL binlog_expire_logs_seconds = {keep}")
    try:
        file, events = closed_file(server, table)
        seen, retention = source.forecast(MySqlPosition(file, events[2][0]))
        asked = time.monotonic()
        assert retention.expire_s == keep

        def gone() -> bool | None:
            server.execute("FLUSH BINARY LOGS")
            files = [str(row[0]) for row in server.execute("SHOW BINARY LOGS")]
            if file in files:
                raise NotYet(f"{len(files)} files")
            return True

        poll_until(gone, timeout=30, interval=0.3, what=f"{file} is purged")
        real = time.monotonic() - asked
        assert seen.earliest_s is not None
        assert seen.earliest_s <= real + 1  # times of events are whole seconds
        assert real <= keep + 4
    finally:
        server.execute(f"SET GLOBAL binlog_expire_logs_seconds = {before}")
    with pytest.raises(SourceError, match="is not on the server"):
        source.forecast(MySqlPosition(file, 4))


@pytest.mark.parametrize(("hours", "seconds"), [("'24'", 86400), ("NULL", 1)])
def test_a_managed_server_says_itself_how_long_it_keeps_its_log(
    server: MySqlServer, source: MySqlSource, hours: str, seconds: int
) -> None:
    user = server.cdc.user
    server.execute(
        "CREATE PROCEDURE mysql.rds_show_configuration() SELECT 'binlog retention hours' AS name,"
        f" {hours} AS value, 'how long' AS description",
        f"GRANT EXECUTE ON PROCEDURE mysql.rds_show_configuration TO '{user}'@'%'",
    )
    try:
        found = source.facts_for((), None).retention
    finally:
        server.execute("DROP PROCEDURE mysql.rds_show_configuration")
    assert found is not None
    assert found.expire_s == seconds
    usual = source.facts_for((), None).retention
    assert usual is not None
    assert usual.expire_s == 2592000


def test_inv_14_cascades_that_are_not_logged_are_read_from_the_dictionary(
    server: MySqlServer, source: MySqlSource, table: str
) -> None:
    schema = table.partition(".")[0]
    server.execute(
        f"CREATE TABLE {schema}.child (id INT PRIMARY KEY, p INT,"
        f" CONSTRAINT goes FOREIGN KEY (p) REFERENCES {table} (id) ON DELETE CASCADE ON UPDATE SET NULL)"
    )
    found = source.facts_for((table, f"{schema}.child"), None).cascades
    expected = (f"{schema}.child ({table}, DELETE CASCADE, UPDATE SET NULL)",)
    assert found == (() if not server.version.startswith("8.0") else expected)


def test_a_thousand_files_are_observed_within_a_second(server: MySqlServer, source: MySqlSource, table: str) -> None:
    connection = server.connect()
    with connection.cursor() as cursor:
        for _ in range(1000):
            cursor.execute("FLUSH BINARY LOGS")
    connection.close()
    file = str(server.execute("SHOW BINARY LOGS")[2][0])
    facts_at(source, file, 4)  # warm
    began_at = time.monotonic()
    facts = facts_at(source, file, 4)
    seconds = time.monotonic() - began_at
    assert len(facts.binlog_files) >= 1000
    assert facts.retention is not None
    assert facts.retention.written_until is not None
    assert seconds < 1.0
    server.execute(f"PURGE BINARY LOGS TO '{facts.newest_file}'")
