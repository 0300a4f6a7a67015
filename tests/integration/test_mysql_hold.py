"""The hold on a real server: DDL kept out, writes never stopped, refusals and losses as values (INV 10)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from airflow_cdc.core.hold import HoldLimits, HoldStatus
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.hold import Hold
from stack.mysql import MySqlServer
from stack.process import wait_until

NUMBERS = {"8.0": False, "9.7": True}


@pytest.fixture
def source(mysql: MySqlServer) -> MySqlSource:
    return MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password))


@pytest.fixture
def table(mysql: MySqlServer, databases: Callable[..., str]) -> str:
    name = f"{databases()}.t"
    mysql.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 0)")
    return name


@pytest.fixture
def hold(source: MySqlSource) -> Iterator[Hold]:
    held = source.hold("run-1", HoldLimits(lock_wait=2))
    yield held
    held.release()


@contextmanager
def background(server: MySqlServer, *statements: str) -> Iterator[dict[str, Any]]:
    """Statements in a session of their own; the dict gets "error" or "done"."""
    result: dict[str, Any] = {}

    def work() -> None:
        connection = server.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION lock_wait_timeout = 20")
                for statement in statements:
                    cursor.execute(statement)
            result["done"] = time.monotonic()
        except pymysql.MySQLError as error:
            result["error"] = error
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield result
    finally:
        thread.join(30)


def until(condition: Callable[[], object], what: str, timeout: float = 15.0) -> None:
    wait_until(lambda: condition() or None, timeout=timeout, interval=0.05, what=what)


def test_the_hold_keeps_ddl_out_and_lets_changes_through(hold: Hold, mysql: MySqlServer, table: str) -> None:
    state = hold.acquire()
    assert state.held, state.reason
    assert state.blocks_purge is NUMBERS[mysql.version.rpartition(".")[0]]
    with background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT") as altered:
        until(lambda: hold.tick().waiting, "the ALTER waits")
        waiting = hold.state.waiting[0]
        assert waiting.statement == f"ALTER TABLE {table}"
        mysql.execute(f"UPDATE {table} SET v = v + 1")
        assert not altered
        assert hold.release().status is HoldStatus.RELEASED
    assert "done" in altered


def test_purge_is_refused_where_the_capability_says_so(hold: Hold, mysql: MySqlServer) -> None:
    hold.acquire()
    mysql.execute("FLUSH BINARY LOGS")
    newest = mysql.execute("SHOW BINARY LOGS")[-1][0]
    if hold.state.blocks_purge:
        with pytest.raises(pymysql.MySQLError, match="LOCK INSTANCE FOR BACKUP"):
            mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")
    else:
        mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")
        assert [row[0] for row in mysql.execute("SHOW BINARY LOGS")] == [newest]


def test_inv_10_it_lets_go_at_once_when_a_backup_waits_so_that_writes_never_stop(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    """Hold → ALTER waits → FLUSH TABLES WITH READ LOCK waits → every UPDATE waits: until the hold lets go."""
    with source.held("run-2", HoldLimits(every=0.2)) as hold:
        assert hold.state.held
        with background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT"):
            until(lambda: hold.state.waiting, "the ALTER waits")
            with background(mysql, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"):
                began = time.monotonic()
                with background(mysql, f"UPDATE {table} SET v = v + 1") as updated:
                    until(lambda: "done" in updated, "the UPDATE goes through")
                assert time.monotonic() - began < 10
        assert hold.state.status is HoldStatus.RELEASED
        assert "global read lock" in hold.state.reason


def test_inv_10_without_a_look_at_who_waits_every_write_stands_still(
    source: MySqlSource, mysql: MySqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the rule taken out: the UPDATE waits for as long as the hold lasts."""
    monkeypatch.setattr(Hold, "_must_end", lambda *_: "")
    with (
        source.held("run-9", HoldLimits(every=0.2)) as hold,
        background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT"),
    ):
        until(lambda: hold.state.waiting, "the ALTER waits")
        with background(mysql, "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"):
            asked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for global read lock'"
            until(lambda: mysql.execute(asked)[0][0], "the backup waits")
            with background(mysql, f"UPDATE {table} SET v = v + 1") as updated:
                until(lambda: mysql.execute(asked)[0][0] >= 2, "the UPDATE waits behind it")
                assert hold.state.held
                assert not updated
                hold.release()


@pytest.mark.parametrize(
    "statement", ["TRUNCATE TABLE {t}", "RENAME TABLE {t} TO {t}2", "DROP TABLE {t}", "OPTIMIZE TABLE {t}"]
)
def test_inv_10_it_lets_go_when_a_statement_that_waits_for_it_keeps_others_from_a_table(
    source: MySqlSource, mysql: MySqlServer, table: str, statement: str
) -> None:
    with (
        source.held("run-10", HoldLimits(every=0.2)) as hold,
        background(mysql, statement.format(t=table)) as changed,
    ):
        until(lambda: hold.state.waiting, "the statement waits")
        assert hold.state.held
        with background(mysql, f"SELECT COUNT(*) FROM {table}") as read:
            until(lambda: not hold.state.held, "it is let go")
            until(lambda: changed and read, "both end")
    assert "done" in changed
    assert hold.state.status is HoldStatus.RELEASED
    words = " ".join(statement.split()[:2])
    assert re.fullmatch(
        rf"\w+: {words} .* waits for it and keeps others from a table \(\w+: SELECT .*\)", hold.state.reason
    )


