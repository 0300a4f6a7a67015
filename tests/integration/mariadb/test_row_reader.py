"""MariaDB's adapter for Spark does what airflow_cdc.testing asks of any source's, with the rights of the product's user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.spark_apps.adapters.mariadb import MariaDbReader
from airflow_cdc.testing.rows import RowBench, RowReaderContract
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql
from tests.integration.mariadb.support import endpoint

if TYPE_CHECKING:
    from stack.mysql import MySqlServer

pytestmark = pytest.mark.slow  # its server comes from Debian's packages, which not every machine can fetch


@dataclass(frozen=True, slots=True)
class MariaDbRowBench:
    """Two tables on a real MariaDB server."""

    server: MySqlServer
    source: MariaDbSource
    reader: MariaDbReader
    keyed: Table
    keyless: Table

    def watermark(self) -> Watermark:
        return self.source.watermark()

    def foreign(self) -> Watermark:
        return replace(self.watermark(), server="103/vm/3306/nobody=/1795472021")

    def write(self) -> None:
        self.server.execute(f"INSERT INTO {self.keyless.full_name} VALUES (7, 'new')")


def bench_of(server: MySqlServer, database: str) -> MariaDbRowBench:
    server.execute(f"USE {database}", "CREATE TABLE bag (n INT, v VARCHAR(9))")
    server.execute(f"USE {database}", "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (1, 'X'), (NULL, NULL), (NULL, '')")
    load = f"SET SESSION sql_mode = '{LOAD_MODE}', time_zone = '+00:00'"
    server.execute(f"USE {database}", load, create_sql("every"), *insert_sql("every"))
    source = MariaDbSource(endpoint(server))
    made = source.definitions([f"{database}.every", f"{database}.bag"])
    return MariaDbRowBench(server, source, MariaDbReader(source), made[f"{database}.every"], made[f"{database}.bag"])


class TestMariaDb(RowReaderContract):
    """10.11."""

    @pytest.fixture
    def rows(self, mariadb_server: MySqlServer, databases: Callable[..., str]) -> RowBench:
        return bench_of(mariadb_server, databases(mariadb_server))


def test_a_column_that_may_be_null_and_has_no_default_has_none(
    mariadb_server: MySqlServer, databases: Callable[..., str]
) -> None:
    """The server writes NULL for it, without quotes: otherwise its NULLs would be refused as replaced by a default."""
    name = f"{databases(mariadb_server)}.t"
    mariadb_server.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b VARCHAR(9) DEFAULT 'NULL', c INT DEFAULT 7, d INT NOT NULL,"
        " e DATETIME DEFAULT CURRENT_TIMESTAMP, f INT DEFAULT NULL)"
    )
    source = MariaDbSource(endpoint(mariadb_server))
    defaults = MariaDbReader(source).defaults(list(source.definitions([name]).values()))[name]
    assert defaults["e"] is not None
    assert defaults["e"].lower() == "current_timestamp()"
    assert {column: value for column, value in defaults.items() if column != "e"} == {
        "id": None,
        "a": None,
        "b": "'NULL'",
        "c": "7",
        "d": None,
        "f": None,
    }
    _definitions, shown = source.definitions_and_defaults([name])
    assert [column for column, value in shown[name].items() if value is None] == ["id", "a", "d", "f"]
