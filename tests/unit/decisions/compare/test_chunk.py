from __future__ import annotations

import datetime as dt
import json
import sqlite3
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare.chunk import Chunk, TableSize, key_from_json, key_to_json
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table, sql_literal
from airflow_cdc.sources.mysql.sql import boundary_sql, chunk_predicate, key_select
from tests.unit.tables import column, table

PAIRED = table(column("a", "int"), column("b", "int"), key=("a", "b"))
SINGLE = table(column("id", "bigint"), key=("id",))
VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)


def test_identifiers_cannot_end_their_quotes() -> None:
    assert quote_ident("a`b") == "`a``b`"
    assert quote_table(SINGLE) == "`shop`.`t`"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (-5, "-5"),
        (2**64 - 1, "18446744073709551615"),
        ("O'B\\", "_utf8mb4 X'4f27425c'"),
        ("", "_utf8mb4 X''"),
        ("é", "_utf8mb4 X'c3a9'"),
        (b"\x00'", "_binary X'0027'"),
        (Decimal("1E-7"), "0.0000001"),
        (0.1, "0.1e0"),
        (1e300, "1e+300"),
        (-2.0, "-2.0e0"),
    ],
)
def test_literals(value: str | bytes | Decimal | float | None, text: str) -> None:
    assert sql_literal(value) == text


@given(st.text())
def test_text_literals_hold_nothing_that_a_sql_mode_could_read_differently(text: str) -> None:
    literal = sql_literal(text)
    assert bytes.fromhex(literal.removeprefix("_utf8mb4 X'").removesuffix("'")).decode() == text


@pytest.mark.parametrize("value", [True, dt.date(2020, 1, 1), dt.timedelta(1), float("nan"), float("inf")])
def test_values_without_an_exact_literal_are_refused(value: object) -> None:
    with pytest.raises(SchemaError):
        sql_literal(value)  # type: ignore[arg-type]


def test_predicate_over_the_whole_key() -> None:
    assert chunk_predicate(PAIRED, (1, 2), (3, 4)) == (
        "(`a` >= 1 AND ((`a` > 1) OR (`a` = 1 AND `b` > 2))) AND (`a` <= 3 AND ((`a` < 3) OR (`a` = 3 AND `b` <= 4)))"
    )
    assert chunk_predicate(SINGLE, (1,), (3,)) == "(`id` > 1) AND (`id` <= 3)"


def test_inv_25_outer_chunks_are_open_ended() -> None:
    assert chunk_predicate(SINGLE, None, (3,)) == "(`id` <= 3)"
    assert chunk_predicate(SINGLE, (3,), None) == "(`id` > 3)"
    assert chunk_predicate(SINGLE, None, None) == "TRUE"


small_keys = st.tuples(st.integers(-3, 3), st.integers(-3, 3))


@given(rows=st.sets(small_keys), ends=st.lists(small_keys, max_size=4))
def test_chunks_hold_every_row_exactly_once(rows: set[tuple[int, int]], ends: list[tuple[int, int]]) -> None:
    """Run on another SQL engine: the text is plain SQL for integers."""
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE t (a int, b int)")
        db.executemany("INSERT INTO t VALUES (?, ?)", sorted(rows))
        found: list[tuple[int, int]] = []
        for lo, hi in pairwise([None, *sorted(set(ends)), None]):
            predicate = chunk_predicate(PAIRED, lo, hi)
            found += db.execute(f"SELECT a, b FROM t WHERE {predicate}").fetchall()
    assert sorted(found) == sorted(rows)


def test_boundary_is_found_by_rank() -> None:
    assert boundary_sql(SINGLE, None, 1000) == "SELECT `id` FROM `shop`.`t` ORDER BY `id` LIMIT 1 OFFSET 999"
    assert " WHERE (`id` > 7) ORDER BY `id` LIMIT 1 OFFSET 0" in boundary_sql(SINGLE, (7,), 1)