def test_inv_10_a_column_that_waits_for_it_keeps_nobody_from_its_table(
    source: MySqlSource, mysql: MySqlServer, table: str
) -> None:
    with (
        source.held("run-11", HoldLimits(every=0.2)) as hold,
        background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT") as altered,
    ):
        until(lambda: hold.state.waiting, "the ALTER waits")
        mysql.execute(f"UPDATE {table} SET v = v + 1")
        assert hold.state.held
        assert not altered


def test_inv_10_an_orphan_is_freed_by_the_server(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    """The owner is silent (SIGSTOP, a lost network): nobody calls tick()."""
    hold = source.hold("run-3", HoldLimits(orphan_after=1))
    hold.acquire()
    with background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT") as altered:
        until(lambda: "done" in altered, "the ALTER goes through by itself")
    lost = hold.tick()
    assert lost.status is HoldStatus.LOST
    assert lost.reason
    assert hold.tick() == lost


def test_a_killed_hold_is_a_value_and_stays_lost(hold: Hold, mysql: MySqlServer) -> None:
    state = hold.acquire()
    mysql.execute(f"KILL {state.connection_id}")
    until(lambda: not hold.tick().held, "the loss is seen")
    assert hold.state.status is HoldStatus.LOST
    assert hold.release().status is HoldStatus.LOST


def test_another_process_sees_whether_the_hold_lives(hold: Hold, source: MySqlSource) -> None:
    until(lambda: source.hold_owner("run-1") is None, "the mark of another test is gone")
    state = hold.acquire()
    assert source.hold_owner("run-1") == state.connection_id
    hold.release()
    until(lambda: source.hold_owner("run-1") is None, "the mark is gone")


def test_a_second_hold_of_one_label_is_refused(hold: Hold, source: MySqlSource) -> None:
    first = hold.acquire()
    second = source.hold("run-1", HoldLimits(lock_wait=1)).acquire()
    assert second.status is HoldStatus.REFUSED
    assert str(first.connection_id) in second.reason


def test_running_ddl_makes_it_wait_but_not_for_ever(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    """A DDL statement that itself waits (for a transaction that reads its table) holds the backup lock."""
    blocker = mysql.connect(autocommit=False)
    with blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")
    with background(mysql, f"ALTER TABLE {table} ADD COLUMN c INT"):
        until(lambda: any("metadata lock" in str(row[6]) for row in mysql.execute("SHOW PROCESSLIST")), "DDL runs")
        began = time.monotonic()
        state = source.hold("run-4", HoldLimits(lock_wait=1)).acquire()
        assert state.status is HoldStatus.REFUSED
        assert "DDL" in state.reason
        assert time.monotonic() - began < 8
        blocker.close()


@pytest.mark.parametrize(("granted", "missing"), [("PROCESS", "BACKUP_ADMIN"), ("BACKUP_ADMIN", "PROCESS")])
def test_a_missing_privilege_refuses_the_hold_by_name(mysql: MySqlServer, granted: str, missing: str) -> None:
    mysql.execute(
        "DROP USER IF EXISTS holder", "CREATE USER holder IDENTIFIED BY 'pw'", f"GRANT {granted} ON *.* TO holder"
    )
    state = MySqlSource(MySqlEndpoint(mysql.host, mysql.port, "holder", "pw")).hold("run-5").acquire()
    assert state.status is HoldStatus.REFUSED
    assert missing in state.reason
    mysql.execute("DROP USER holder")


def test_an_unreachable_server_refuses_the_hold(mysql: MySqlServer) -> None:
    state = MySqlSource(MySqlEndpoint("127.0.0.1", 1, "cdc", "pw")).hold("run-6").acquire()
    assert state.status is HoldStatus.REFUSED
    assert "cannot connect" in state.reason


def test_it_ends_at_its_limits(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    short = source.hold("run-7", HoldLimits(max_seconds=0.2))
    short.acquire()
    until(lambda: not short.tick().held, "the time limit")
    assert "0.2 s" in short.state.reason
    small = source.hold("run-8", HoldLimits(max_bytes=50))
    small.acquire()
    mysql.execute(f"UPDATE {table} SET v = v + 1")
    assert small.tick().status is HoldStatus.RELEASED
    assert "bytes" in small.state.reason


def test_the_state_is_plain_json(hold: Hold) -> None:
    value = hold.acquire().to_json()
    assert value["status"] == "HELD"
    assert type(value["status"]) is str
    assert value["waiting"] == []
