"""Digests over leaves, against sums that Python makes of every row's hash."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import (
    HashLeaves,
    IntegerLeaves,
    KeyHash,
    LeafScheme,
    leaf_of,
    merge_leaves,
    read_leaves,
    row_leaf,
)
from airflow_cdc.decisions.compare.part import Interval, LeafRows, OneValue, Part
from airflow_cdc.sources.postgres.digests import KEY_HASH, PostgresRows, bounds_sql, digest_sql, keys_sql, rows_sql
from airflow_cdc.sources.postgres.encoding import key_text, row_hash
from airflow_cdc.sources.postgres.quoting import quote_table
from airflow_cdc.sources.postgres.schema import read_definitions
from airflow_cdc.sources.postgres.session import Session
from stack.postgres import PostgresServer


@pytest.fixture
def tables(server: PostgresServer, database: str, session: Session) -> dict[str, Table]:
    rows = "SELECT i, 'v' || i % 7, DATE '2026-01-01' + i FROM generate_series(-100, 400) i"
    server.execute(
        "CREATE TABLE public.keyed (id int PRIMARY KEY, v text, d date)",
        f"INSERT INTO public.keyed {rows}",
        "CREATE TABLE public.bag (id int, v text, d date)",
        f"INSERT INTO public.bag {rows}",
        "INSERT INTO public.bag SELECT * FROM public.bag WHERE id < 50",
        "CREATE TABLE public.named (v text, id int, PRIMARY KEY (v, id))",
        "INSERT INTO public.named SELECT v, id FROM public.keyed",
        "CREATE TABLE public.empty (id int PRIMARY KEY)",
        dbname=database,
    )
    return read_definitions(session, [f"public.{name}" for name in ("keyed", "bag", "named", "empty")])


def pairs(session: Session, table: Table, where: str = "TRUE") -> list[tuple[str, str]]:
    sql = f"SELECT {key_text(table)} AS k, {row_hash(table)} AS h FROM {quote_table(table)} WHERE {where}"
    return sorted((row.text("k"), row.text("h")) for row in session.rows(sql, doing="read every row"))


SCHEMES: list[tuple[str, LeafScheme]] = [
    ("keyed", IntegerLeaves("id", 37)),
    ("keyed", HashLeaves(11, KEY_HASH)),
    ("bag", HashLeaves(11, KEY_HASH)),
    ("named", HashLeaves(5, KEY_HASH)),
]


@pytest.mark.parametrize(("name", "scheme"), SCHEMES)
def test_leaves_and_their_rows(session: Session, tables: dict[str, Table], name: str, scheme: LeafScheme) -> None:
    table = tables[f"public.{name}"]
    every = pairs(session, table)
    found = session.rows(digest_sql(table, scheme), doing="digest")
    wanted = merge_leaves({leaf_of(table, scheme, k): row_leaf(h)} for k, h in every)
    assert read_leaves([row.in_order() for row in found]) == wanted
    some = sorted(wanted)[:3]
    rows = session.rows(rows_sql(table, scheme, some), doing="read some leaves")
    assert sorted(row.in_order() for row in rows) == [(k, h) for k, h in every if leaf_of(table, scheme, k) in some]
    keys = {k for k, _ in every[:20]}
    again = session.rows(keys_sql(table, keys), doing="read some keys")
    assert sorted(row.in_order() for row in again) == [(k, h) for k, h in every if k in keys]


@pytest.mark.parametrize(
    ("part", "where"),
    [
        (Part(LeafRows(IntegerLeaves("id", 37), (0, 2), below=0, above=None)), "id <= 36 OR id BETWEEN 74 AND 110"),
        (Part(LeafRows(IntegerLeaves("id", 37), (2,), above=2)), "id >= 74"),
        (Part(Interval("id", 5, 9)), "id IN (5, 6, 7, 8)"),
        (Part(Interval("d", dt.date(2026, 1, 2), dt.date(2026, 1, 4))), "id IN (1, 2)"),
        (Part(OneValue("v", "v3")), "v = 'v3'"),
        (Part(), "TRUE"),
    ],
)
def test_parts(session: Session, tables: dict[str, Table], part: Part, where: str) -> None:
    table = tables["public.keyed"]
    assert pairs(session, table, PostgresRows().part_where(table, part) or "TRUE") == pairs(session, table, where)


def test_leaves_by_a_hash_that_not_every_release_has_are_refused(tables: dict[str, Table]) -> None:
    with pytest.raises(SchemaError, match="crc32"):
        digest_sql(tables["public.bag"], HashLeaves(3, KeyHash.CRC32))


def test_bounds(session: Session, tables: dict[str, Table]) -> None:
    assert session.row(bounds_sql(tables["public.keyed"]), doing="look up the ends") == {"lo": -100, "hi": 400}
    assert session.row(bounds_sql(tables["public.empty"]), doing="look up the ends") == {"lo": None, "hi": None}
