"""MySQL's SQL over keys: chunk boundaries, ranges of the whole key, and the rows of given keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Bits, Bytes, Date, Instant, LocalDateTime, Time
from airflow_cdc.decisions.compare.canonical import parse_key_text
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table, sql_literal
from airflow_cdc.sources.mysql.types import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.chunk import Key, KeyValue

_MICROSECONDS = "%Y-%m-%d %H:%i:%s.%f"
_INDEXED = frozenset({"enum", "set", "bit", "year"})  # ordered by number, not by text


def key_select(column: Column) -> str:
    """The select expression of a key column; its value is a `KeyValue` that sorts as the column does."""
    name = quote_ident(column.name)
    data_type = words_of(column).data_type
    if data_type in _INDEXED:
        return f"CAST({name} + 0 AS UNSIGNED)"
    if isinstance(column.type, Date):
        return f"DATE_FORMAT({name}, '%Y-%m-%d')"
    if isinstance(column.type, LocalDateTime | Instant):
        return f"DATE_FORMAT({name}, '{_MICROSECONDS}')"
    if isinstance(column.type, Time):
        return f"CAST({name} AS CHAR)"
    if data_type == "float":
        return f"{name} + 0e0"
    return name


def shown_key(column: Column) -> str:
    """The text of a key column's value for people. Bytes as MySQL writes them, 0xED01: as characters they are no valid text."""
    name = quote_ident(column.name)
    if isinstance(column.type, Bytes):
        return f"CONCAT('0x', HEX({name}))"
    return f"CAST({name} + 0 AS CHAR)" if isinstance(column.type, Bits) else f"CAST({name} AS CHAR)"


def key_operand(column: Column) -> str:
    """The left side of a comparison with such a value: the bare column (for its index) if the order allows it."""
    name = quote_ident(column.name)
    return f"({name} + 0)" if words_of(column).data_type in {"enum", "set"} else name


def boundary_sql(table: Table, after: Key | None, k: int) -> str:
    """The key of the k-th row after `after` (exclusive; None = from the start): one row or none."""
    if table.keyless:
        raise SchemaError("a table without a key has no chunks", where=table.full_name)
    if k < 1:
        raise SchemaError(f"a chunk of {k} rows", where=table.full_name)
    columns = ", ".join(key_select(c) for c in table.key_columns)
    order = ", ".join(quote_ident(name) for name in table.key)
    where = f" WHERE {chunk_predicate(table, after, None)}" if after is not None else ""
    return f"SELECT {columns} FROM {quote_table(table)}{where} ORDER BY {order} LIMIT 1 OFFSET {k - 1}"


def chunk_predicate(table: Table, lo: Key | None, hi: Key | None) -> str:
    """`lo < key <= hi` over the whole key; None leaves that end open.

    Expanded to OR/AND, because MySQL does not use an index for row comparisons: (a, b) > (1, 2) becomes
    `a > 1 OR (a = 1 AND b > 2)`, preceded by `a >= 1` so that the first index column has a range.
    """
    parts = []
    if lo is not None:
        parts.append(_beyond(table, lo, ">", ""))
    if hi is not None:
        parts.append(_beyond(table, hi, "<", "="))
    return " AND ".join(parts) or "TRUE"


def _beyond(table: Table, key: Key, sign: str, last: str) -> str:
    columns = table.key_columns
    if len(key) != len(columns):
        raise SchemaError(f"a key of {len(key)} values for {len(columns)} columns", where=table.full_name)
    operands = [key_operand(c) for c in columns]
    literals = [sql_literal(v) for v in key]
    alternatives = []
    for i, (operand, literal) in enumerate(zip(operands, literals, strict=True)):
        equal = [f"{o} = {v}" for o, v in zip(operands[:i], literals[:i], strict=True)]
        closing = last if i == len(columns) - 1 else ""
        alternatives.append(" AND ".join([*equal, f"{operand} {sign}{closing} {literal}"]))
    if len(alternatives) == 1:
        return f"({alternatives[0]})"
    expanded = " OR ".join(f"({a})" for a in alternatives)
    return f"({operands[0]} {sign}= {literals[0]} AND ({expanded}))"


def key_predicate(table: Table, keys: Iterable[str]) -> str:
    """MySQL condition for the rows with these key texts (FALSE for no keys), in a form that uses the key's index.

    Under a case-insensitive collation it can find more (`a` also finds `A`): check the rows' own key texts.
    """
    columns = table.key_columns
    tuples = [parse_key_text(table, key) for key in keys]
    if not tuples:
        return "FALSE"
    if len(columns) == 1 and not isinstance(columns[0].type, Date | LocalDateTime | Instant):
        literals = ", ".join(sql_literal(values[0]) for values in tuples)
        return f"{quote_ident(columns[0].name)} IN ({literals})"
    return " OR ".join(f"({_equals(columns, values)})" for values in tuples)


def _equals(columns: tuple[Column, ...], values: Key) -> str:
    return " AND ".join(_equal(column, value) for column, value in zip(columns, values, strict=True))


def _equal(column: Column, value: KeyValue) -> str:
    name = quote_ident(column.name)
    condition = f"{name} = {sql_literal(value)}"
    # a zero date in a NOT NULL column is written as the epoch
    dated = isinstance(column.type, Date | LocalDateTime | Instant)
    is_epoch = dated and str(value).startswith("1970-01-01") and not str(value).strip("1970-: .")
    return f"({condition} OR {name} = 0)" if is_epoch else condition
