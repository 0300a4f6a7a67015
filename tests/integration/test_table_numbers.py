"""Which statements change InnoDB's number of a table, as docs/evidence/table-numbers.md has it, on the real servers.

A TRUNCATE that a connector leaves out shows in that number alone (INV 13). `STACK_MYSQL=9.7` measures that server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pymysql
import pytest

from airflow_cdc.decisions.table_id import is_rebuilt
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mysql.client import BinlogSource, MySqlEndpoint, MySqlSource
from stack.mysql import MySqlServer
from tests.paths import ROOT

PAGE = ROOT / "docs/evidence/table-numbers.md"
NOT_SUPPORTED = "–"
TABLES = {
    "plain": "(id INT PRIMARY KEY, a VARCHAR(9), n INT NOT NULL, tx TEXT, KEY ia (a), UNIQUE un (n)) CHARSET utf8mb4",
    "ranges": "(id INT PRIMARY KEY, a VARCHAR(9)) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (1000))",
    "hashed": "(id INT PRIMARY KEY, a VARCHAR(9)) PARTITION BY HASH (id) PARTITIONS 4",
    "keyless": "(id INT NOT NULL, a VARCHAR(9))",
}


def stated(server: str) -> Iterator[tuple[str, str, str]]:
    """The table, the statement and what the page says of it on a server."""
    rows = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in PAGE.open() if line.startswith("| ")]
    head, *body = rows
    at = head.index(server)
    return ((row[0], row[1].strip("`"), row[at]) for row in body if row[0] in TABLES)


def measured(server: MySqlServer, source: BinlogSource[Any], database: str, table: str, statement: str) -> str:
    """What a statement does to the number of a fresh table of two rows."""
    server.execute(
        f"USE {database}",
        "DROP TABLE IF EXISTS t, other",
        f"CREATE TABLE t {TABLES[table]}",
        "CREATE TABLE other (id INT PRIMARY KEY, a VARCHAR(9))",
        "INSERT INTO t (id, a) VALUES (1, 'x')" if table != "plain" else "INSERT INTO t VALUES (1, 'x', 1, 'y')",
    )
    before = source.table_ids([f"{database}.t"])[f"{database}.t"]
    try:
        server.execute(f"USE {database}", statement)
    except pymysql.err.MySQLError:
        return NOT_SUPPORTED
    return "changed" if is_rebuilt(before, source.table_ids([f"{database}.t"])[f"{database}.t"]) else "same"


def check(server: MySqlServer, source: BinlogSource[Any], database: str, name: str) -> None:
    rows = list(stated(name))
    assert len(rows) > 40
    here = [(table, text, measured(server, source, database, table, text)) for table, text, _ in rows]
    assert here == rows


def of(server: MySqlServer) -> MySqlEndpoint:
    return MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password)


def test_inv_13_what_changes_the_number_of_a_table_of_mysql(mysql: MySqlServer, databases: Callable[..., str]) -> None:
    name = "MySQL 9.7.4" if mysql.version.startswith("9.") else "MySQL 8.0.15"
    check(mysql, MySqlSource(of(mysql)), databases(), name)


def test_inv_13_what_changes_the_number_of_a_table_of_mariadb(
    mariadb_server: MySqlServer, databases: Callable[..., str]
) -> None:
    if not mariadb_server.version.startswith("10.11"):
        pytest.skip("measured on 10.11")
    check(mariadb_server, MariaDbSource(of(mariadb_server)), databases(mariadb_server), "MariaDB 10.11")
