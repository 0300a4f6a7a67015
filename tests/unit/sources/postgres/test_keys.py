"""PostgreSQL's conditions over keys, and which rights a role lacks. What a server makes of them: tests/integration/postgres."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.compare.canonical import key_text
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.grants import Grants, TableGrant, missing, read_grants
from airflow_cdc.sources.postgres.quoting import quote_ident, text_literal
from airflow_cdc.sources.postgres.sql import boundary_sql, chunk_predicate, key_literal, key_predicate, key_select
from airflow_cdc.sources.postgres.types import column_of
from tests.unit.sources.answering import AnsweringSession


def column(name: str, kind: str, **words: Any) -> Column:
    return column_of(PgColumn(name, 1, kind, kind, nullable=False, **words))


def table(*columns: Column, key: tuple[str, ...] | None = None) -> Table:
    return Table("shop", "lines", columns, tuple(one.name for one in columns) if key is None else key)


ID, PLACE = column("id", "int8"), column("Place", "text")
ONE, BOTH = table(ID), table(ID, PLACE)


@pytest.mark.parametrize(
    ("of", "after", "upto", "condition"),
    [
        (ONE, (5,), (9,), """"id" > '5' AND "id" <= '9'"""),
        (ONE, None, (9,), """"id" <= '9'"""),
        (ONE, (5,), None, """"id" > '5'"""),
        (ONE, None, None, "TRUE"),
        # as a row, so that an index over the whole key answers it as one range
        (BOTH, (5, "a"), (5, "c"), """("id", "Place") > ('5', 'a') AND ("id", "Place") <= ('5', 'c')"""),
    ],
)
def test_a_chunk_begins_after_a_key_and_ends_with_one(of: Table, after: Any, upto: Any, condition: str) -> None:
    assert chunk_predicate(of, after, upto) == condition


def test_the_end_of_a_chunk_is_the_key_of_its_last_row() -> None:
    first = """SELECT "id" AS k0 FROM "shop"."lines" ORDER BY "shop"."lines"."id" LIMIT 1 OFFSET 999"""
    assert boundary_sql(ONE, None, 1000) == first
    assert boundary_sql(ONE, (7,), 1) == first.replace(" ORDER", """ WHERE "id" > '7' ORDER""").replace("999", "0")
    assert """ORDER BY "shop"."lines"."id", "shop"."lines"."Place" LIMIT""" in boundary_sql(BOTH, None, 5)


@pytest.mark.parametrize(
    ("of", "after", "rows", "said"),
    [
        (replace(ONE, key=()), None, 10, "without a key"),
        (ONE, None, 0, "a chunk of 0 rows"),
        (BOTH, (5,), 10, "a key of 1 values for 2 columns"),
    ],
)
def test_a_chunk_that_would_read_all_or_nothing_is_refused(of: Table, after: Any, rows: int, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        boundary_sql(of, after, rows)


def test_rows_are_found_by_their_keys_and_none_by_none() -> None:
    keys = [key_text(BOTH, {"id": n, "Place": place}) for n, place in ((1, "it's"), (2, "b"))]
    assert key_predicate(BOTH, keys) == """("id", "Place") IN (('1', 'it''s'), ('2', 'b'))"""
    assert key_predicate(ONE, [key_text(ONE, {"id": 1})]) == """"id" IN ('1')"""
    assert key_predicate(ONE, []) == "FALSE"


@pytest.mark.parametrize(
    ("of", "value", "literal"),
    [
        (ID, -5, "'-5'"),
        (PLACE, r"it's a \ here", r"E'it''s a \\ here'"),
        (column("b", "bytea"), b"\x00\xff", r"E'\\x00ff'"),
        (column("n", "numeric", modifier=(10 << 16 | 2) + 4), Decimal("1E+3"), "'1000'"),
        (column("f", "float8"), 0.1, "'0.1'"),
        (column("b", "bit", modifier=5), 3, "'00011'"),
        (column("d", "date"), "2026-11-29", "'2026-11-29'"),
    ],
)
def test_the_literal_of_a_key_is_the_value_that_was_read(of: Column, value: Any, literal: str) -> None:
    assert key_literal(of, value) == literal


@pytest.mark.parametrize(
    ("of", "read"),
    [
        (column("d", "date"), '"d"::text'),
        (column("u", "uuid"), '"u"::text'),
        (column("at", "timestamptz"), '"at"::text'),
        (column("yes", "bool"), '"yes"::int'),
        (ID, '"id"'),
    ],
)
def test_a_key_is_read_in_the_form_in_which_it_is_compared(of: Column, read: str) -> None:
    assert key_select(of) == read


@pytest.mark.parametrize(
    "of",
    [
        column("j", "_int4", element="int4", element_schema="pg_catalog", element_kind="b"),
        column("j", "hstore", type_schema="public"),
    ],
    ids=["array", "hstore"],
)
def test_a_value_with_several_in_it_cannot_be_a_key(of: Column) -> None:
    with pytest.raises(SchemaError, match="cannot be a key"):
        key_literal(of, "{}")


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_what_is_no_name_is_not_quoted(name: str) -> None:
    with pytest.raises(SchemaError, match="is not a name"):
        quote_ident(name)
    assert quote_ident('a"b') == '"a""b"'


def test_the_character_0_is_in_no_text() -> None:
    with pytest.raises(SchemaError, match="character 0"):
        text_literal("a\0b")


# ---- rights ------------------------------------------------------------------------------------

ALL = TableGrant("shop.lines", there=True, usage=True, select=True, row_security=False)
ROLE = Grants("cdc", replication=True, bypass_rls=False, tables=(ALL,))


def lacks(**changes: Any) -> Grants:
    return replace(ROLE, tables=(replace(ALL, **changes),))


@pytest.mark.parametrize(
    ("grants", "said"),
    [
        (ROLE, ()),
        (lacks(usage=False), ("USAGE on schema shop",)),
        (lacks(select=False), ("SELECT on shop.lines",)),
        (lacks(row_security=True), ("BYPASSRLS for shop.lines, whose policies would hide rows",)),
        (replace(lacks(row_security=True), bypass_rls=True), ()),
        (replace(ROLE, replication=False), ("REPLICATION (attribute of role cdc)",)),
        # a table that does not exist yet is no missing right
        (lacks(there=False, usage=False, select=False), ()),
        (
            replace(ROLE, tables=(replace(ALL, usage=False), replace(ALL, table="shop.orders", usage=False))),
            ("USAGE on schema shop",),
        ),
    ],
)
def test_each_right_that_a_role_lacks_is_named_once_with_what_it_is_on(grants: Grants, said: tuple[str, ...]) -> None:
    assert missing(grants) == said


def test_a_diagnosis_needs_no_replication() -> None:
    assert missing(replace(ROLE, replication=False), recovery=False) == ()


def test_rights_are_read_of_the_pipelines_tables_alone() -> None:
    given: list[Any] = []

    def answer(sql: str, args: Any) -> list[dict[str, Any]]:
        if "pg_roles" in sql:
            return [{"name": "cdc", "replication": True, "bypass_rls": False}]
        given.append(args)
        return [{"table": "shop.lines", "there": True, "usage": True, "select": True, "row_security": False}]

    server = AnsweringSession("18.6", answer)
    session: Any = server
    assert read_grants(session, ["shop.lines", "b2b.a.b"]) == ROLE
    assert given == [(["shop", "b2b"], ["lines", "a.b"])]
    assert read_grants(session, []) == replace(ROLE, tables=())
    assert len(given) == 1
