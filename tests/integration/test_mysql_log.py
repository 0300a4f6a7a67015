"""What a MySQL server says of changes that its log or its events do not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_cdc.core.xa import rollback_doubt
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
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
