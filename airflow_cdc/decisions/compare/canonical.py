"""The canonical text of a row, which every engine writes identically, and its SHA-256.

The text is `piece|piece|…` over the compared columns. The type of a value determines its pieces:

| type | pieces |
|---|---|
| Integer, Bits, Time | the number (Time: microseconds with a sign) |
| Decimal | up to 18 digits: the number without its point (-1.23 of scale 2 is -123); else: with all its decimals |
| Float | the 8 bytes of the double as 16 hexadecimal digits in upper case; -0 is 0 |
| Boolean | 1 or 0 |
| Date, LocalDateTime, Instant | days, or microseconds, since 1970-01-01 |
| Text, long Text | length in UTF-8 bytes and the text; its SHA-256 |
| Bytes, long Bytes | hexadecimal digits in upper case; their SHA-256 |
| Uuid | the text in lower case |
| Geometry | the number of the reference system, and the SHA-256 of the WKB |
| Array | how many elements, and the pieces of each |
| any, NULL | a single piece, `N` |

Only a Text can contain the separator or be `N`, and its length says where it ends. So different rows never give equal
texts: ('a|1', 'b') is `3|a|1|1|b`, ('a', '1|b') is `1|a|3|1|b`; NULL is `N`, '' is `0|`. A long value is written as its
hash, so that no text outgrows what an engine can hold. Two engines never write JSON as the same text: JSON columns are
left out of the hash and are fetched and compared in the form of `json_canonical` instead.

A key's text is built from the key's columns in the same way, except that long values are written out in full, so that
the row can be found by its key text.

The functions here are the reference. Each engine does the same in its own SQL (sources/*/encoding.py,
spark_apps/canonical/spark.py), because rows are hashed where they are stored. In MySQL this takes about a quarter more
time than a plain concat_ws, which confuses such rows; a bitmap of the NULLs in front costs more, because a date would
be examined twice.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal as Number
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
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.chunk import Key, KeyValue

NULL = b"N"
SEPARATOR = b"|"
LONG_DIGITS = 18  # a number of this many digits fits 64 bits
_NUMBER = re.compile(rb"-?[0-9A-Fa-f.+-]*\Z")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - LocalDateTime has no zone
_MICROSECOND = dt.timedelta(microseconds=1)


# --- which columns ---------------------------------------------------------------------------------------------------


def hashed(table: Table) -> tuple[Column, ...]:
    """The columns of the row hash, in order. Raises SchemaError for a type that cannot be compared, or if there are none."""
    columns = tuple(c for c in table.compared if not isinstance(c.value_type, Json))
    if not columns:
        raise SchemaError(
            "no column can be compared by hash: the table has none but JSON",
            where=table.full_name,
            todo="Give it a primary key, or take it out of the pipeline.",
        )
    return columns


def outside_hash(table: Table) -> tuple[str, ...]:
    """The compared columns outside the row hash: fetched and compared for all rows instead."""
    return tuple(c.name for c in table.compared if isinstance(c.type, Json))


def not_compared(table: Table) -> tuple[tuple[str, str], ...]:
    """(column, reason) of the source's columns that no comparison covers."""
    reason = "generated from a TIMESTAMP: its value depends on the time zone of the session that reads or writes it"
    zoned = tuple((c.name, reason) for c in table.mirrored if c.zoned)
    return (*zoned, *((name, "not mirrored: the connector leaves it out") for name in table.left_out))


def in_key(kind: LogicalType) -> LogicalType:
    """The type as a key's text writes it: the value itself, however long."""
    return replace(kind, long=False) if isinstance(kind, Text | Bytes) else kind


# --- writing ---------------------------------------------------------------------------------------------------------


def row_text(columns: Sequence[tuple[LogicalType, object]]) -> bytes:
    """The text of these values in order: (type, value), None for NULL.

    A value is an int, Decimal, float, bool, str or bytes, a date or datetime, the microseconds of a Time, (srid, WKB) of
    a Geometry, a list of an Array's elements. Raises SchemaError for a type that has no text.
    """
    return SEPARATOR.join([text_of(kind)(value) for kind, value in columns])


def row_hash(table: Table, row: Mapping[str, object]) -> str:
    """Hexadecimal SHA-256 of a row's text; `row` has a value for every column of the hash."""
    return hashlib.sha256(row_text([(c.value_type, row[c.name]) for c in hashed(table)])).hexdigest()


def key_text(table: Table, row: Mapping[str, object]) -> str:
    """The key as text; in a table without a key, the row's hash."""
    if table.keyless:
        return row_hash(table, row)
    return row_text([(in_key(c.value_type), row[c.name]) for c in table.key_columns]).decode()


def text_of(kind: LogicalType) -> Callable[[object], bytes]:
    """Writes the pieces of a value of this type; NULL has one. Raises SchemaError for a type that has no text."""
    write = _WRITE.get(type(kind))
    if write is None:
        raise SchemaError(f"{kind} has no text that all engines write alike")

    def text(value: object) -> bytes:
        if value is None:
            return NULL
        return SEPARATOR.join([p if isinstance(p, bytes) else str(p).encode() for p in write(kind, value)])

    return text


