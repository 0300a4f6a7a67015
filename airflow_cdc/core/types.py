"""Logical types: a source's types are mapped to them, and a sink's types are derived from them.

A source gives each of its columns one of these types (sources/*/types.py). Everything except the source and its
connector uses only these: to compare values (decisions/compare/canonical.py) and to choose the sink's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from airflow_cdc.core.errors import MALFORMED, SchemaError


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number of `bits` bits, sign included."""

    bits: int = 32
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the decimal point."""

    precision: int
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Float:
    """An IEEE 754 number of 32 or 64 bits."""

    bits: int = 64


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters. `long`: a value may be too long for the text of its row, which then has the value's hash."""

    long: bool = False


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes. `long`: as for Text."""

    long: bool = False


@dataclass(frozen=True, slots=True)
class Date:
    """A day of the years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day, or a span of hours with a sign, in microseconds."""


@dataclass(frozen=True, slots=True)
class LocalDateTime:
    """A date with a time of day in microseconds, without a time zone."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A point in time in microseconds, independent of time zones."""


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document. Databases print equal documents differently."""


@dataclass(frozen=True, slots=True)
class Uuid:
    """A UUID, as text of 36 characters in lower case."""


@dataclass(frozen=True, slots=True)
class Bits:
    """`size` bits (1 to 64), read as a number without a sign."""

    size: int = 1


@dataclass(frozen=True, slots=True)
class Geometry:
    """A shape as WKB, with the number of its spatial reference system (0: none)."""


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type, in order."""

    of: LogicalType


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A type of the source that nothing here can carry. The column can be described, not read."""


LogicalType = (
    Integer | Decimal | Float | Boolean | Text | Bytes | Date | Time | LocalDateTime | Instant | Json | Uuid | Bits
    | Geometry | Array | Unsupported
)  # fmt: skip

_CLASSES: tuple[type[LogicalType], ...] = (
    Integer, Decimal, Float, Boolean, Text, Bytes, Date, Time, LocalDateTime, Instant, Json, Uuid, Bits, Geometry, Array,
    Unsupported,
)  # fmt: skip
_BY_NAME: dict[str, type[Any]] = {cls.__name__: cls for cls in _CLASSES}


def type_to_json(kind: LogicalType) -> dict[str, object]:
    """Plain JSON, such as `{"name": "Integer", "bits": 64, "unsigned": true}`."""
    details = {f.name: getattr(kind, f.name) for f in fields(kind)}
    if isinstance(kind, Array):
        details["of"] = type_to_json(kind.of)
    return {"name": type(kind).__name__, **details}


def type_from_json(value: Mapping[str, Any]) -> LogicalType:
    """The inverse of `type_to_json`; SchemaError for a type that this version does not know."""
    try:
        details = {key: type_from_json(part) if key == "of" else part for key, part in value.items() if key != "name"}
        kind: LogicalType = _BY_NAME[value["name"]](**details)
    except MALFORMED as error:
        raise SchemaError(f"not a type of a column: {value!r}") from error
    return kind
