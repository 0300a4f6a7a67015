"""The canonical text of rows (see decisions/compare/canonical.py) in PostgreSQL's SQL, and digests over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Instant,
    Integer,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.decisions.compare.canonical import hashed, in_key, is_short
from airflow_cdc.sources.postgres.quoting import quote_ident
from airflow_cdc.sources.postgres.types import element_sql, guarded, out_of_range, value_sql

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table

_NULL = "'N'"


def row_text(table: Table) -> str:
    """PostgreSQL expression: the row's text."""
    return _text([(c, c.value_type) for c in hashed(table)])


def row_digest(table: Table) -> str:
    """PostgreSQL expression: the SHA-256 of the row's text, as bytea."""
    return f"pg_catalog.sha256(pg_catalog.convert_to({row_text(table)}, 'UTF8'))"


def row_hash(table: Table) -> str:
    """PostgreSQL expression: the SHA-256 of the row's text, in hexadecimal."""
    return f"pg_catalog.encode({row_digest(table)}, 'hex')"


def key_text(table: Table) -> str:
    """PostgreSQL expression: the key's text (the row's hash where there is no key)."""
    if table.keyless:
        return row_hash(table)
    return _text([(c, in_key(c.value_type)) for c in table.key_columns])


def _text(columns: Sequence[tuple[Column, LogicalType]]) -> str:
    pieces = []
    for column, kind in columns:
        first, *rest = _column_pieces(column, kind)
        pieces += [f"COALESCE(({first})::text, {_NULL})" if column.nullable else first, *rest]
    # concat_ws omits NULLs and their separators, so a NULL value has only its first piece
    return f"pg_catalog.concat_ws('|', {', '.join(pieces)})"


def _column_pieces(column: Column, kind: LogicalType) -> tuple[str, ...]:
    name = quote_ident(column.name)
    if isinstance(kind, Array):
        return _array(column, kind, name)
    wrong = out_of_range(column, name)
    first, *rest = _pieces(kind, value_sql(column))
    return (
        guarded(column, wrong, first, "holds what no day from 0001-01-01 to 9999-12-31 is") if wrong else first,
        *rest,
    )


def _array(column: Column, kind: Array, name: str) -> tuple[str, ...]:
    first, *rest = _pieces(kind.of, element_sql(column, "u.e"))
    each = ", ".join([f"COALESCE(({first})::text, {_NULL})", *rest])
    joined = f"pg_catalog.string_agg(pg_catalog.concat_ws('|', {each}), '|' ORDER BY u.o)"
    elements = f"(SELECT COALESCE({joined}, '') FROM unnest({name}) WITH ORDINALITY AS u(e, o))"
    count = guarded(
        column, f"pg_catalog.array_ndims({name}) > 1", f"pg_catalog.cardinality({name})", "has several dimensions"
    )
    return count, f"CASE WHEN {name} IS NOT NULL THEN {elements} END"


def _pieces(kind: LogicalType, value: str) -> tuple[str, ...]:
    """Expressions over a value in its type's form (see PgType); all are NULL exactly when the value is NULL."""
    row = _TABLE.get(type(kind))
    if row is None:
        raise SchemaError(f"{kind} has no text that all engines write alike")
    return row(kind, value)


def _one(form: str) -> Callable[[object, str], tuple[str, ...]]:
    return lambda _kind, v: (form.format(v=v),)


def _decimal(kind: Decimal, v: str) -> tuple[str, ...]:
    return (f"({v} * {10**kind.scale})::bigint" if is_short(kind) else f"{v}::text",)


def _text_pieces(kind: Text, v: str) -> tuple[str, ...]:
    if kind.long:
        return (f"pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to({v}, 'UTF8')), 'hex')",)
    return f"pg_catalog.octet_length({v})", v


def _bytes(kind: Bytes, v: str) -> tuple[str, ...]:
    digest = f"pg_catalog.encode(pg_catalog.sha256({v}), 'hex')"
    return (digest if kind.long else f"pg_catalog.upper(pg_catalog.encode({v}, 'hex'))",)


_TABLE: dict[type[LogicalType], Callable[[Any, str], tuple[str, ...]]] = {
    Integer: _one("{v}"),
    Bits: _one("{v}"),
    Time: _one("{v}"),
    Date: _one("{v}"),
    LocalDateTime: _one("{v}"),
    Instant: _one("{v}"),
    Boolean: _one("{v}::int"),
    Decimal: _decimal,
    Float: _one("pg_catalog.upper(pg_catalog.encode(pg_catalog.float8send({v}), 'hex'))"),
    Text: _text_pieces,
    Bytes: _bytes,
    Uuid: _one("{v}"),
}
