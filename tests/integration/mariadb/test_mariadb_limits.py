"""What is not done on MariaDB and why, what it says to a connector, and what an observation costs."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from airflow_cdc.core.hold import HoldStatus
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from stack.mysql import MySqlServer
from tests.diagnosing import explain
from tests.integration.mariadb.support import endpoint, here, position_in, purge, purge_to, rotate

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch

FILES = 1000


# ---- what is not done on MariaDB ----------------------------------------------------------------


def test_there_is_no_hold(source: MariaDbSource) -> None:
    state = source.hold("shop").acquire()
    assert state.status is HoldStatus.UNSUPPORTED
    assert "LOCK INSTANCE FOR BACKUP" in state.reason


@pytest.mark.parametrize("stage", ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"])
def test_no_backup_stage_keeps_a_file_from_being_purged(server: MySqlServer, table: str, stage: str) -> None:
    """Why there is no hold: BLOCK_DDL keeps DDL out, but the log can be purged under every stage."""
    rotate(server, table, 2)
    stages = ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"]
    holder = server.connect()
    with holder, holder.cursor() as cursor:
        for one in stages[: stages.index(stage) + 1]:
            cursor.execute(f"BACKUP STAGE {one}")
        purge_to(server, str(server.execute("SHOW BINARY LOGS")[1][0]))
        refused = _waits(server, f"ALTER TABLE {table} COMMENT = '{stage}'")
    assert refused is (stage in ("BLOCK_DDL", "BLOCK_COMMIT"))


def _waits(server: MySqlServer, statement: str) -> bool:
    try:
        server.execute("SET SESSION lock_wait_timeout = 1", statement)
    except pymysql.err.OperationalError as error:
        return bool(error.args[0] == 1205)
    return False


# ---- what it says to a connector -----------------------------------------------------------------


def told(server: MySqlServer, state: str) -> str:
    """What a replica that asks for the log from a GTID position on is told instead of getting it."""
    connection: Any = server.connect(server.debezium)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SET @mariadb_slave_capability = 4, @slave_connect_state = '{state}'")
        connection._execute_command(0x12, struct.pack("<IHI", 4, 0, 77))
        try:
            for _ in range(50):
                connection._read_packet()
        except pymysql.err.OperationalError as error:
            number, text = error.args[:2]
            return f"{number}: {text}"
    raise AssertionError("the server sent its log")


def test_its_own_words_name_the_problem(own: MySqlServer) -> None:
    rotate(own, "shop.t", 2)
    ((held,),) = own.execute("SELECT @@gtid_binlog_pos")
    last = MariaDbGtid.parse(held)
    strange = replace(last, number=last.number + 50)
    assert explain(told(own, str(strange))).code == "GTID_NOT_CONTAINED"
    purge(own)
    assert explain(told(own, str(replace(last, number=1)))).code == "GTID_PURGED"


# ---- how long it takes --------------------------------------------------------------------------


@pytest.mark.slow  # a thousand files are made
def test_an_observation_of_a_thousand_files(own: MySqlServer, record_property: Callable[[str, object], None]) -> None:
    """The bound is one second; the figure is kept with the result, because a busy machine proves nothing about it."""
    connection = own.connect()
    with connection, connection.cursor() as cursor:
        for _ in range(FILES):
            cursor.execute("INSERT INTO shop.t (v) VALUES ('x')")
            cursor.execute("FLUSH BINARY LOGS")
    source, offset = MariaDbSource(endpoint(own)), here(own)
    began_at = time.perf_counter()
    facts = source.facts_for(("shop.t",), position_in(offset))
    seconds = time.perf_counter() - began_at
    record_property("seconds", round(seconds, 3))
    print(f"an observation of {len(facts.binlog_files)} files took {seconds:.3f} s, of at most 1 s")
    assert len(facts.binlog_files) > FILES
