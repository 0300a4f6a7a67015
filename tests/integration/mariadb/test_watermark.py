"""W, the name of the server's run, and the position of a read view, on a real MariaDB with the documented rights alone."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

import stack
from airflow_cdc.core.errors import SchemaError, SourceError
from airflow_cdc.core.hold import HoldStatus
from airflow_cdc.sources.errors import SourceSettingError, WrongServerError
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.log import open_view, position_at, settled_prepares
from airflow_cdc.sources.mariadb.position import mariadb_position
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from stack.mysql import MySqlServer
from tests.integration.mariadb.support import columns_logged, here
from tests.integration.mariadb.test_mariadb_source import code
from tests.paths import ROOT

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch

VIEWS = 200
WRITERS = 4


@contextmanager
def inserting(server: MySqlServer, table: str, threads: int = WRITERS) -> Iterator[None]:
    """Transactions of one row each, by several sessions at once."""
    stop = threading.Event()

    def insert() -> None:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(f"INSERT INTO {table} (v) VALUES ('x')")

    running = [threading.Thread(target=insert, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in running:
            thread.join(30)


def test_inv_19_a_view_holds_all_up_to_its_position_and_nothing_later(own: MySqlServer) -> None:
    """Each transaction is one row, so the rows of a view are as many as the numbers up to its position."""
    own.execute("INSERT INTO shop.t (v) VALUES ('first')")
    source = MariaDbSource(MySqlEndpoint(own.host, own.port, own.cdc.user, own.cdc.password))
    moved = set()
    with inserting(own, "shop.t"), source.session() as session:
        base = None
        for _ in range(VIEWS):
            place = open_view(session)
            rows = session.row("SELECT COUNT(*) AS n FROM shop.t", doing="count").number("n")
            session.run("COMMIT", doing="end the view")
            domains = position_at(session, place.file, place.pos).domains
            assert domains is not None
            base = domains.number(0) - rows if base is None else base
            assert domains.number(0) - rows == base
            moved.add(rows)
    assert len(moved) > VIEWS / 4, "the writers stood still"


def test_inv_07_everything_up_to_w_is_visible_at_once(own: MySqlServer) -> None:
    source = MariaDbSource(MySqlEndpoint(own.host, own.port, own.cdc.user, own.cdc.password))
    own.execute("INSERT INTO shop.t (v) VALUES ('first')")
    with closing(own.connect()) as reader, reader.cursor() as cursor, inserting(own, "shop.t"):
        base = None
        for _ in range(20):
            domains = mariadb_position(source.watermark().position).domains
            cursor.execute("SELECT COUNT(*) FROM shop.t")
            rows = cursor.fetchone()[0]
            assert domains is not None
            base = domains.number(0) - rows if base is None else max(base, domains.number(0) - rows)
            assert domains.number(0) - rows <= base


def test_w_is_taken_without_a_lock_and_changes_nothing(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    server.execute(f"INSERT INTO {table} (v) VALUES ('x')")
    files = server.execute("SHOW BINARY LOGS")
    with closing(server.connect(autocommit=False)) as writer, writer.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} (v) VALUES ('open')")
        taken = source.watermark()
        source.wait_visible(taken, 10)
        writer.rollback()
    assert server.execute("SHOW BINARY LOGS") == files
    assert str(mariadb_position(taken.position).domains) == here(server)["gtids"]


def test_inv_08_a_prepared_xa_transaction_refuses_the_watermark(
    source: MariaDbSource, server: MySqlServer, table: str
) -> None:
    with closing(server.connect()) as other, other.cursor() as cursor:
        for statement in ("XA START 'w'", f"INSERT INTO {table} (v) VALUES ('x')", "XA END 'w'", "XA PREPARE 'w'"):
            cursor.execute(statement)
        try:
            with pytest.raises(SourceSettingError, match=r"prepared XA transactions stay open.*'w'"):
                source.watermark(xa_timeout=0.3)
        finally:
            cursor.execute("XA ROLLBACK 'w'")
    source.watermark(xa_timeout=0.3)


def test_inv_19_no_view_is_opened_between_a_prepare_and_its_commit(
    source: MariaDbSource, server: MySqlServer, table: str
) -> None:
    """The row is in the log at its PREPARE: a view there would say that it holds it."""
    with closing(server.connect()) as other, other.cursor() as cursor, source.session() as session:
        for statement in ("XA START 'v'", f"INSERT INTO {table} (v) VALUES ('x')", "XA END 'v'", "XA PREPARE 'v'"):
            cursor.execute(statement)
        try:
            with pytest.raises(SourceSettingError, match="prepared XA transactions stay open"):
                open_view(session, 0.3)
        finally:
            cursor.execute("XA COMMIT 'v'")
        settled = settled_prepares(session)
        place = open_view(session, 0.3)
        assert place.prepares == settled
        rows = session.rows(f"SELECT v FROM {table}", doing="read")
    assert rows == [{"v": "x"}]


def test_inv_09_a_read_that_reaches_another_run_or_server_fails(servers: stack.Stack, own: MySqlServer) -> None:
    own.execute("INSERT INTO shop.t (v) VALUES ('x')")
    source = MariaDbSource(MySqlEndpoint(own.host, own.port, own.cdc.user, own.cdc.password))
    taken = source.watermark()
    source.check_same_server(taken)
    reading(source, source.init_statement(taken))
    elsewhere = replace(taken, server=taken.server.replace("107/", "108/", 1))
    with pytest.raises(WrongServerError):
        source.check_same_server(elsewhere)
    with pytest.raises(pymysql.MySQLError, match="more than 1 row"):
        reading(source, source.init_statement(elsewhere))

    servers.restart_mysql(own.settings.name)
    with pytest.raises(ServerRestartedError, match="restarted"):
        source.check_same_server(taken)
    with pytest.raises(pymysql.MySQLError, match="more than 1 row"):
        reading(source, source.init_statement(taken))
    assert source.watermark().server != taken.server


def reading(source: MariaDbSource, statement: str) -> None:
    with closing(source.connect()) as connection:
        connection.cursor().execute(statement)


def test_without_a_transaction_in_the_log_there_is_no_watermark(own: MySqlServer) -> None:
    own.execute("RESET MASTER")
    source = MariaDbSource(MySqlEndpoint(own.host, own.port, own.cdc.user, own.cdc.password))
    with pytest.raises(SourceSettingError, match="Debezium cannot start from a position without GTIDs"):
        source.watermark()


def test_the_start_of_the_next_file_is_a_watermark(source: MariaDbSource, server: MySqlServer, table: str) -> None:
    server.execute(f"INSERT INTO {table} (v) VALUES ('before')")
    before, gtids = source.position(), here(server)["gtids"]
    server.execute("FLUSH BINARY LOGS", f"INSERT INTO {table} (v) VALUES ('after')")
    found = mariadb_position(source.start_of_file_after(before.position, source.watermark()).position)
    assert (found.pos, str(found.domains)) == (4, gtids)
    with pytest.raises(SourceError, match="no binlog file follows"):
        source.start_of_file_after(source.position().position, source.watermark())


# ---- what Debezium does not bring ----------------------------------------------------------------


def test_inv_31_a_compressed_log_is_named_as_one_that_loses_changes(own: MySqlServer) -> None:
    own.execute("INSERT INTO shop.t (v) VALUES ('x')")
    source = MariaDbSource(MySqlEndpoint(own.host, own.port, own.cdc.user, own.cdc.password))
    assert code(source, here(own)).code == "HEALTHY"
    own.execute("SET GLOBAL log_bin_compress = ON")
    found = code(source, here(own))
    assert found.code == "SOURCE_MISCONFIGURED"
    assert "ON, must be OFF" in str(found.evidence)


@pytest.mark.parametrize(
    ("create", "why"),
    [
        ("CREATE TABLE {} (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING", "is system-versioned"),
        ("CREATE SEQUENCE {}", "is a sequence"),
        ("CREATE TABLE {} (id INT PRIMARY KEY) ENGINE = MyISAM", "is kept by MyISAM"),
        ("CREATE TABLE {} (id INT PRIMARY KEY, v TEXT COMPRESSED)", "has the compressed column v"),
    ],
)
def test_inv_31_what_its_connector_cannot_follow_is_refused_by_name(
    source: MariaDbSource, server: MySqlServer, table: str, create: str, why: str
) -> None:
    other = f"{table}2"
    server.execute(create.format(other))
    for ask in (source.definitions, source.definitions_and_defaults):
        with pytest.raises(SourceSettingError, match=f"{re.escape(other)} {why}"):
            ask([table, other])
        ask([table])


@pytest.mark.parametrize("kept", ["STORED", "VIRTUAL"])
def test_inv_31_a_generated_column_is_refused_where_the_log_lacks_it(
    source: MariaDbSource, server: MySqlServer, table: str, kept: str
) -> None:
    """Whether the log lacks it is read from the file that the server has written."""
    other = f"{table}2"
    server.execute(f"CREATE TABLE {other} (id INT PRIMARY KEY, v INT, twice INT AS (v * 2) {kept})")
    server.execute("FLUSH BINARY LOGS")
    file = here(server)["file"]
    server.execute(f"INSERT INTO {other} (id, v) VALUES (1, 1)", f"UPDATE {other} SET v = 2", f"DELETE FROM {other}")
    logged = columns_logged((Path(server.datadir) / file).read_bytes())
    assert logged[0] == 3, "an INSERT has all of them"
    if server.version.startswith("10."):
        assert logged == [3, 3, 3]
        source.definitions([other])
        return
    assert logged == [3, 2, 2]
    with pytest.raises(SourceSettingError, match=f"{re.escape(other)} has the generated column twice: MariaDB 11"):
        source.definitions([table, other])
    source.definitions([table])


@pytest.mark.parametrize(
    ("declared", "since"),
    [("uuid", (10, 7)), ("inet4", (10, 10)), ("inet6", (10, 5)), ("vector(3) NOT NULL", (11, 7))],
)
def test_inv_31_a_type_that_its_connector_garbles_is_refused_by_name(
    source: MariaDbSource, server: MySqlServer, table: str, declared: str, since: tuple[int, int]
) -> None:
    if tuple(map(int, server.version.split(".")[:2])) < since:
        pytest.skip(f"{declared} is known since MariaDB {since[0]}.{since[1]}")
    other = f"{table}2"
    server.execute(f"CREATE TABLE {other} (id INT PRIMARY KEY, v {declared})")
    column = source.definitions([other])[other].column("v")
    with pytest.raises(SchemaError, match=rf"type {declared[:5]}.* is not supported \(column v\)"):
        _ = column.value_type


# ---- rights --------------------------------------------------------------------------------------


def test_the_documented_rights_are_enough_for_all_that_a_recovery_asks(
    server: MySqlServer, databases: Callable[..., str]
) -> None:
    """Exactly examples/grants_mariadb.sql, with a password and a database of our own."""
    database = databases(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {database}.t VALUES (1, 1)")
    text = (ROOT / "examples/grants_mariadb.sql").read_text().replace("'cdc'@'%'", "'exactly'@'%'")
    statements = [one for one in text.replace("shop.*", f"{database}.*").split(";") if one.strip()]
    server.execute("DROP USER IF EXISTS exactly", *statements)
    source = MariaDbSource(MySqlEndpoint(server.host, server.port, "exactly", "choose-one"))
    full = f"{database}.t"
    taken = source.watermark()
    source.wait_visible(taken, 10)
    source.check_same_server(taken)
    assert source.still_available(taken)
    assert source.definitions([full])[full].key == ("id",)
    assert source.table_ids([full]).keys() == {full}
    assert source.count_rows(full, 10) == 1
    assert source.xa_pending() == []
    assert source.hold("shop").acquire().status is HoldStatus.UNSUPPORTED
    assert source.grants().missing([full], gtid=False, keyless=[full]) == ()
    server.execute("DROP USER exactly")
