"""Chunks and keys over every type that can be a key: together they are all rows, each once, by the key's own index."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.chunk import Key, key_from_json, key_to_json
from airflow_cdc.sources.postgres.encoding import key_text
from airflow_cdc.sources.postgres.quoting import quote_table
from airflow_cdc.sources.postgres.schema import read_definitions
from airflow_cdc.sources.postgres.session import Session
from airflow_cdc.sources.postgres.sql import boundary_sql, chunk_predicate, key_predicate
from stack.postgres import PostgresServer

# declared type, an expression over i = 1 … 50 that gives 50 different values
KEYS = [
    ("smallint", "i - 25"),
    ("bigint", "9223372036854775807 - i * 1000"),
    ("numeric(20,5)", "(i - 25) / 7.0"),
    ("numeric", "(i - 25) / 7.0"),
    ("numeric(40,2)", "i * 1e30"),
    ("real", "(i - 25) / 7.0"),
    ("double precision", "(i - 25) / 7.0"),
    ("date", "DATE '1970-01-10' - i"),
    ("time", "TIME '00:00' + i * INTERVAL '0.000001 s'"),
    ("timestamp", "TIMESTAMP '1970-01-01' - i * INTERVAL '1.000001 s'"),
    ("timestamptz", "TIMESTAMPTZ '2026-03-29 00:30+00' + i * INTERVAL '5 min'"),
    ("interval", "i * INTERVAL '1 day 0.1 s'"),
    ("text", "chr(40 + i) || E'''\\\\|' || i"),
    ("varchar(20)", "CASE WHEN i % 2 = 0 THEN upper(md5(i::text)) ELSE md5(i::text) END::varchar(20)"),
    ("char(9)", "i::text"),
    ("uuid", "md5(i::text)::uuid"),
    ("bytea", "decode(md5(i::text), 'hex')"),
    ("bit(12)", "(i * 7)::bit(12)"),
    ("bit(64)", "(-i)::bigint::bit(64)"),
    ("inet", "('10.0.0.' || i)::inet"),
    ("oid", "i::oid"),
    ("int4range", "int4range(i, i + 1)"),
]


@pytest.fixture
def tables(server: PostgresServer, database: str, session: Session) -> dict[str, Table]:
    statements = []
    for number, (declared, expression) in enumerate(KEYS):
        columns = f'("K" {declared}, n int, v int, PRIMARY KEY ("K", n))'
        rows = f"SELECT ({expression})::{declared}, j, i FROM generate_series(1, 50) i, generate_series(1, 2) j"
        statements += [f"CREATE TABLE public.k{number} {columns}", f"INSERT INTO public.k{number} {rows}"]
        statements += [f'CREATE TABLE public.s{number} ("K" {declared} PRIMARY KEY)']
        statements += [f"INSERT INTO public.s{number} SELECT ({expression})::{declared} FROM generate_series(1, 50) i"]
    server.execute(*statements, "ANALYZE", dbname=database)
    return read_definitions(session, [f"public.{kind}{n}" for n in range(len(KEYS)) for kind in "ks"])


def keys_of(session: Session, table: Table, where: str = "TRUE") -> list[str]:
    sql = f"SELECT {key_text(table)} AS k FROM {quote_table(table)} WHERE {where}"
    return [row.text("k") for row in session.rows(sql, doing="read keys")]


def chunks_of(session: Session, table: Table, size: int) -> list[tuple[Key | None, Key | None]]:
    lo: Key | None = None
    found: list[tuple[Key | None, Key | None]] = []
    while rows := session.rows(boundary_sql(table, lo, size), doing="look up a boundary"):
        hi: Any = key_from_json(key_to_json(rows[0].in_order()))  # a ledger keeps it as JSON
        found.append((lo, hi))
        lo = hi
    return [*found, (lo, None)]


def test_chunks_are_all_rows_each_once_and_keys_find_their_rows(session: Session, tables: dict[str, Table]) -> None:
    for name, table in tables.items():
        every = keys_of(session, table)
        assert len(every) == len(set(every)) == (100 if ".k" in name else 50), table.columns[0].native.type
        chunks = chunks_of(session, table, 7)
        parts = [keys_of(session, table, chunk_predicate(table, lo, hi)) for lo, hi in chunks]
        assert {len(part) for part in parts[:-1]} == {7}, table.columns[0].native.type
        assert sorted(key for part in parts for key in part) == sorted(every), table.columns[0].native.type
        assert sorted(keys_of(session, table, key_predicate(table, every))) == sorted(every)
        assert keys_of(session, table, key_predicate(table, every[:1])) == every[:1]
        assert keys_of(session, table, key_predicate(table, [])) == []


def test_ranges_and_keys_are_answered_by_the_index(session: Session, tables: dict[str, Table]) -> None:
    session.run("SET enable_seqscan = off", doing="ask for the index")
    for name, table in tables.items():
        every = keys_of(session, table)
        (lo, hi) = chunks_of(session, table, 20)[1]
        for where in (chunk_predicate(table, lo, hi), key_predicate(table, every[:1])):
            sql = f"EXPLAIN (FORMAT JSON) SELECT * FROM {quote_table(table)} WHERE {where}"
            plan = session.row(sql, doing="explain")["QUERY PLAN"]
            assert "Index Cond" in str(plan), (name, table.columns[0].native.type, plan)


def test_what_has_no_chunks(server: PostgresServer, database: str, session: Session) -> None:
    server.execute("CREATE TABLE public.t (a int)", "CREATE TABLE public.l (a int[] PRIMARY KEY)", dbname=database)
    found = read_definitions(session, ["public.t", "public.l"])
    with pytest.raises(SchemaError, match="without a key"):
        boundary_sql(found["public.t"], None, 5)
    with pytest.raises(SchemaError, match=r"integer\[\]"):
        boundary_sql(found["public.l"], None, 5)
