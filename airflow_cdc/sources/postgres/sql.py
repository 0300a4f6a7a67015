"""PostgreSQL's SQL over keys: chunk boundaries, ranges of the whole key, and the rows of given keys.

Every literal is an untyped text. The server gives it the type of the column it is compared with, so the key's index is
used for every type. Ranges compare the key as a row, which an index over the key answers as one range.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal as Number
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Array, Bits, Boolean, Date, Instant, Json, LocalDateTime, Time, Uuid
from airflow_cdc.decisions.compare.canonical import parse_key_text
from airflow_cdc.sources.postgres.quoting import quote_ident, quote_table, text_literal
from airflow_cdc.sources.postgres.types import value_sql

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.chunk import Key, KeyValue

_AS_PRINTED = (Date, Time, LocalDateTime, Instant, Uuid)


def key_select(column: Column) -> str:
    """The select expression of a key column; `key_literal` turns the returned `KeyValue` into the same value again."""
    name = quote_ident(column.name)
    if isinstance(column.value_type, _AS_PRINTED):
        return f"{name}::text"  # the session pins make this ISO format in UTC
    return f"{name}::int" if isinstance(column.type, Boolean) else value_sql(column)


def key_literal(column: Column, value: KeyValue) -> str:
    """The literal of a key value, to compare with its column."""
    if isinstance(column.value_type, Array | Json):
        raise SchemaError(
            f"{column.native.type} cannot be a key",
            where=f"column {column.name}",
            todo="Give the table a primary key of other columns, or take it out of the pipeline.",
        )
    if isinstance(column.type, Bits):
        return text_literal(format(int(value), f"0{column.type.size}b"))
    if isinstance(value, bytes):
        return text_literal(f"\\x{value.hex()}")
    if isinstance(value, Number):
        return text_literal(format(value, "f") if value.is_finite() else str(value))
    return text_literal(repr(value) if isinstance(value, float) else str(value))


def boundary_sql(table: Table, after: Key | None, k: int) -> str:
    """The key of the k-th row after `after` (exclusive; None = from the start): one row or none."""
    if table.keyless:
        raise SchemaError("a table without a key has no chunks", where=table.full_name)
    if k < 1:
        raise SchemaError(f"a chunk of {k} rows", where=table.full_name)
    columns = ", ".join(f"{key_select(c)} AS k{at}" for at, c in enumerate(table.key_columns))
    order = ", ".join(f"{quote_table(table)}.{quote_ident(name)}" for name in table.key)
    where = f" WHERE {chunk_predicate(table, after, None)}" if after is not None else ""
    return f"SELECT {columns} FROM {quote_table(table)}{where} ORDER BY {order} LIMIT 1 OFFSET {k - 1}"


def chunk_predicate(table: Table, lo: Key | None, hi: Key | None) -> str:
    """`lo < key <= hi` over the whole key; None leaves that end open."""
    ends = [_beyond(table, key, sign) for key, sign in ((lo, ">"), (hi, "<=")) if key is not None]
    return " AND ".join(ends) or "TRUE"


def key_predicate(table: Table, keys: Iterable[str]) -> str:
    """Condition for the rows with these key texts (FALSE for no keys), in a form that uses the key's index.

    With a type that treats different texts as equal (citext, numeric with another scale) it can find other rows too, so
    check each row's key text.
    """
    columns = table.key_columns
    found = [
        _row([key_literal(c, v) for c, v in zip(columns, parse_key_text(table, key), strict=True)]) for key in keys
    ]
    names = _row([quote_ident(c.name) for c in columns])
    return f"{names} IN ({', '.join(found)})" if found else "FALSE"


def _beyond(table: Table, key: Key, sign: str) -> str:
    columns = table.key_columns
    if len(key) != len(columns):
        raise SchemaError(f"a key of {len(key)} values for {len(columns)} columns", where=table.full_name)
    names = _row([quote_ident(c.name) for c in columns])
    return f"{names} {sign} {_row([key_literal(c, v) for c, v in zip(columns, key, strict=True)])}"


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