def is_short(kind: Decimal) -> bool:
    """Whether a decimal is written as a whole number, which is cheaper for an engine than its decimal text."""
    return kind.precision <= LONG_DIGITS


def _sha(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def _decimal(kind: Decimal, value: Number | int | str) -> Sequence[object]:
    number = Number(value)
    return (int(number.scaleb(kind.scale)),) if is_short(kind) else (f"{number:.{kind.scale}f}",)


def _text(kind: Text, value: str) -> Sequence[object]:
    raw = value.encode()
    return (_sha(raw),) if kind.long else (len(raw), raw)


def _bytes(kind: Bytes, value: bytes) -> Sequence[object]:
    return (_sha(value) if kind.long else value.hex().upper(),)


def _array(kind: Array, value: Sequence[object]) -> Sequence[object]:
    return (len(value), row_text([(kind.of, each) for each in value]))


def _micros(_kind: LogicalType, value: dt.datetime) -> Sequence[object]:
    # an instant without a zone is in UTC
    local = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return ((local - _EPOCH) // _MICROSECOND,)


_WRITE: dict[type[LogicalType], Callable[[Any, Any], Sequence[object]]] = {
    Integer: lambda _kind, value: (int(value),),
    Bits: lambda _kind, value: (int(value),),
    Time: lambda _kind, value: (int(value),),
    Boolean: lambda _kind, value: (int(value),),
    Decimal: _decimal,
    Float: lambda _kind, value: (struct.pack(">d", value + 0.0).hex().upper(),),
    Date: lambda _kind, value: ((value - _EPOCH.date()).days,),
    LocalDateTime: _micros,
    Instant: _micros,
    Text: _text,
    Bytes: _bytes,
    Uuid: lambda _kind, value: (str(value).lower(),),
    Geometry: lambda _kind, value: (int(value[0]), _sha(value[1])),
    Array: _array,
}


# --- reading a key's text --------------------------------------------------------------------------------------------


def parse_key_text(table: Table, text: str) -> Key:
    """The key's values: numbers, text and bytes as they are, dates and times as text in ISO's order.

    Raises SchemaError if the text is not one that `key_text` could have written for this table.
    """
    try:
        reader = _Reader(text.encode())
        values = tuple(_value(column, reader) for column in table.key_columns)
    except (ValueError, ArithmeticError, struct.error) as error:
        raise SchemaError(f"not a key text: {text!r}", where=table.full_name) from error
    if not reader.at_end or table.keyless:
        raise SchemaError(f"not a key text: {text!r}", where=table.full_name)
    return values


@dataclass(slots=True)
class _Reader:
    """Takes pieces off the front of a text."""

    rest: bytes
    at_end: bool = False

    def plain(self) -> bytes:
        """A piece of any type but Text."""
        if self.at_end:
            raise ValueError("no piece left")
        piece, separator, self.rest = self.rest.partition(SEPARATOR)
        self.at_end = not separator
        return piece

    def number(self) -> bytes:
        """A piece of digits."""
        piece = self.plain()
        if not _NUMBER.match(piece):
            raise ValueError("not a number")
        return piece

    def text(self) -> str:
        """The two pieces of a text."""
        size = int(self.number())
        piece, after = self.rest[:size], self.rest[size:]
        if self.at_end or len(piece) != size or after[:1] not in {b"", SEPARATOR}:
            raise ValueError("length does not fit")
        self.at_end, self.rest = not after, after[1:]
        return piece.decode()


def _value(column: Column, reader: _Reader) -> KeyValue:
    kind = column.value_type
    if isinstance(kind, Text):
        return reader.text()
    if isinstance(kind, Uuid):
        return reader.plain().decode()
    piece = reader.number().decode()
    read = _READ.get(type(kind))
    return int(piece) if read is None else read(kind, piece)


def _read_decimal(kind: Decimal, piece: str) -> KeyValue:
    short = "." not in piece and is_short(kind)
    return Number(piece).scaleb(-kind.scale) if short else Number(piece)


def _read_float(_kind: LogicalType, piece: str) -> KeyValue:
    (number,) = struct.unpack(">d", bytes.fromhex(piece))
    return float(number)


def _read_date(_kind: LogicalType, piece: str) -> KeyValue:
    return (_EPOCH + dt.timedelta(days=int(piece))).strftime("%04Y-%m-%d")


def _read_datetime(_kind: LogicalType, piece: str) -> KeyValue:
    return (_EPOCH + dt.timedelta(microseconds=int(piece))).isoformat(" ", "microseconds")


def _read_time(_kind: LogicalType, piece: str) -> KeyValue:
    micros = int(piece)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    return f"{'-' if micros < 0 else ''}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:06d}"


_READ: dict[type[LogicalType], Callable[[Any, str], KeyValue]] = {
    Bytes: lambda _kind, piece: bytes.fromhex(piece),
    Decimal: _read_decimal,
    Float: _read_float,
    Date: _read_date,
    LocalDateTime: _read_datetime,
    Instant: _read_datetime,
    Time: _read_time,
}
