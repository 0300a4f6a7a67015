"""One column's values in events: which type of Kafka Connect carries them, and what they mean.

Every format (JSON, Avro, Protobuf) writes the same Connect value in its own way. So a format knows Wire alone, a source
knows Value alone, and they add up instead of multiplying: a DECIMAL that is sent precisely is one row of a table of
values, which JSON writes in base64 and Avro as bytes.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.compare.json_text import json_writer


class Wire(StrEnum):
    """A type of Kafka Connect, and the Python value that a wiring reads it as.

    DECIMAL is Connect's own logical type (org.apache.kafka.connect.data.Decimal), whose bytes every wiring reads as a
    decimal.Decimal of the column's scale. What Debezium puts into strings, structs and numbers of its own (a time in
    microseconds, a geometry) is STRING, STRUCT or INT here: its meaning is the Value's.
    """

    INT = "int"  # int; 8 to 64 bits
    FLOAT32 = "float32"  # float
    FLOAT64 = "float64"  # float
    BOOLEAN = "boolean"  # bool
    STRING = "string"  # str
    BYTES = "bytes"  # bytes
    DECIMAL = "decimal"  # decimal.Decimal
    STRUCT = "struct"  # a tuple of the fields' values, in the order of the Shape
    ARRAY = "array"  # a list
    MAP = "map"  # a dict


class Missing(StrEnum):
    """What it means that a field is not in a record, in a format that does not write zeros and empty texts (Protobuf)."""

    NULL = "null"  # no value, where only a name or a number that is never zero is looked for
    ZERO = "zero"  # the type's zero: the field is never NULL
    UNKNOWN = "unknown"  # one of both; which of them, only the schema can say


class Wrong(Enum):
    """What a wiring puts in the place of a value that is not of the type asked for.

    The rest of its row can be read, and the dead letter names each such column.
    """

    WRONG = "wrong"


WRONG: Final = Wrong.WRONG
T = TypeVar("T")
# One form of a column's values → another; each row of a table of values knows the type that it takes
Conversion: TypeAlias = Callable[[Any], object]
DECIMAL_DIGITS: Final = 38  # a sink's decimals have no more: a decimal of more digits is text


class NoValueError(ValueError):
    """A Connect value that is no value of its column."""


def as_is(value: T) -> T:
    """The read of a column whose Connect value is its value."""
    return value


class _Writer(threading.local):
    """Writes JSON documents in their one text. One serves one thread, and costs as much to make as a small document."""

    def __init__(self) -> None:
        self.write = json_writer()


_WRITER: Final = _Writer()


def document(text: str) -> str:
    """The one text of a JSON document. Raises NoValueError for a text that is none."""
    written = _WRITER.write(text)
    if written is None:
        raise NoValueError
    return written


def within(number: int, low: int, high: int) -> int:
    """The number, if it is one of these. Raises NoValueError."""
    if not low <= number <= high:
        raise NoValueError
    return number


def bounded(low: int, high: int, each: int = 1) -> Callable[[int], int]:
    """The read of a number that is one of these: so many times it. The bounds are looked at once and not for each value."""

    def read(number: int) -> int:
        if low <= number <= high:
            return number * each
        raise NoValueError

    return read


@dataclass(frozen=True, slots=True)
class Shape:
    """What a wiring is asked to read: a type, and of a struct its fields, in the order in which they are wanted.

    Every value may be None (NULL, or not in the record at all) and, within a struct, WRONG.

    Attributes:
        parts: a STRUCT's fields by name.
        of: the type of an ARRAY's elements, or a MAP's values.
        scale: of a DECIMAL.
        whole: whether a field that is not in `parts` is an error: Unreadable, with `unknown`. Otherwise it is skipped.
        missing: what it means that this field of a struct is not there, where a format does not show it.
    """

    wire: Wire
    parts: tuple[tuple[str, Shape], ...] = ()
    of: Shape | None = None
    scale: int = 0
    whole: bool = False
    missing: Missing = Missing.NULL


@dataclass(frozen=True, slots=True)
class Value:
    """How a column's values are carried.

    Attributes:
        shape: what a wiring reads.
        read: Connect value (never None or WRONG) → logical value in Arrow's terms: an instant is microseconds since 1970, a date
            days, a geometry {"srid": …, "wkb": …}. None for a value that means NULL. Raises Unreadable, or another ValueError
            or ArithmeticError.
        write: the inverse; None: the encoder refuses the column by name. Raises NoValueError for a value that would be read
            as another, or not at all.
        doubt: why a value may not be readable although it is well formed, as a dead letter says it; "" if only a
            malformed one can be.
        wide: the shape as it is written, where that is more than what is read.
    """

    shape: Shape
    read: Conversion
    write: Conversion | None = None
    doubt: str = ""
    wide: Shape | None = None

    @property
    def written(self) -> Shape:
        """The shape of what `write` gives."""
        return self.wide or self.shape


class Values(Protocol):
    """The values of one kind of source under a connector's settings. Frozen, picklable."""

    @property
    def way_out(self) -> str:
        """What a person can do about a column whose values are doubted in more rows than can be read again."""
        ...

    def check_table(self, table: Table) -> None:
        """Raise SchemaError for a table whose rows these events do not carry exactly."""
        ...

    def value(self, column: Column) -> Value:
        """How the column is carried. SchemaError if the connector's modes lose something of it."""
        ...


def row_shape(table: Table, values: Values) -> Shape:
    """The shape of an image of a row: every mirrored column, and no other field."""
    return Shape(Wire.STRUCT, tuple(_fields(table.mirrored, values)), whole=True)


def written_row(table: Table, values: Values) -> Shape:
    """The shape of an image of a row as it is written."""
    return Shape(Wire.STRUCT, tuple((one.name, values.value(one).written) for one in table.mirrored))


def written_key(table: Table, values: Values) -> Shape:
    """The shape of a record's key as it is written."""
    return Shape(Wire.STRUCT, tuple((one.name, values.value(one).written) for one in table.key_columns))


def key_shape(table: Table, values: Values) -> Shape:
    """The shape of a record's key. A router may put a field of its own beside the columns."""
    return Shape(Wire.STRUCT, tuple(_fields(table.key_columns, values, in_key=True)))


def _fields(columns: Iterable[Column], values: Values, *, in_key: bool = False) -> Iterator[tuple[str, Shape]]:
    for column in columns:
        missing = Missing.UNKNOWN if column.nullable and not in_key else Missing.ZERO
        yield column.name, replace(values.value(column).shape, missing=missing)


def nearest_single(number: float) -> float:
    """The nearest number of single precision to the digits that `number` was read from. NoValueError where it is not certain.

    The digits were rounded to a double first, and twice is not always as good as once: 1.000000059604644776 is above the
    middle between 1 and its neighbour, and its double is that middle. So both doubles beside it have to give the same.
    """
    try:
        below, here, above = struct.unpack(
            "<3f", struct.pack("<3f", math.nextafter(number, -math.inf), number, math.nextafter(number, math.inf))
        )
    except OverflowError as error:
        raise NoValueError from error
    if not below == here == above:
        raise NoValueError
    return float(here)
