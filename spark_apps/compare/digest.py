"""Digests over the sink's rows, in Spark SQL: leaves, the rows in them, and the rows of a part.

Spark sums two halves of the hash as bigint, because its decimal sums cost more than the hash.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.compare.leaves import LANE, IntegerLeaves, leaf_bounds, leaf_ranges
from airflow_cdc.core.compare.part import WHOLE, LeafRows, OneValue
from airflow_cdc.core.types import Instant
from airflow_cdc.spark_apps.compare.encoding import key_text, lanes, row_hash
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident

if TYPE_CHECKING:
    from airflow_cdc.core.compare.leaves import LeafScheme
    from airflow_cdc.core.compare.part import Part
    from airflow_cdc.core.table import Table


def leaf(scheme: LeafScheme, table: Table) -> str:
    """Expression: the row's leaf (bigint)."""
    if isinstance(scheme, IntegerLeaves):
        return f"({quote_ident(scheme.column)} div {scheme.width})"
    return f"(crc32({key_text(table)}) % {scheme.n})"


def digest_sql(table: Table, scheme: LeafScheme, relation: str, part: Part = WHOLE) -> str:
    """One scan of `relation` (a table, a view, or `t VERSION AS OF n`, already quoted) → rows (leaf, n, lane1, lane2)."""
    first, second = lanes("h")
    rows = (
        f"SELECT {leaf(scheme, table)} AS leaf, {row_hash(table)} AS h FROM {relation}{_where(part_where(table, part))}"
    )
    sums = f"SELECT leaf, COUNT(*) AS n, SUM({first}) AS hi, SUM({second}) AS lo FROM ({rows}) GROUP BY leaf"
    return f"SELECT leaf, n, hi + lo div {LANE}L AS lane1, lo % {LANE}L AS lane2 FROM ({sums})"


def rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], relation: str, part: Part = WHOLE) -> str:
    """(key_text, h) of every row of `relation` in these leaves; a keyless row's key_text is its hash."""
    inside, where = leaves_where(table, scheme, leaves), part_where(table, part)
    both = f"({inside}) AND ({where})" if where else inside
    return f"SELECT {_row(table)} FROM {relation} WHERE {both}"


def keys_sql(table: Table, keys_relation: str, relation: str) -> str:
    """(key_text, h) of the rows of `relation` whose key text stands in `keys_relation` (column key_text)."""
    rows = f"SELECT {_row(table)} FROM {relation}"
    return f"SELECT /*+ BROADCAST(k) */ r.key_text, r.h FROM ({rows}) r LEFT SEMI JOIN {keys_relation} k ON r.key_text = k.key_text"


def leaves_where(table: Table, scheme: LeafScheme, leaves: Sequence[int]) -> str:
    """Condition: rows in these leaves; ranges for integer leaves, so that files are pruned."""
    if isinstance(scheme, IntegerLeaves):
        column = quote_ident(scheme.column)
        ranges = leaf_ranges(scheme.width, leaves)
        return " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in ranges) or "FALSE"
    return f"{leaf(scheme, table)} IN ({_numbers(leaves)})" if leaves else "FALSE"


def _row(table: Table) -> str:
    return f"{key_text(table)} AS key_text, {row_hash(table)} AS h"


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _numbers(leaves: Sequence[int]) -> str:
    return ", ".join(str(int(leaf)) for leaf in leaves)


def part_where(table: Table, part: Part) -> str:
    """Condition: rows of the part, on bare columns, so that files are skipped; "": all."""
    rows = part.rows
    if rows is None:
        return ""
    if isinstance(rows, LeafRows):
        return leaves_where(table, rows.scheme, rows.leaves) + _beyond(rows)
    name = quote_ident(rows.column)
    if isinstance(rows, OneValue):
        return f"{name} = {rows.value if isinstance(rows.value, int) else literal(rows.value)}"
    stamp = "TIMESTAMP" if isinstance(table.column(rows.column).type, Instant) else "TIMESTAMP_NTZ"
    return f"{name} >= {_end(rows.low, stamp)} AND {name} < {_end(rows.high, stamp)}"


def _beyond(rows: LeafRows) -> str:
    if not isinstance(rows.scheme, IntegerLeaves):
        return ""
    column, width = quote_ident(rows.scheme.column), rows.scheme.width
    low = "" if rows.below is None else f" OR {column} < {leaf_bounds(width, rows.below)[0]}"
    return low + ("" if rows.above is None else f" OR {column} > {leaf_bounds(width, rows.above)[1]}")


def _end(end: int | dt.date | dt.datetime, stamp: str) -> str:
    if isinstance(end, int):
        return str(end)
    return f"{stamp}'{end:%Y-%m-%d %H:%M:%S.%f}'" if isinstance(end, dt.datetime) else f"DATE'{end:%Y-%m-%d}'"
