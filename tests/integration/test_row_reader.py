"""MySQL's adapter for Spark does what airflow_cdc.testing asks of any source's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.testing.rows import RowBench, RowReaderContract
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql

if TYPE_CHECKING:
    from stack.mysql import MySqlServer


@dataclass(frozen=True, slots=True)
class MySqlRowBench:
    """Two tables on a real MySQL server."""

    server: MySqlServer
    source: MySqlSource
    reader: MySqlReader
    keyed: Table
    keyless: Table

    def watermark(self) -> Watermark:
        return self.source.watermark()

    def foreign(self) -> Watermark:
        return replace(self.watermark(), server="75ac0c48-0000-11f0-8000-000000000001")

    def write(self) -> None:
        self.server.execute(f"INSERT INTO {self.keyless.full_name} VALUES (7, 'new')")


def bench_of(server: MySqlServer, database: str) -> MySqlRowBench:
    server.execute(f"USE {database}", "CREATE TABLE bag (n INT, v VARCHAR(9))")
    server.execute(f"USE {database}", "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (1, 'X'), (NULL, NULL), (NULL, '')")
    load = f"SET SESSION sql_mode = '{LOAD_MODE}', time_zone = '+00:00'"
    server.execute(f"USE {database}", load, create_sql("every"), *insert_sql("every"))
    endpoint = MySqlEndpoint(server.host, server.port, server.user, server.password)
    source = MySqlSource(endpoint)
    with closing(source.connect()) as connection:
        made = read_table_defs(connection, [f"{database}.every", f"{database}.bag"])
    return MySqlRowBench(server, source, MySqlReader(source), made[f"{database}.every"], made[f"{database}.bag"])


class TestMySql(RowReaderContract):
    """With gtid_mode ON."""

    @pytest.fixture
    def rows(self, mysql: MySqlServer, databases: Callable[..., str]) -> RowBench:
        return bench_of(mysql, databases(mysql))


@pytest.mark.slow
class TestMySqlWithoutGtid(RowReaderContract):
    """With gtid_mode OFF: file and position count."""

    @pytest.fixture
    def rows(self, mysql_nogtid: MySqlServer, databases: Callable[..., str]) -> RowBench:
        return bench_of(mysql_nogtid, databases(mysql_nogtid))
