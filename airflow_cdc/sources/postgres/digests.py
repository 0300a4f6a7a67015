"""Digests of leaves, and the rows of some of them, in PostgreSQL's SQL (core/compare/leaves.py says what they are)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.compare.canonical import outside_hash
from airflow_cdc.core.compare.leaves import LANE, IntegerLeaves, leaf_bounds, leaf_ranges
from airflow_cdc.core.compare.part import WHOLE, LeafRows, OneValue
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.sources.postgres.encoding import key_text, row_digest, row_hash
from airflow_cdc.sources.postgres.quoting import quote_ident, quote_table, text_literal
from airflow_cdc.sources.postgres.sql import key_predicate
from airflow_cdc.sources.postgres.types import value_sql

if TYPE_CHECKING:
    from airflow_cdc.core.compare.leaves import LeafScheme
    from airflow_cdc.core.compare.part import Part
    from airflow_cdc.core.table import Table

CRC32_SINCE = 180000  # PostgreSQL's first release with crc32()


def bounds_sql(table: Table) -> str:
    """(lo, hi) of the first key column from the ends of its index; NULLs for an empty table."""
    column = quote_ident(table.key_columns[0].name)
    return f"SELECT min({column})::bigint AS lo, max({column})::bigint AS hi FROM {quote_table(table)}"


def leaf(scheme: LeafScheme, table: Table, version: int) -> str:
    """Expression: the row's leaf. Raises SchemaError for leaves by hash before PostgreSQL 18."""
    if isinstance(scheme, IntegerLeaves):
        return f"({quote_ident(scheme.column)}::bigint / {scheme.width})"  # towards zero
    if version < CRC32_SINCE:
        raise SchemaError(
            "leaves by CRC-32 need PostgreSQL 18: earlier releases have no crc32()",
            where=table.full_name,
            todo="A table whose key begins with a whole number is compared by ranges instead.",
        )
    return f"(pg_catalog.crc32(pg_catalog.convert_to({key_text(table)}, 'UTF8')) % {scheme.n})"


def digest_sql(table: Table, scheme: LeafScheme, version: int, part: Part = WHOLE) -> str:
    """One scan → rows (leaf, n, lane1, lane2)."""
    # the first 64 bits of the hash as two numbers of 32: their sums fit where a sum of 64 bits would need numeric
    lanes = ", ".join(f"pg_catalog.sum({_bits(at)}) AS s{number}" for number, at in enumerate((0, 4), 1))
    rows = f"SELECT {leaf(scheme, table, version)} AS leaf, {row_digest(table)} AS h FROM {quote_table(table)}"
    sums = f"SELECT leaf, count(*) AS n, {lanes} FROM ({rows}{_where(part_where(table, part, version))}) AS r GROUP BY leaf"
    return f"SELECT leaf, n, s1 + pg_catalog.div(s2, {LANE}) AS lane1, s2 % {LANE} AS lane2 FROM ({sums}) AS s"


def _bits(at: int) -> str:
    bytes_ = [f"pg_catalog.get_byte(h, {at + n})::bigint << {24 - 8 * n}" for n in range(4)]
    return " | ".join(f"({one})" for one in bytes_)


def rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], version: int, part: Part = WHOLE) -> str:
    """(key_text, h) of every row in these leaves; a keyless row's key_text is its hash."""
    inside = both(leaves_where(table, scheme, leaves, version), part_where(table, part, version))
    return f"SELECT {_row(table)} FROM {quote_table(table)} WHERE {inside}"


def keys_sql(table: Table, keys: Iterable[str]) -> str:
    """(key_text, h) of the rows with these key texts, found by the key's index (keyless: by a scan).

    It may return other keys too that the key's type takes as equal: look at key_text.
    """
    if not table.keyless:
        return f"SELECT {_row(table)} FROM {quote_table(table)} WHERE {key_predicate(table, keys)}"
    hashes = ", ".join(text_literal(h) for h in sorted({*keys}))
    where = f"{row_hash(table)} IN ({hashes})" if hashes else "FALSE"
    return f"SELECT {_row(table)} FROM {quote_table(table)} WHERE {where}"


def outside_sql(table: Table, version: int, part: Part = WHOLE) -> str:
    """key_text and x0, x1 …: the values of the columns outside the hash, for the comparison of all rows."""
    columns = "".join(f", {value_sql(table.column(name))} AS x{at}" for at, name in enumerate(outside_hash(table)))
    where = _where(part_where(table, part, version))
    return f"SELECT {key_text(table)} AS key_text{columns} FROM {quote_table(table)}{where}"


def leaves_where(table: Table, scheme: LeafScheme, leaves: Sequence[int], version: int) -> str:
    """Condition: rows in these leaves; ranges of the key's index for integer leaves."""
    if isinstance(scheme, IntegerLeaves):
        column = quote_ident(scheme.column)
        ranges = leaf_ranges(scheme.width, leaves)
        return " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in ranges) or "FALSE"
    return f"{leaf(scheme, table, version)} IN ({', '.join(str(int(one)) for one in leaves)})" if leaves else "FALSE"


def part_where(table: Table, part: Part, version: int) -> str:
    """Condition: rows of the part, on bare columns, so that a range of an index is read where there is one; "": all."""
    rows = part.rows
    if rows is None:
        return ""
    if isinstance(rows, LeafRows):
        return leaves_where(table, rows.scheme, rows.leaves, version) + _beyond(rows)
    name = quote_ident(table.column(rows.column).name)
    if isinstance(rows, OneValue):
        return f"{name} = {text_literal(str(rows.value))}"
    return f"{name} >= {_end(rows.low)} AND {name} < {_end(rows.high)}"


def both(condition: str, other: str) -> str:
    """Two conditions as one; an empty one is none."""
    return f"({condition}) AND ({other})" if condition and other else condition or other


def _beyond(rows: LeafRows) -> str:
    if not isinstance(rows.scheme, IntegerLeaves):
        return ""
    column, width = quote_ident(rows.scheme.column), rows.scheme.width
    low = "" if rows.below is None else f" OR {column} < {leaf_bounds(width, rows.below)[0]}"
    return low + ("" if rows.above is None else f" OR {column} > {leaf_bounds(width, rows.above)[1]}")


def _end(end: int | dt.date | dt.datetime) -> str:
    if isinstance(end, dt.datetime):
        return text_literal(f"{end:%Y-%m-%d %H:%M:%S.%f}")  # the session is in UTC
    return text_literal(f"{end:%Y-%m-%d}" if isinstance(end, dt.date) else str(end))


def _row(table: Table) -> str:
    return f"{key_text(table)} AS key_text, {row_hash(table)} AS h"


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""
