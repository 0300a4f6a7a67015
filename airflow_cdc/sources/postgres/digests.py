"""Digests of leaves (see decisions/compare/leaves.py), and the rows of some of them, in PostgreSQL's SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.leaves import LANE, IntegerLeaves, KeyHash
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.row_sql import RowSql, both, where
from airflow_cdc.sources.postgres.encoding import key_text, row_digest, row_hash
from airflow_cdc.sources.postgres.quoting import quote_ident, quote_table, text_literal
from airflow_cdc.sources.postgres.sql import key_predicate
from airflow_cdc.sources.postgres.types import value_sql

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.leaves import LeafScheme
    from airflow_cdc.decisions.compare.part import Part
    from airflow_cdc.decisions.compare.row_sql import PartValue

# all releases have this hash; crc32() exists only from PostgreSQL 18 on
KEY_HASH = KeyHash.SHA256


def bounds_sql(table: Table) -> str:
    """(lo, hi) of the first key column read at both ends of its index; NULLs for an empty table."""
    column = quote_ident(table.key_columns[0].name)
    return f"SELECT min({column})::bigint AS lo, max({column})::bigint AS hi FROM {quote_table(table)}"


@dataclass(frozen=True, slots=True)
class PostgresRows(RowSql):
    """Rows in PostgreSQL's SQL, identical on every release."""

    quote_ident = staticmethod(quote_ident)
    key_text = staticmethod(key_text)
    row_hash = staticmethod(row_hash)

    def leaf(self, scheme: LeafScheme, table: Table) -> str:
        """The row's leaf. Raises SchemaError for leaves by CRC-32."""
        if isinstance(scheme, IntegerLeaves):
            return f"({quote_ident(scheme.column)}::bigint / {scheme.width})"  # rounds towards zero
        if scheme.by is not KEY_HASH:
            raise SchemaError(f"leaves by {scheme.by}, which not every PostgreSQL has", where=table.full_name)
        digest = f"pg_catalog.sha256(pg_catalog.convert_to({key_text(table)}, 'UTF8'))"
        number = f"('x' || pg_catalog.left(pg_catalog.encode({digest}, 'hex'), 8))::bit(32)::bigint"
        return f"({number} % {scheme.n})"

    def literal(self, column: Column, value: PartValue) -> str:
        del column  # the server gives the literal the column's type
        if isinstance(value, dt.datetime):
            return text_literal(f"{value:%Y-%m-%d %H:%M:%S.%f}")  # the session is in UTC
        return text_literal(f"{value:%Y-%m-%d}" if isinstance(value, dt.date) else str(value))


def digest_sql(table: Table, scheme: LeafScheme, part: Part = WHOLE) -> str:
    """One scan → rows (leaf, n, lane1, lane2)."""
    sql = PostgresRows()
    # the first 64 bits of the hash as two 32-bit numbers, because the sum of 64-bit numbers would need numeric
    lanes = ", ".join(f"pg_catalog.sum({_bits(at)}) AS s{number}" for number, at in enumerate((0, 4), 1))
    rows = f"SELECT {sql.leaf(scheme, table)} AS leaf, {row_digest(table)} AS h FROM {quote_table(table)}"
    sums = f"SELECT leaf, count(*) AS n, {lanes} FROM ({rows}{where(sql.part_where(table, part))}) AS r GROUP BY leaf"
    return f"SELECT leaf, n, s1 + pg_catalog.div(s2, {LANE}) AS lane1, s2 % {LANE} AS lane2 FROM ({sums}) AS s"


def _bits(at: int) -> str:
    bytes_ = [f"pg_catalog.get_byte(h, {at + n})::bigint << {24 - 8 * n}" for n in range(4)]
    return " | ".join(f"({one})" for one in bytes_)


def rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE) -> str:
    """(key_text, h) of every row in these leaves; a keyless row's key_text is its hash."""
    sql = PostgresRows()
    inside = both(sql.leaves_where(table, scheme, leaves), sql.part_where(table, part))
    return f"SELECT {sql.columns(table)} FROM {quote_table(table)} WHERE {inside}"


def keys_sql(table: Table, keys: Iterable[str]) -> str:
    """(key_text, h) of the rows with these key texts, found through the key's index (keyless: by a scan).

    It may return other keys too, which the key's type takes as equal: check key_text.
    """
    if table.keyless:
        hashes = ", ".join(text_literal(h) for h in sorted({*keys}))
        condition = f"{row_hash(table)} IN ({hashes})" if hashes else "FALSE"
    else:
        condition = key_predicate(table, keys)
    return f"SELECT {PostgresRows().columns(table)} FROM {quote_table(table)} WHERE {condition}"


def outside_sql(table: Table, part: Part = WHOLE) -> str:
    """key_text and x0, x1 …: the values of the columns outside the hash, to compare all rows."""
    columns = "".join(f", {value_sql(table.column(name))} AS x{at}" for at, name in enumerate(outside_hash(table)))
    inside = where(PostgresRows().part_where(table, part))
    return f"SELECT {key_text(table)} AS key_text{columns} FROM {quote_table(table)}{inside}"
