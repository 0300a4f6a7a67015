"""Rows of a source table against rows of its sink, by code that shares nothing with the product.

Its own SQL on the source, its own idea of every type, the sink read by PyIceberg. The writer must have stopped and
everything must be applied. What the product documents as agreed is taken as agreed: an impossible date is NULL, or
the epoch where NULL can't stand; TIME is a number of microseconds; a geometry is its SRID and its WKB.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pymysql
from pyiceberg.catalog import Catalog
from pymysql.converters import conversions

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as information_schema tells of it."""

    name: str
    kind: str
    full: str
    nullable: bool
    generated: bool


@dataclass(slots=True)
class Comparison:
    """What differs in one table: rows on one side only, by multiplicity, and the columns in which keys differ."""

    table: str
    source_rows: int = 0
    sink_rows: int = 0
    missing: int = 0
    ghosts: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    why: str = ""

    @property
    def equal(self) -> bool:
        return not (self.missing or self.ghosts or self.why)


def compare(
    mysql: Mapping[str, Any], catalog: Catalog, schema: str, table: str, namespace: str, *, generated: bool
) -> Comparison:
    """Compare one table row by row; `generated`: the columns that the server computes too."""
    comparison = Comparison(table)
    with pymysql.connect(**mysql, charset="utf8mb4", conv=_PLAIN) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
        columns = _columns(cursor, schema, table)
        key = _key(cursor, schema, table)
        compared = [column for column in columns if generated or not column.generated]
        cursor.execute(f"SELECT {', '.join(map(_select, compared))} FROM {_quote(schema)}.{_quote(table)}")
        source = [_source_row(row, compared) for row in cursor.fetchall()]
    rows = catalog.load_table((namespace, sink_name(table))).scan().to_arrow()
    names = [column.name for column in columns]
    if sorted(rows.schema.names) != sorted(names):
        comparison.why = f"columns differ: source {sorted(names)}, sink {sorted(rows.schema.names)}"
        return comparison
    sink = [_sink_row(row, compared) for row in _plain_rows(rows, compared)]
    return _differences(comparison, compared, key, source, sink)


def sink_name(table: str) -> str:
    """The documented name of a sink table: a table's own, made plain with a hash where it has unusual characters."""
    plain = re.sub(r"[^\w$-]", "_", table)
    return table if plain == table else f"{plain}_{hashlib.sha256(table.encode()).hexdigest()[:8]}"


def _differences(
    comparison: Comparison, columns: Sequence[SourceColumn], key: Sequence[str], source: list[Row], sink: list[Row]
) -> Comparison:
    comparison.source_rows, comparison.sink_rows = len(source), len(sink)
    theirs, ours = Counter(source), Counter(sink)
    only_source, only_sink = theirs - ours, ours - theirs
    comparison.missing, comparison.ghosts = only_source.total(), only_sink.total()
    at = [index for index, column in enumerate(columns) if column.name in key]
    by_key = {tuple(row[i] for i in at): row for row in only_sink} if at else {}
    for row in only_source:
        other = by_key.get(tuple(row[i] for i in at)) if at else None
        pairs = zip(columns, row, other or (), strict=False)
        for column, value, held in pairs:
            if value != held:
                comparison.columns.setdefault(f"{column.name} {column.full}", f"source {value!r}, sink {held!r}"[:300])
    comparison.examples = [f"only in source: {row!r}"[:500] for row in list(only_source)[:2]]
    comparison.examples += [f"only in sink: {row!r}"[:500] for row in list(only_sink)[:2]]
    return comparison


# --- the source ------------------------------------------------------------------------------------------------------

# encoders only: values come as text or bytes, unconverted
_PLAIN: dict[Any, Any] = {kind: encode for kind, encode in dict(conversions).items() if isinstance(kind, type)}


def _columns(cursor: Any, schema: str, table: str) -> list[SourceColumn]:
    cursor.execute(
        "SELECT column_name, data_type, column_type, is_nullable, character_set_name, generation_expression"
        " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (schema, table),
    )
    return [
        SourceColumn(
            _text(name),
            _text(kind).lower(),
            f"{_text(full)}{f' {_text(charset)}' if charset else ''}",
            _text(nullable) == "YES",
            bool(_text(expression or "")),
        )
        for name, kind, full, nullable, charset, expression in cursor.fetchall()
    ]


def _key(cursor: Any, schema: str, table: str) -> list[str]:
    cursor.execute(
        "SELECT column_name FROM information_schema.statistics"
        " WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY'",
        (schema, table),
    )
    return [_text(row[0]) for row in cursor.fetchall()]


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


_INTS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_REALS = ("float", "double")
_MOMENTS = ("date", "datetime", "timestamp")
_SHAPES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
)  # fmt: skip


