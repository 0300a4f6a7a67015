"""The canonical text of rows, in Spark SQL over the sink's columns (decisions/compare/canonical.py defines it).

A value's text depends only on its logical type, not on the source it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.decisions.compare.canonical import hashed, in_key, is_short
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

_NULL = "'N'"


def row_hash(table: Table) -> str:
    """Expression: hexadecimal SHA-256 of the row's text."""
    return f"sha2({text((c.value_type, quote_ident(c.name)) for c in hashed(table))}, 256)"


def key_text(table: Table) -> str:
    """Expression: the key's text (the row's hash where there is no key)."""
    if table.keyless:
        return row_hash(table)
    return text((in_key(c.value_type), quote_ident(c.name)) for c in table.key_columns)


def lanes(h: str) -> tuple[str, str]:
    """The first and second 32 bits of a row hash, as bigint: summing them needs no decimal, which is slow in Spark."""
    return f"CAST(conv(substr({h}, 1, 8), 16, 10) AS bigint)", f"CAST(conv(substr({h}, 9, 8), 16, 10) AS bigint)"


def text(values: Iterable[tuple[LogicalType, str]]) -> str:
    """Expression: the text of these values (type, expression) in order."""
    return _joined([(kind, value) for kind, value in values], 0)


def _joined(values: Iterable[tuple[LogicalType, str]], depth: int) -> str:
    pieces = []
    for kind, value in values:
        first, *rest = _pieces(kind, value, depth)
        # for NOT NULL columns too: a NULL in the sink must not look like a shorter row of the source
        pieces += [f"coalesce(CAST({first} AS string), {_NULL})", *rest]
    return f"concat_ws('|', {', '.join(pieces)})"


def _pieces(kind: LogicalType, c: str, depth: int) -> tuple[str, ...]:
    """Expressions that are all NULL if and only if the value is; `depth` numbers the variables of nested arrays."""
    if isinstance(kind, Array):
        each = f"e{depth}"
        return f"size({c})", f"array_join(transform({c}, {each} -> {_joined([(kind.of, each)], depth + 1)}), '|')"
    if type(kind) not in _TABLE:
        raise SchemaError(f"{kind} has no text that all engines write alike")
    return _TABLE[type(kind)](kind, c)


def _one(form: str) -> Callable[[LogicalType, str], tuple[str, ...]]:
    return lambda _kind, c: (form.format(c=c),)


def _decimal(kind: Decimal, c: str) -> tuple[str, ...]:
    # as a whole number where it fits: converting a decimal to text is the slowest part of a row in Spark
    return (f"CAST({c} * {10**kind.scale} AS bigint)" if is_short(kind) else c,)


def _double(_kind: Float, c: str) -> tuple[str, ...]:
    # the 64 bits of the number, with a single zero and a single NaN; java_method accepts no NULL
    number = f"coalesce(CAST({c} AS double), 0D) + 0D"
    bits = f"CAST(java_method('java.lang.Double', 'doubleToLongBits', {number}) AS bigint)"
    return (f"IF({c} IS NULL, NULL, lpad(hex({bits}), 16, '0'))",)


def _text(kind: Text, c: str) -> tuple[str, ...]:
    return (f"sha2({c}, 256)",) if kind.long else (f"octet_length({c})", c)


def _bytes(kind: Bytes, c: str) -> tuple[str, ...]:
    return (f"sha2({c}, 256)" if kind.long else f"hex({c})",)


def _geometry(_kind: Geometry, c: str) -> tuple[str, ...]:
    return f"{c}.srid", f"sha2({c}.wkb, 256)"


_TABLE: dict[type[LogicalType], Callable[[Any, str], tuple[str, ...]]] = {
    Integer: _one("{c}"),
    Bits: _one("{c}"),
    Time: _one("{c}"),
    Boolean: _one("CAST({c} AS int)"),
    Decimal: _decimal,
    Float: _double,
    Date: _one("unix_date({c})"),
    LocalDateTime: _one("unix_micros(CAST({c} AS timestamp))"),
    Instant: _one("unix_micros({c})"),
    Text: _text,
    Bytes: _bytes,
    Uuid: _one("lower({c})"),
    Geometry: _geometry,
}
