"""PostgreSQL's types: the logical type of each, and the SQL that reads and distinguishes its values.

This module only writes SQL for PostgreSQL; it executes nothing. If the logical type cannot hold a value (an infinite
date, a numeric NaN, an array of two dimensions), the statement that reads it fails with an error that shows column and
value. Returning NULL or a nearby value instead would be a silent difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, NativeColumn, Table, Word
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
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Unsupported,
    Uuid,
)
from airflow_cdc.sources.errors import OTHER_DEFINITION
from airflow_cdc.sources.postgres.quoting import quote_ident, text_literal

if TYPE_CHECKING:
    from airflow_cdc.sources.postgres.columns import PgColumn, PgTable

WORDS: Final = "postgres"
_MONEY: Final = Decimal(19, 2)
_NUMBERED_BITS: Final = 64  # a bit(n) with more bits is text
_FIRST, _LAST = "0001-01-01", "9999-12-31"
OUTSIDE = "holds what no day from 0001-01-01 to 9999-12-31 is"


@dataclass(frozen=True, slots=True)
class PgType:
    """One row of the type table: the logical type, and SQL over the quoted column `c` for a value in that type's form.

    The canonical text and the readers use this form: text for Text and Uuid, numbers for numbers and bits, microseconds
    (bigint) for times, days (integer) for dates, bytea for Bytes.
    """

    logical: Callable[[PgColumn], LogicalType]
    value: Callable[[str, LogicalType], str]


def _is(kind: LogicalType) -> Callable[[PgColumn], LogicalType]:
    return lambda _column: kind


def _form(form: str) -> Callable[[str, LogicalType], str]:
    return lambda c, _kind: form.format(c=c)


def _numeric(column: PgColumn) -> LogicalType:
    """Text without a modifier: then each value has its own scale, which only text holds exactly."""
    digits = column.digits
    if digits is None:
        return Text()
    precision, scale = digits
    return Decimal(precision - scale, 0) if scale < 0 else Decimal(max(precision, scale), scale)


def _numeric_value(c: str, kind: LogicalType) -> str:
    return f"{c}::text" if isinstance(kind, Text) else c


def _bit(column: PgColumn) -> LogicalType:
    size = column.length or 1
    return Bits(size) if size <= _NUMBERED_BITS else Text()


def _bit_value(c: str, kind: LogicalType) -> str:
    if isinstance(kind, Text):
        return f"{c}::text"
    number = f"{c}::bigint"  # the first of 64 bits becomes the sign
    wide = isinstance(kind, Bits) and kind.size == _NUMBERED_BITS
    return f"({number}::numeric + CASE WHEN {number} < 0 THEN 18446744073709551616 ELSE 0 END)" if wide else number


def _text_value(c: str, _kind: LogicalType) -> str:
    # the cast removes the blanks that pad a char(n); they have no meaning
    return f"{c}::text"


def _printed(c: str, _kind: LogicalType) -> str:
    """The text of the type's output function, because a cast of an inet would add a netmask."""
    return f"CASE WHEN {c} IS NOT NULL THEN pg_catalog.concat({c}) END"


def _interval(c: str, _kind: LogicalType) -> str:
    parts = [f"EXTRACT({part} FROM {c})::int, '{unit}'" for part, unit in (("year", "Y"), ("month", "M"), ("day", "DT"), ("hour", "H"), ("minute", "M"))]  # fmt: skip
    seconds = f"pg_catalog.trim_scale(EXTRACT(second FROM {c})), 'S'"
    return f"CASE WHEN {c} IS NOT NULL THEN pg_catalog.concat('P', {', '.join([*parts, seconds])}) END"


def _micros(c: str, _kind: LogicalType) -> str:
    return f"(EXTRACT(epoch FROM {c}) * 1000000)::bigint"


_TEXT: Final = PgType(_is(Text()), _text_value)
_PRINTED: Final = PgType(_is(Text()), _printed)

# pg_type.typname of types in pg_catalog, or of extension types that are recognised by name
_TYPES: Final[dict[str, PgType]] = {
    "int2": PgType(_is(Integer(16)), _form("{c}")),
    "int4": PgType(_is(Integer(32)), _form("{c}")),
    "int8": PgType(_is(Integer(64)), _form("{c}")),
    "oid": PgType(_is(Integer(64)), _form("{c}::bigint")),
    "bool": PgType(_is(Boolean()), _form("{c}")),
    "numeric": PgType(_numeric, _numeric_value),
    "money": PgType(_is(_MONEY), _form("{c}::numeric(19,2)")),
    "float4": PgType(_is(Float(32)), _form("({c}::float8 + 0)")),
    "float8": PgType(_is(Float(64)), _form("({c} + 0)")),
    "bit": PgType(_bit, _bit_value),
    "varbit": _TEXT,
    "date": PgType(_is(Date()), _form("({c} - DATE '1970-01-01')")),
    "time": PgType(_is(Time()), _micros),
    "timetz": _TEXT,
    "timestamp": PgType(_is(LocalDateTime()), _micros),
    "timestamptz": PgType(_is(Instant()), _micros),
    "interval": PgType(_is(Text()), _interval),
    "bytea": PgType(_is(Bytes(long=True)), _form("{c}")),
    "uuid": PgType(_is(Uuid()), _form("{c}::text")),
    # the server prints a document in the same way everywhere, also in events, so its text can be compared
    "json": _TEXT,
    "jsonb": _TEXT,
    "hstore": PgType(_is(Json()), _form("{c}::json::text")),
    **dict.fromkeys(("inet", "cidr"), _PRINTED),
    **dict.fromkeys(
        (
            "text", "varchar", "bpchar", "char", "name", "xml", "macaddr", "macaddr8", "citext", "ltree", "tsvector",
            "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
            "int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange",
        ),
        _TEXT,
    ),
}  # fmt: skip
_OF_EXTENSIONS: Final = frozenset({"hstore", "citext", "ltree"})


