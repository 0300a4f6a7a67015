"""PostgreSQL's values in forms that Spark's JDBC reader returns exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.types import Array, Bits, Bytes, Decimal
from airflow_cdc.sources.postgres.quoting import quote_ident
from airflow_cdc.sources.postgres.types import element_sql, guarded, out_of_range, value_sql

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column

OUTSIDE = "holds what no day from 0001-01-01 to 9999-12-31 is"


def read_sql(column: Column) -> str:
    """PostgreSQL expression: like `value_sql`, but with exact numbers as text and arrays as JSON arrays of text."""
    name = quote_ident(column.name)
    if isinstance(column.value_type, Array):
        return _array(column, column.value_type, name)
    value = value_sql(column)
    if isinstance(column.value_type, Decimal | Bits):
        return f"({value})::text"
    wrong = out_of_range(column, name)
    return guarded(column, wrong, value, OUTSIDE) if wrong else value


def _array(column: Column, kind: Array, name: str) -> str:
    element = element_sql(column, "u.e")
    text = f"pg_catalog.encode({element}, 'hex')" if isinstance(kind.of, Bytes) else f"({element})::text"
    listed = f"(SELECT pg_catalog.json_agg({text} ORDER BY u.o) FROM unnest({name}) WITH ORDINALITY AS u(e, o))::text"
    inside = f"CASE WHEN {name} IS NOT NULL THEN COALESCE({listed}, '[]') END"
    # this guard is 0, or fails the statement
    refused = guarded(column, f"pg_catalog.array_ndims({name}) > 1", "0", "has several dimensions")
    return f"CASE WHEN ({refused}) = 0 THEN {inside} END"