def test_boundary_needs_a_key_and_a_size() -> None:
    with pytest.raises(SchemaError, match="without a key"):
        boundary_sql(table(column("a", "int")), None, 5)
    with pytest.raises(SchemaError, match="0 rows"):
        boundary_sql(SINGLE, None, 0)


@pytest.mark.parametrize(
    ("column_type", "text"),
    [
        ("bigint", "`k`"),
        ("varchar(9)", "`k`"),
        ("float", "`k` + 0e0"),
        ("enum('b','a')", "CAST(`k` + 0 AS UNSIGNED)"),
        ("bit(9)", "CAST(`k` + 0 AS UNSIGNED)"),
        ("time(6)", "CAST(`k` AS CHAR)"),
        ("date", "DATE_FORMAT(`k`, '%Y-%m-%d')"),
        ("timestamp", "DATE_FORMAT(`k`, '%Y-%m-%d %H:%i:%s.%f')"),
    ],
)
def test_key_values_are_read_in_a_form_that_json_keeps(column_type: str, text: str) -> None:
    assert key_select(column("k", column_type)) == text


def test_enums_are_compared_by_number_as_they_are_sorted() -> None:
    by_label = table(column("k", "enum('b','a')"), key=("k",))
    assert chunk_predicate(by_label, (1,), None) == "((`k` + 0) > 1)"


def test_a_key_of_the_wrong_size_is_an_error() -> None:
    with pytest.raises(SchemaError, match="1 values for 2 columns"):
        chunk_predicate(PAIRED, (1,), None)


@given(st.tuples(VALUES, VALUES), st.none() | st.tuples(VALUES, VALUES))
def test_json_round_trip(lo: tuple[object, ...], hi: tuple[object, ...] | None) -> None:
    chunk = Chunk(lo, hi)  # type: ignore[arg-type]
    back = Chunk.from_json(json.loads(json.dumps(chunk.to_json())))
    assert back == chunk
    assert [type(v) for v in back.lo or ()] == [type(v) for v in lo]


def test_no_key_is_no_key_in_json() -> None:
    assert key_to_json(None) is None
    assert key_from_json(None) is None
    with pytest.raises(SchemaError, match="not a key value"):
        key_from_json([True])


KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("size", "fetched", "chunk"),
    [
        (TableSize(), 10_000, 50_000),  # nothing known
        (TableSize(100_000, 8 * MB), 10_000, 50_000),
        (TableSize(300_000, 24 * MB), 10_000, 75_000),  # two tasks at once read two chunks each
        (TableSize(20_000_000, 2 * GB), 10_000, 200_000),
        (TableSize(100_000, 400 * MB), 4_000, 16_000),  # 4 KB rows
        (TableSize(50_000, 50 * GB), 15, 1_000),  # documents of 1 MB
        (TableSize(900, 900 * 8 * MB), 2, 50_000),  # few rows: a chunk of them all, fetched two at a time
        (TableSize(3, 50 * GB), 1, 50_000),
        (TableSize(1, 16 * KB), 1024, 50_000),  # a page for a row says nothing of the row
    ],
)
def test_wide_rows_are_read_in_small_parts(size: TableSize, fetched: int, chunk: int) -> None:
    assert size.fetched_rows() == pytest.approx(fetched, rel=0.1)
    assert size.chunk_rows(2) == pytest.approx(chunk, rel=0.1)


@given(st.integers(0, 10**10), st.integers(0, 10**15), st.integers(0, 1000))
def test_what_is_read_at_once_stays_in_its_bounds(rows: int, total: int, at_once: int) -> None:
    size = TableSize(rows, total)
    assert 1 <= size.fetched_rows() <= 10_000
    assert size.fetched_rows() == 1 or size.fetched_rows() * size.row_bytes <= 16 * MB
    assert 1_000 <= size.chunk_rows(at_once) <= 200_000