def row_of(name: str, schema: str, kind: str) -> PgType | None:
    """The row of a type; None if its values cannot be mirrored. `kind`: pg_type.typtype."""
    if kind == "e":
        return _TEXT
    known = schema == "pg_catalog" or name in _OF_EXTENSIONS
    return _TYPES.get(name) if known and kind in {"b", "r", "m"} else None


def logical_type(column: PgColumn) -> LogicalType:
    """A column's logical type; Unsupported for composites, geometry, and unknown types of extensions."""
    if column.element:
        row = row_of(column.element, column.element_schema, column.element_kind)
        of = Unsupported() if row is None else row.logical(column)
        return of if isinstance(of, Unsupported) else Array(of)
    row = row_of(column.type, column.type_schema, column.type_kind)
    return Unsupported() if row is None else row.logical(column)


def column_of(column: PgColumn) -> Column:
    """The neutral form of a column; its native terms hold everything that decides what its values are or come from."""
    words: dict[str, Word] = {
        "type": column.type,
        "type_schema": column.type_schema,
        "type_kind": column.type_kind,
        "modifier": column.modifier,
        "element": column.element,
        "element_schema": column.element_schema,
        "element_kind": column.element_kind,
        "labels": column.labels,
        "collation": column.collation,
        "identity": column.identity,
    }
    said = tuple(sorted((name, word) for name, word in words.items() if word not in ("", ())))
    native = NativeColumn(WORDS, column.declared, said)
    return Column(column.name, column.number, logical_type(column), native, column.nullable)


def table_of(table: PgTable) -> Table:
    """The neutral form of a table: without generated columns, which the log does not hold."""
    columns = tuple(column_of(column) for column in table.columns if not column.generated)
    return Table(table.schema, table.name, columns, table.key)


@lru_cache(maxsize=10_000)
def words_of(native: NativeColumn) -> dict[str, Any]:
    """PostgreSQL's terms of a column, as `column_of` stored them. SchemaError for one of another kind of source."""
    if native.source != WORDS:
        raise SchemaError(
            f"{native.type} is a type of {native.source}, and is read as one of PostgreSQL's",
            todo=OTHER_DEFINITION,
        )
    return dict(native.words)


def value_sql(column: Column, c: str = "") -> str:
    """PostgreSQL expression: the column's value in the form of its logical type (see PgType); NULL exactly for NULL.

    Raises SchemaError for a type that cannot be mirrored.
    """
    name = c or quote_ident(column.name)
    kind, words = column.value_type, words_of(column.native)
    if isinstance(kind, Array):
        raise SchemaError(f"{column.native.type} is read element by element", where=f"column {column.name}")
    return value_of(words["type"], words["type_schema"], words["type_kind"], kind, name)


def element_sql(column: Column, c: str) -> str:
    """Like `value_sql`, for one element `c` of an array column."""
    kind, words = column.value_type, words_of(column.native)
    if not isinstance(kind, Array):
        raise SchemaError(f"{column.native.type} is no array", where=f"column {column.name}")
    return value_of(words["element"], words["element_schema"], words["element_kind"], kind.of, c)


def value_of(name: str, schema: str, type_kind: str, kind: LogicalType, c: str) -> str:
    row = row_of(name, schema, type_kind)
    if row is None:
        raise SchemaError(
            f"type {schema}.{name} is not supported",
            todo="Exclude the column on the connector (column.exclude.list), or take the table out of the pipeline.",
        )
    return row.value(c, kind)


def guarded(column: Column, condition: str, value: str, why: str) -> str:
    """`value`, but if `condition` is true the statement fails with a message of column, `why` and value.

    PostgreSQL has no function that raises, so we cast the message to a number: the error quotes it.
    """
    said = text_literal(f"column {column.name} of type {column.native.type} {why}: ")
    refusal = f"pg_catalog.concat({said}, {quote_ident(column.name)})::int"
    return f"CASE WHEN {condition} THEN {refusal} ELSE {value} END"


def out_of_range(column: Column, c: str) -> str:
    """Condition for dates and times that the logical type cannot hold, infinity included; "" for other types."""
    if isinstance(column.type, Date):
        return f"{c} NOT BETWEEN DATE '{_FIRST}' AND DATE '{_LAST}'"
    if isinstance(column.type, LocalDateTime):
        return f"{c} NOT BETWEEN TIMESTAMP '{_FIRST}' AND TIMESTAMP '{_LAST} 23:59:59.999999'"
    if isinstance(column.type, Instant):
        return f"{c} NOT BETWEEN TIMESTAMPTZ '{_FIRST} 00:00:00+00' AND TIMESTAMPTZ '{_LAST} 23:59:59.999999+00'"
    return ""


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
