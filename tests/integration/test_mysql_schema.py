"""Table definitions as a real server gives them: types, labels, generated columns, and which index is the key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.sources.mysql.types import words_of
from tests.integration.every_type import CASES, create_sql

if TYPE_CHECKING:
    from stack.mysql import MySqlServer

Reader = Callable[..., Table]


@pytest.fixture
def define(mysql: MySqlServer, databases: Callable[..., str]) -> Reader:
    """`define(ddl)`: create table `t` with that body (or by that whole statement) and read its definition."""
    schema = databases(prefix="schema")

    def made(body: str) -> Table:
        statement = body if body.startswith("CREATE") else f"CREATE TABLE t ({body})"
        mysql.execute(f"USE {schema}", "SET sql_mode = ''", "DROP TABLE IF EXISTS t", statement)
        with closing(mysql.connect()) as connection:
            return read_table_defs(connection, [f"{schema}.t"])[f"{schema}.t"]

    return made


def test_every_type_is_read(define: Reader) -> None:
    table = define(create_sql("t"))
    assert [c.name for c in table.columns] == ["id", *(c.name for c in CASES)]
    assert [c.ordinal for c in table.columns] == list(range(1, len(CASES) + 2))
    by_name = {c.name: c for c in table.columns}
    words = {c.name: words_of(c) for c in table.columns}
    assert (words["d65"].precision, words["d65"].scale) == (65, 30)
    assert (words["b63"].precision, words["b1"].precision) == (63, 1)
    assert (words["dt6"].fsp, words["ts"].fsp, words["t3"].fsp) == (6, 0, 3)
    assert (words["bn"].byte_length, words["v"].char_length) == (4, 40)
    assert (words["vl"].charset, words["vb"].collation) == ("latin1", "utf8mb4_bin")
    assert {c.name for c in table.columns if c.generated} == {"gv", "gs"}
    assert {c.name for c in table.columns if words[c.name].unsigned} >= {"tiu", "biu", "iz", "du", "dz"}
    assert {c.name for c in table.columns if words[c.name].zerofill} == {"iz", "dz", "dz40"}
    assert words["e"].labels == ("a", "it's", "b\\c", "x,y", "", "é|1", 'q"t\tb', "n\nl", "a\\,%")
    assert words["s"].labels == ("p", "q'r", "ü|", "b\\c")
    assert not by_name["dan"].nullable
    assert "`v`" in words["gv"].expression
    assert table.key == ("id",)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ("a int, b int, PRIMARY KEY (b, a)", ("b", "a")),
        ("a int NOT NULL, b int NOT NULL, UNIQUE z (b), UNIQUE a (a)", ("b",)),
        ("a int NOT NULL, b int, UNIQUE x (b), UNIQUE y (a)", ("a",)),
        ("a int NOT NULL, b int, UNIQUE x (a, b)", ()),
        ("a int NOT NULL, KEY x (a)", ()),
        ("a int NOT NULL, b int NOT NULL, UNIQUE x (a), PRIMARY KEY (b)", ("b",)),
        ("a int NOT NULL, UNIQUE x ((a + 1))", ()),
        ("a varchar(20) NOT NULL, UNIQUE x (a(5))", ("a",)),
        ("a int", ()),
    ],
)
def test_the_key_is_what_tells_rows_apart(define: Reader, body: str, key: tuple[str, ...]) -> None:
    assert define(body).key == key


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a varchar(9), b varchar(9)", "b varchar(9), a varchar(9)"),
        ("a enum('x','y')", "a enum('y','x')"),
        ("a varchar(9) CHARACTER SET latin1", "a varchar(9) CHARACTER SET utf8mb4"),
        ("a varchar(9) COLLATE utf8mb4_bin", "a varchar(9) COLLATE utf8mb4_general_ci"),
        ("a int", "a int unsigned"),
        ("a datetime", "a datetime(3)"),
        ("a int NOT NULL", "a int NOT NULL PRIMARY KEY"),
        ("a int, b int AS (a + 1)", "a int, b int AS (a + 2)"),
        ("a point", "a point SRID 4326"),
    ],
)
def test_inv_12_a_change_that_moves_values_changes_the_fingerprint(define: Reader, before: str, after: str) -> None:
    assert define(before).fingerprint != define(after).fingerprint


def test_a_default_expression_is_no_generated_column(define: Reader) -> None:
    assert (
        not define("a int, d datetime DEFAULT CURRENT_TIMESTAMP, u varchar(36) DEFAULT (uuid())").column("u").generated
    )


def test_views_and_missing_tables_are_left_out(mysql: MySqlServer, databases: Callable[..., str]) -> None:
    schema = databases(prefix="schema")
    mysql.execute(f"CREATE TABLE {schema}.t (a int)", f"CREATE VIEW {schema}.v AS SELECT * FROM {schema}.t")
    with closing(mysql.connect()) as connection:
        found = read_table_defs(connection, [f"{schema}.t", f"{schema}.v", f"{schema}.gone"])
        assert list(found) == [f"{schema}.t"]


def test_a_refusal_names_the_tables(mysql: MySqlServer) -> None:
    connection = mysql.connect()
    connection.close()
    with pytest.raises(SourceError, match=r"the connection is gone.*shop\.orders"):
        read_table_defs(connection, ["shop.orders"])
