"""Digests over the sink's rows, in Spark SQL: leaves, the rows in them, and the rows of a part.

Spark sums two halves of the hash as bigint, because its decimal sums cost more than the hash.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.types import Instant
from airflow_cdc.decisions.compare.leaves import LANE, IntegerLeaves, KeyHash
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.row_sql import RowSql, both, where
from airflow_cdc.spark_apps.canonical.spark import key_text, lanes, row_hash
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.leaves import LeafScheme
    from airflow_cdc.decisions.compare.part import Part
    from airflow_cdc.decisions.compare.row_sql import PartValue


class SparkRows(RowSql):
    """Rows in Spark SQL; a leaf's number is a bigint."""

    quote_ident = staticmethod(quote_ident)
    key_text = staticmethod(key_text)
    row_hash = staticmethod(row_hash)

    def leaf(self, scheme: LeafScheme, table: Table) -> str:
        if isinstance(scheme, IntegerLeaves):
            return f"({quote_ident(scheme.column)} div {scheme.width})"
        number = (
            "crc32({})" if scheme.by is KeyHash.CRC32 else "CAST(conv(substr(sha2({}, 256), 1, 8), 16, 10) AS bigint)"
        )
        return f"({number.format(key_text(table))} % {scheme.n})"

    def literal(self, column: Column, value: PartValue) -> str:
        if isinstance(value, dt.datetime):
            zone = "TIMESTAMP" if isinstance(column.type, Instant) else "TIMESTAMP_NTZ"
            return f"{zone}'{value:%Y-%m-%d %H:%M:%S.%f}'"
        if isinstance(value, dt.date):
            return f"DATE'{value:%Y-%m-%d}'"
        return literal(value) if isinstance(value, str) else str(value)


ROWS = SparkRows()


def digest_sql(table: Table, scheme: LeafScheme, relation: str, part: Part = WHOLE) -> str:
    """One scan of `relation` (a table, a view, or `t VERSION AS OF n`, already quoted) → rows (leaf, n, lane1, lane2)."""
    first, second = lanes("h")
    rows = f"SELECT {ROWS.leaf(scheme, table)} AS leaf, {row_hash(table)} AS h FROM {relation}"
    rows += where(ROWS.part_where(table, part))
    sums = f"SELECT leaf, COUNT(*) AS n, SUM({first}) AS hi, SUM({second}) AS lo FROM ({rows}) GROUP BY leaf"
    return f"SELECT leaf, n, hi + lo div {LANE}L AS lane1, lo % {LANE}L AS lane2 FROM ({sums})"


def rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], relation: str, part: Part = WHOLE) -> str:
    """(key_text, h) of every row of `relation` in these leaves; a keyless row's key_text is its hash."""
    inside = both(ROWS.leaves_where(table, scheme, leaves), ROWS.part_where(table, part))
    return f"SELECT {ROWS.columns(table)} FROM {relation} WHERE {inside}"


def keys_sql(table: Table, keys_relation: str, relation: str) -> str:
    """(key_text, h) of the rows of `relation` whose key text is in `keys_relation` (column key_text)."""
    rows = f"SELECT {ROWS.columns(table)} FROM {relation}"
    return f"SELECT /*+ BROADCAST(k) */ r.key_text, r.h FROM ({rows}) r LEFT SEMI JOIN {keys_relation} k ON r.key_text = k.key_text"
