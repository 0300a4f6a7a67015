"""What a MySQL server says of changes that its log or its events do not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_cdc.core.xa import rollback_doubt
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.partial_updates import partial_updates
from stack.mysql import MySqlServer


@pytest.fixture
def source(mysql: MySqlServer) -> MySqlSource:
    return MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password))


@pytest.fixture
def table(mysql: MySqlServer, databases: Callable[..., str]) -> str:
    name = f"{databases()}.t"
    mysql.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20))")
    return name


def test_inv_31_what_is_kept_out_of_the_log_is_read_and_refused(source: MySqlSource, mysql: MySqlServer) -> None:
    """With PARTIAL_JSON an UPDATE by JSON_SET gives no event at all, and the connector stays RUNNING."""
    assert source.facts().log_faults == {}
    mysql.execute("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'")
    try:
        facts = source.facts()
    finally:
        mysql.execute("SET GLOBAL binlog_row_value_options = ''")
    assert facts.log_filters == ("binlog_row_value_options PARTIAL_JSON",)
    assert facts.log_faults == {"binlog_row_value_options": "PARTIAL_JSON, must be empty"}


PARTIAL = "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'"


def test_inv_31_an_update_that_a_session_logs_in_part_is_found_with_its_table(
    source: MySqlSource, mysql: MySqlServer, databases: Callable[..., str]
) -> None:
    schema = databases()
    mysql.execute(
        *(f"CREATE TABLE {schema}.{name} (id INT PRIMARY KEY, j JSON)" for name in ("part", "whole")),
        *(f"INSERT INTO {schema}.{name} VALUES (1, JSON_OBJECT('a', REPEAT('x', 99)))" for name in ("part", "whole")),
    )
    begun = source.partial_updates("")
    assert begun is not None
    update = f"UPDATE {schema}.part SET j = JSON_SET(j, '$.a', 'y')"
    mysql.execute(f"UPDATE {schema}.whole SET j = JSON_SET(j, '$.a', 'z')", "FLUSH BINARY LOGS", PARTIAL, update)
    mysql.execute("FLUSH BINARY LOGS", f"INSERT INTO {schema}.whole VALUES (2, NULL)")
    look = source.partial_updates(begun.upto)
    assert look is not None
    assert {table for table in look.tables if table.startswith(schema)} == {f"{schema}.part"}
    assert look.why == ""
    again = source.partial_updates(look.upto)
    assert again is not None
    assert f"{schema}.part" not in again.tables


def test_inv_31_a_part_of_the_log_that_is_not_looked_at_is_said(source: MySqlSource, mysql: MySqlServer) -> None:
    begun = source.partial_updates("")
    assert begun is not None
    mysql.execute("FLUSH BINARY LOGS", "CREATE DATABASE IF NOT EXISTS looked", "DROP DATABASE looked")
    with source.session() as session:
        few = partial_updates(session, begun.upto, most=3)
    assert few is not None
    assert few.why == "more than 3 events came since the last look"
    server, _, _ = begun.upto.partition(" ")
    gone = source.partial_updates(f"{server} mysql-bin.999999:4")
    assert gone is not None
    assert "is no longer in the log" in gone.why


def test_inv_32_the_server_says_what_was_rolled_back(source: MySqlSource, mysql: MySqlServer, table: str) -> None:
    before = source.xa()
    mysql.execute("XA START 'ghost'", f"INSERT INTO {table} (id) VALUES (77)", "XA END 'ghost'", "XA PREPARE 'ghost'")
    during = source.xa()
    mysql.execute("XA ROLLBACK 'ghost'")
    after = source.xa()
    assert before is not None
    assert during is not None
    assert (len(during.open), rollback_doubt(before, during)) == (1, "")
    assert rollback_doubt(before, after) == "1 XA ROLLBACK since then"
    assert rollback_doubt(during, after).startswith("XA transactions were open then: 'ghost'")
