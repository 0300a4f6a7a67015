"""The MySQL source on real servers: watermark, barriers, availability, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pymysql
import pytest

from airflow_cdc.core.errors import ConfigError, DeadlineError, MissingPrivilegeError, SourceError
from airflow_cdc.sources.errors import (
    SourceAccessError,
    SourceSettingError,
    SourceTlsError,
    SourceUnreachableError,
    WrongServerError,
)
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.sources.mysql.replica import start_of_file_after
from stack.mysql import MySqlServer
from tests.marks import gtids_of, moved

OTHER = "00000000-0000-0000-0000-000000000001"


def endpoint(server: MySqlServer) -> MySqlEndpoint:
    return MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)


@pytest.fixture
def source(mysql: MySqlServer) -> MySqlSource:
    return MySqlSource(endpoint(mysql))


@pytest.fixture
def source_nogtid(mysql_nogtid: MySqlServer) -> MySqlSource:
    return MySqlSource(endpoint(mysql_nogtid))


@pytest.fixture
def poor(mysql: MySqlServer) -> Iterator[MySqlSource]:
    """A user who may only read nothing: every privilege is missing."""
    mysql.execute("DROP USER IF EXISTS poor", "CREATE USER poor IDENTIFIED BY 'poor-pw-1'")
    yield MySqlSource(MySqlEndpoint(mysql.host, mysql.port, "poor", "poor-pw-1"))
    mysql.execute("DROP USER poor")


@pytest.fixture
def table(mysql: MySqlServer, databases: Callable[..., str]) -> str:
    name = f"{databases()}.t"
    mysql.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))")
    return name


def test_facts_of_a_gtid_server(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    facts = source.facts()
    uuid = mysql.execute("SELECT @@server_uuid")[0][0]
    assert (facts.server_uuid, facts.server_id, facts.version) == (uuid, 101, mysql.version)
    assert (facts.gtid_mode, facts.log_bin, facts.binlog_format, facts.row_image) == ("ON", True, "ROW", "FULL")
    assert facts.gtid_executed is not None
    assert not facts.gtid_executed.is_empty
    assert facts.gtid_purged is not None
    assert facts.binlog_files[-1].name == facts.current.file
    assert facts.uptime_s >= 0


def test_facts_without_gtid(source_nogtid: MySqlSource) -> None:
    facts = source_nogtid.facts()
    assert facts.gtid_mode == "OFF"
    assert facts.gtid_executed == GtidSet()


def test_facts_change_nothing(source: MySqlSource) -> None:
    before = source.facts()
    after = source.facts()
    assert (after.binlog_files, after.gtid_executed) == (before.binlog_files, before.gtid_executed)


def test_watermark_on_a_gtid_server_is_the_set(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    mysql.execute(f"INSERT INTO {table} VALUES (1, 'a')")
    mark = source.watermark()
    assert mysql_position(mark.position).gtids == GtidSet.parse(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0])
    files = [file.name for file in source.facts().binlog_files]
    assert mysql_position(mark.position).file == files[-1]


def test_inv_07_without_gtid_the_watermark_is_the_start_of_a_new_file(
    source_nogtid: MySqlSource, mysql_nogtid: MySqlServer
) -> None:
    before = source_nogtid.facts().current
    mark = source_nogtid.watermark()
    assert mysql_position(mark.position).gtids is None
    assert (mysql_position(mark.position).place.file_number, mysql_position(mark.position).pos) == (
        before.file_number + 1,
        4,
    )
    assert source_nogtid.still_available(mark)


def test_inv_07_a_commit_under_way_at_the_rotation_is_visible_afterwards(
    source_nogtid: MySqlSource, mysql_nogtid: MySqlServer, databases: Callable[..., str]
) -> None:
    """A writer never stops; every row logged before W must be readable right after W was taken."""
    name = databases(mysql_nogtid)
    mysql_nogtid.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    with running_writer(mysql_nogtid, f"{name}.t") as written:
        for _ in range(8):
            at_least = written()
            mark = source_nogtid.watermark()
            rows = mysql_nogtid.execute(f"SELECT COUNT(*) FROM {name}.t")[0][0]
            in_older = rows_before(mysql_nogtid, mysql_position(mark.position).file)
            assert rows >= at_least
            assert in_older <= rows


def rows_before(server: MySqlServer, file: str) -> int:
    """Row events (one per row here) of our table in the file before `file`, plus all earlier ones counted so."""
    files = [row[0] for row in server.execute("SHOW BINARY LOGS") if row[0] < file]
    events = server.execute(f"SHOW BINLOG EVENTS IN '{files[-1]}'")
    return sum(1 for event in events if event[2] == "Write_rows")


class running_writer:  # noqa: N801 - reads as a statement
    """Inserts ids 1, 2, 3 … each in its own transaction until the block ends; yields a counter."""

    def __init__(self, server: MySqlServer, table: str) -> None:
        self.server, self.table, self.done, self.stop = server, table, 0, threading.Event()
        self.thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        connection = self.server.connect()
        with connection.cursor() as cursor:
            while not self.stop.is_set():
                cursor.execute(f"INSERT INTO {self.table} VALUES (%s)", (self.done + 1,))
                self.done += 1
        connection.close()

    def __enter__(self) -> Callable[[], int]:
        self.thread.start()
        return lambda: self.done

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def test_position_covers_everything_that_was_visible_before(
    source: MySqlSource, mysql: MySqlServer, databases: Callable[..., str]
) -> None:
    """A row is visible a moment before its GTID is in gtid_executed; position() must not miss it.

    One writer, one transaction per row: row n is transaction base + n.
    """
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    start = source.facts().gtid_executed
    assert start is not None
    uuid = source.facts().server_uuid
    base = max(hi for u, _, spans in start.items for _, hi in spans if u == uuid)
    reader = mysql.connect()
    with running_writer(mysql, f"{name}.t"), reader.cursor() as cursor:
        for _ in range(50):
            cursor.execute(f"SELECT COALESCE(MAX(id), 0) FROM {name}.t")
            (seen,) = cursor.fetchone()
            mark = source.position()
            assert mysql_position(mark.position).gtids is not None
            assert gtids_of(mark).contains(uuid, base + seen) or seen == 0
    reader.close()


@pytest.mark.parametrize("name", ["mysql", "mysql_nogtid"])
def test_inv_06_a_file_without_changes_counts_as_its_start(name: str, request: pytest.FixtureRequest) -> None:
    """A connector that has read a quiet server to its end stands at 4 after a rotation, and stays there."""
    server: MySqlServer = request.getfixturevalue(name)
    source = MySqlSource(endpoint(server))
    server.execute("FLUSH BINARY LOGS")
    current = source.facts().current
    assert current.pos > 4
    assert mysql_position(source.position().position).place == replace(current, pos=4)
    server.execute("CREATE DATABASE IF NOT EXISTS cdc_passing", "DROP DATABASE cdc_passing")
    assert mysql_position(source.position().position).place == source.facts().current


def test_inv_07_wait_visible_waits_for_the_set_and_gives_up_in_time(source: MySqlSource, mysql: MySqlServer) -> None:
    mark = source.watermark()
    source.wait_visible(mark, 5)
    future = moved(mark, gtids=GtidSet.parse(f"{mark.server}:1-99999999"))
    began = time.monotonic()
    with pytest.raises(DeadlineError, match="not every transaction"):
        source.wait_visible(future, 1)
    assert time.monotonic() - began < 5


def test_inv_07_wait_visible_returns_once_the_transaction_is_there(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    mark = source.watermark()
    assert mysql_position(mark.position).gtids is not None
    # its own alone: transactions of another server may have been injected by a test before
    last = max(hi for uuid, _, spans in gtids_of(mark).items if uuid == mark.server for _, hi in spans)
    later = replace(
        mark,
        position=replace(
            mysql_position(mark.position),
            gtids=gtids_of(mark) | GtidSet.parse(f"{mark.server}:{last + 1}"),
        ),
    )
    timer = threading.Timer(0.4, mysql.execute, [f"INSERT INTO {table} VALUES (9, 'late')"])
    timer.start()
    source.wait_visible(later, 20)
    assert mysql.execute(f"SELECT v FROM {table} WHERE id = 9") == [("late",)]
    timer.join()


def test_inv_08_a_prepared_xa_transaction_refuses_the_watermark(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    connection = mysql.connect()
    run(connection, "XA START 'cdc-1'", f"INSERT INTO {table} VALUES (1, 'xa')", "XA END 'cdc-1'", "XA PREPARE 'cdc-1'")
    try:
        assert len(source.xa_pending()) == 1
        with pytest.raises(SourceSettingError, match="prepared XA transactions stay open") as caught:
            source.watermark(xa_timeout=0.5)
        assert "XA ROLLBACK" in str(caught.value)
    finally:
        run(connection, "XA ROLLBACK 'cdc-1'")
        connection.close()
    assert gtids_of(source.watermark(xa_timeout=5))


def test_inv_08_the_watermark_waits_for_an_xa_transaction_that_ends(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    connection = mysql.connect()
    run(connection, "XA START 'cdc-2'", f"INSERT INTO {table} VALUES (2, 'xa')", "XA END 'cdc-2'", "XA PREPARE 'cdc-2'")
    timer = threading.Timer(0.5, run, [connection, "XA COMMIT 'cdc-2'"])
    timer.start()
    source.watermark(xa_timeout=20)
    # what was logged before W is visible now
    assert mysql.execute(f"SELECT v FROM {table} WHERE id = 2") == [("xa",)]
    timer.join()
    connection.close()


def run(connection: pymysql.connections.Connection[pymysql.cursors.Cursor], *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_still_available_until_something_after_the_watermark_is_purged(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    mysql.execute("FLUSH BINARY LOGS")
    mark = source.watermark()
    assert source.still_available(mark)
    mysql.execute("FLUSH BINARY LOGS")
    mysql.execute(f"PURGE BINARY LOGS TO '{source.facts().current.file}'")
    # the file of W is gone, but no transaction after W was in it: a GTID connector can still start
    assert mysql_position(mark.position).file not in [file.name for file in source.facts().binlog_files]
    assert source.still_available(mark)
    mysql.execute(f"INSERT INTO {table} VALUES (1, 'a')", "FLUSH BINARY LOGS")
    mysql.execute(f"PURGE BINARY LOGS TO '{source.facts().current.file}'")
    gone = source.still_available(mark)
    assert not gone
    assert "purged" in gone.why


@pytest.mark.parametrize("name", ["mysql", "mysql_nogtid"])
def test_inv_26_the_file_after_one_begins_where_what_stands_before_it_ends(
    name: str, request: pytest.FixtureRequest, databases: Callable[..., str]
) -> None:
    server: MySqlServer = request.getfixturevalue(name)
    source, gtid = MySqlSource(endpoint(server)), name == "mysql"
    before = source.position()
    schema = databases()
    server.execute(
        f"CREATE DATABASE IF NOT EXISTS {schema}", f"CREATE TABLE {schema}.cut (id INT)", "FLUSH BINARY LOGS"
    )
    between = source.position()
    server.execute(f"INSERT INTO {schema}.cut VALUES (1)")
    after = source.watermark()
    found = start_of_file_after(source.endpoint, mysql_position(before.position).file, after)
    at, wanted = mysql_position(found.position), mysql_position(between.position)
    assert (at.file, at.pos, found.server) == (wanted.file, 4, after.server)
    assert at.gtids == (wanted.gtids if gtid else None)
    assert source.still_available(found)
    with pytest.raises(SourceError, match="no binlog file follows"):
        start_of_file_after(source.endpoint, mysql_position(after.position).file, after)


def test_a_set_the_server_never_had_is_not_available(source: MySqlSource) -> None:
    mark = source.watermark()
    assert mysql_position(mark.position).gtids is not None
    foreign = replace(
        mark,
        position=replace(mysql_position(mark.position), gtids=gtids_of(mark) | GtidSet.parse(f"{OTHER}:1-5")),
    )
    gone = source.still_available(foreign)
    assert not gone
    assert OTHER in gone.why


def test_still_available_without_gtid_looks_at_file_and_size(
    source_nogtid: MySqlSource, mysql_nogtid: MySqlServer
) -> None:
    mark = source_nogtid.watermark()
    beyond = source_nogtid.still_available(moved(mark, pos=10**9))
    assert not beyond
    assert "beyond" in beyond.why
    mysql_nogtid.execute("FLUSH BINARY LOGS")
    mysql_nogtid.execute(f"PURGE BINARY LOGS TO '{source_nogtid.facts().current.file}'")
    gone = source_nogtid.still_available(mark)
    assert not gone
    assert f"{mysql_position(mark.position).file} was purged" in gone.why


def test_inv_09_another_server_is_refused_everywhere(source: MySqlSource) -> None:
    other = replace(source.watermark(), server=OTHER)
    for check in (source.check_same_server, source.still_available, lambda w: source.wait_visible(w, 1)):
        with pytest.raises(WrongServerError, match=OTHER):
            check(other)


def test_inv_09_a_restart_since_the_watermark_is_seen(source: MySqlSource) -> None:
    mark = source.watermark()
    source.check_same_server(mark)
    uptime = source.facts().uptime_s
    before_start = mark.taken_at - timedelta(seconds=uptime + 2)
    with pytest.raises(ServerRestartedError, match=r"restarted .* Clear the task fence_and_watermark"):
        source.check_same_server(replace(mark, taken_at=before_start))


def test_inv_09_the_init_statement_pins_the_session_and_proves_the_server(
    source: MySqlSource, mysql: MySqlServer
) -> None:
    connection = mysql.connect(mysql.cdc)
    run(
        connection,
        "SET SESSION sql_mode = 'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH'",
        source.init_statement(source.watermark()),
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@transaction_isolation, @@time_zone, @@sql_mode")
        assert cursor.fetchone() == ("REPEATABLE-READ", "+00:00", "")
    connection.close()


def test_inv_09_the_init_statement_fails_on_another_server_or_a_lagging_one(
    source: MySqlSource, mysql: MySqlServer
) -> None:
    mark = source.watermark()
    assert mysql_position(mark.position).gtids is not None
    wrong = replace(mark, server=OTHER)
    lagging = moved(mark, gtids=GtidSet.parse(f"{mark.server}:1-99999999"))
    for bad in (wrong, lagging):
        statement = source.init_statement(bad)
        assert "\n" not in statement
        assert ";" not in statement
        connection = mysql.connect(mysql.cdc)
        with pytest.raises(pymysql.err.OperationalError, match=f"is not {bad.server}, or lags"):
            run(connection, statement)
        connection.close()


def test_the_init_statement_of_older_servers_fails_too(source: MySqlSource, mysql: MySqlServer) -> None:
    from airflow_cdc.sources.mysql.capabilities import ServerVersion
    from airflow_cdc.sources.mysql.server_log import reading_init_statement

    mark = source.watermark()
    old = ServerVersion.parse("5.7.44")
    connection = mysql.connect(mysql.cdc)
    run(connection, reading_init_statement(mark, old))
    with pytest.raises(pymysql.err.OperationalError, match="more than 1 row"):
        run(connection, reading_init_statement(replace(mark, server=OTHER), old))
    connection.close()


def test_a_wrong_password_is_one_clear_error_without_the_password(mysql: MySqlServer) -> None:
    wrong = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, "not-the-pa55word"))
    with pytest.raises(SourceAccessError) as caught:
        wrong.facts()
    text = str(caught.value)
    assert "access denied" in text
    assert f"{mysql.host}:{mysql.port}" in text
    assert "Check login and password" in text
    assert "not-the-pa55word" not in text + repr(caught.value) + repr(wrong.endpoint)
    assert caught.value.__cause__ is None


def test_an_unreachable_server_is_one_clear_error(mysql: MySqlServer) -> None:
    closed = MySqlSource(MySqlEndpoint("127.0.0.1", 1, "cdc", "pw"))
    with pytest.raises(SourceUnreachableError, match="cannot connect") as caught:
        closed.facts()
    assert "127.0.0.1:1" in str(caught.value)


def test_an_unknown_host_is_one_clear_error() -> None:
    nowhere = MySqlSource(MySqlEndpoint("no-such-host.invalid", 3306, "cdc", "pw"))
    with pytest.raises(SourceUnreachableError, match=r"no-such-host\.invalid"):
        nowhere.facts()


@pytest.mark.parametrize(
    ("call", "privilege"),
    [("facts", "REPLICATION CLIENT"), ("watermark", "REPLICATION CLIENT"), ("xa_pending", "XA_RECOVER_ADMIN")],
)
def test_a_missing_privilege_is_named(poor: MySqlSource, call: str, privilege: str) -> None:
    with pytest.raises(MissingPrivilegeError) as caught:
        getattr(poor, call)()
    assert caught.value.privilege == privilege
    assert f"GRANT {privilege} ON *.*" in str(caught.value)


def test_rotation_names_the_privilege_it_lacks(mysql_nogtid: MySqlServer) -> None:
    mysql_nogtid.execute("DROP USER IF EXISTS halfway", "CREATE USER halfway IDENTIFIED BY 'pw'")
    mysql_nogtid.execute("GRANT REPLICATION CLIENT ON *.* TO halfway")
    source = MySqlSource(MySqlEndpoint(mysql_nogtid.host, mysql_nogtid.port, "halfway", "pw"))
    with pytest.raises(MissingPrivilegeError) as caught:
        source.watermark()
    assert caught.value.privilege == "RELOAD"
    mysql_nogtid.execute("DROP USER halfway")


def test_grants_of_the_documented_user_suffice(source: MySqlSource, poor: MySqlSource) -> None:
    assert source.grants().missing(["shop.orders"], gtid=False) == ()
    missing = {need.privilege: need.required for need in poor.grants().missing(["shop.orders"], gtid=True)}
    assert missing == {
        "SELECT": True,
        "REPLICATION CLIENT": True,
        "XA_RECOVER_ADMIN": True,
        "PROCESS": False,
        "BACKUP_ADMIN": False,
    }


def test_grants_through_a_role_count(mysql: MySqlServer) -> None:
    mysql.execute(
        "DROP USER IF EXISTS byrole",
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader",
        "GRANT REPLICATION CLIENT ON *.* TO reader",
        "GRANT SELECT ON `sh\\_op`.* TO reader",
        "CREATE USER byrole IDENTIFIED BY 'pw' DEFAULT ROLE reader",
    )
    grants = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, "byrole", "pw")).grants()
    assert grants.has("replication client")
    assert grants.has("SELECT", "sh_op", "t")
    assert not grants.has("SELECT", "shxop", "t")
    mysql.execute("DROP USER byrole", "DROP ROLE reader")


def test_tls_with_the_right_ca_works_and_with_a_wrong_one_does_not(mysql: MySqlServer, tmp_path: Path) -> None:
    ca = mysql.datadir / "ca.pem"
    good = replace(endpoint(mysql), ssl={"mode": "verify_ca", "ca": str(ca)})
    with MySqlSource(good).session() as session:
        assert session.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'", doing="look")["Value"]
    with pytest.raises(SourceTlsError, match="not trusted"):
        MySqlSource(replace(good, ssl={"mode": "verify_ca"})).facts()
    with pytest.raises(SourceTlsError, match="Check ca, cert and key"):
        MySqlSource(replace(good, ssl={"ca": str(tmp_path / "none.pem")})).facts()


def test_tls_can_be_switched_off(mysql: MySqlServer) -> None:
    with MySqlSource(replace(endpoint(mysql), ssl={"mode": "disabled"})).session() as session:
        assert session.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'", doing="look")["Value"] == ""


@pytest.mark.parametrize("ssl", [{"modus": "required"}, {"mode": "sometimes"}])
def test_unknown_tls_settings_are_configuration_errors(mysql: MySqlServer, ssl: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="unknown ssl"):
        MySqlSource(replace(endpoint(mysql), ssl=ssl)).facts()


def test_a_failing_statement_names_what_was_tried(source: MySqlSource) -> None:
    with source.session() as session, pytest.raises(SourceError, match="could not read the moon") as caught:
        session.rows("SELECT * FROM moon.rocks", doing="read the moon")
    assert "Unknown database" in str(caught.value)


def test_rows_are_counted_and_a_count_that_takes_too_long_is_not_known(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    mysql.execute(f"INSERT INTO {table} (id) VALUES (1), (2), (3)")
    assert source.count_rows(table, 30) == 3
    mysql.execute(
        "SET SESSION cte_max_recursion_depth = 300000",
        f"INSERT INTO {table} (id) WITH RECURSIVE n AS (SELECT 10 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n",
    )
    assert source.count_rows(table, 0.001) is None
    with pytest.raises(SourceError, match="nowhere"):
        source.count_rows("nowhere.t", 30)