def _select(column: SourceColumn) -> str:
    """An expression whose value no driver and no connection character set can change."""
    name = _quote(column.name)
    if column.kind in _REALS:
        return f"{name} + 0e0"
    if column.kind in _INTS:
        return f"CAST({name} + 0 AS CHAR)"
    if column.kind in (*_BYTES, *_SHAPES):
        return f"HEX({name})"
    if column.kind in (*_MOMENTS, "time"):
        return f"CAST({name} AS CHAR)"
    if column.kind == "decimal":
        return f"CAST({name} + 0 AS CHAR)" if "zerofill" in column.full else f"CAST({name} AS CHAR)"
    return f"HEX(CONVERT({name} USING utf8mb4))"


def _source_row(row: Sequence[Any], columns: Sequence[SourceColumn]) -> Row:
    return tuple(
        None if value is None else _SOURCE.get(column.kind, _from_hex)(_text(value), column)
        for value, column in zip(row, columns, strict=True)
    )


def _from_hex(value: str, _: SourceColumn) -> str:
    return bytes.fromhex(value).decode()


def _moment(value: str, column: SourceColumn) -> str | None:
    day, _, clock = value.partition(" ")
    year, month, date = (int(part) for part in day.split("-"))
    try:
        dt.date(year, month, date)
    except ValueError:
        if column.nullable:
            return None
        day, clock = "1970-01-01", "00:00:00" if clock else ""
    base, _, part = clock.partition(".")
    return f"{day} {base}.{part.ljust(6, '0')}" if clock else day


def _micros(value: str, _: SourceColumn) -> int:
    sign = -1 if value.startswith("-") else 1
    hours, minutes, seconds = value.lstrip("-").split(":")
    whole, _dot, part = seconds.partition(".")
    return sign * (((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(part.ljust(6, "0") or 0))


def _shape(value: str, _: SourceColumn) -> tuple[int, bytes]:
    raw = bytes.fromhex(value)
    return int.from_bytes(raw[:4], "little"), raw[4:]


def _real(value: Any, _: SourceColumn) -> float:
    return 0.0 if float(value) == 0 else float(value)  # -0.0 and 0.0 are equal to SQL


_SOURCE: dict[str, Callable[[str, SourceColumn], Any]] = {
    **dict.fromkeys(_INTS, lambda value, _: int(Decimal(value))),
    **dict.fromkeys(_REALS, _real),
    **dict.fromkeys(_BYTES, lambda value, _: bytes.fromhex(value)),
    **dict.fromkeys(_SHAPES, _shape),
    **dict.fromkeys(_MOMENTS, _moment),
    "decimal": lambda value, _: Decimal(value),
    "time": _micros,
    "json": lambda value, column: json_value(_from_hex(value, column)),
}


# --- the sink --------------------------------------------------------------------------------------------------------


def _plain_rows(rows: Any, columns: Sequence[SourceColumn]) -> list[Row]:
    held = [rows.column(rows.schema.get_field_index(column.name)).to_pylist() for column in columns]
    return list(zip(*held, strict=True)) if held else []


def _sink_row(row: Row, columns: Sequence[SourceColumn]) -> Row:
    return tuple(
        None if value is None else _SINK.get(column.kind, _as_it_is)(value, column)
        for value, column in zip(row, columns, strict=True)
    )


def _as_it_is(value: Any, _: SourceColumn) -> Any:
    return value


def _sink_moment(value: Any, _: SourceColumn) -> str:
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S.%f}"
    return f"{value.year:04d}-{value:%m-%d}"


_SINK: dict[str, Callable[[Any, SourceColumn], Any]] = {
    **dict.fromkeys((*_INTS, "time"), lambda value, _: int(value)),
    **dict.fromkeys(_REALS, _real),
    **dict.fromkeys(_BYTES, lambda value, _: bytes(value)),
    **dict.fromkeys(_SHAPES, lambda value, _: (int(value["srid"] or 0), bytes(value["wkb"]))),
    **dict.fromkeys(_MOMENTS, _sink_moment),
    "decimal": lambda value, _: Decimal(str(value)),
    "json": lambda value, _: json_value(value),
}


# --- JSON by value ---------------------------------------------------------------------------------------------------


def json_value(text: str) -> Any:
    """A hashable value in which no digit is lost: numbers are equal if they are the same number."""
    try:
        return _hashable(json.loads(text, parse_float=_number, parse_int=Decimal))
    except ValueError as error:
        return f"not JSON: {error}: {text[:60]!r}"


def _number(text: str) -> Decimal:
    """An exponent with few digits is a double: a whole one stands for its value, others for their shortest text."""
    digits = sum(letter.isdigit() for letter in text.lower().partition("e")[0].lstrip("-0."))
    if "e" not in text.lower() or digits > 17:
        return Decimal(text)
    double = float(text)
    return Decimal(double) if double.is_integer() else Decimal(repr(double))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return ("object", frozenset((name, _hashable(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_hashable(item) for item in value))
    return (type(value).__name__, value)  # so that true is not 1
