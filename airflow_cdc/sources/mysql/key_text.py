"""The text of a key, read back: `encoding.mysql_key_text` writes it, this finds the rows that it names."""

from __future__ import annotations

import datetime as dt
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_cdc.core.chunk import Key, KeyValue, quote_ident, sql_literal
from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_cdc.core.table import Column, Table

_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_DATES = frozenset({"date", "datetime", "timestamp"})
_NUMBER = re.compile(rb"-?[0-9A-Fa-f.+-]*\Z")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - DATETIME has no zone


def parse_key_text(table: Table, text: str) -> Key:
    """The key's values, in the form that `sql_literal` writes and the columns compare with.

    SchemaError if the text is not one that `mysql_key_text(table)` writes.
    """
    reader = _Reader(text.encode())
    try:
        values = tuple(_value(column, reader) for column in table.key_columns)
    except (ValueError, ArithmeticError, struct.error) as error:
        raise SchemaError(f"not a key text: {text!r}", where=table.full_name) from error
    if not reader.at_end or table.keyless:
        raise SchemaError(f"not a key text: {text!r}", where=table.full_name)
    return values


def key_predicate(table: Table, keys: Iterable[str]) -> str:
    """MySQL condition: the rows of these key texts (FALSE for none), in a form that uses the key's index.

    Under a case-insensitive collation it can find more (`a` also finds `A`): the rows' own key texts tell.
    """
    columns = table.key_columns
    tuples = [parse_key_text(table, key) for key in keys]
    if not tuples:
        return "FALSE"
    if len(columns) == 1 and columns[0].data_type not in _DATES:
        literals = ", ".join(sql_literal(values[0]) for values in tuples)
        return f"{quote_ident(columns[0].name)} IN ({literals})"
    return " OR ".join(f"({_equals(columns, values)})" for values in tuples)


def _equals(columns: tuple[Column, ...], values: Key) -> str:
    return " AND ".join(_equal(column, value) for column, value in zip(columns, values, strict=True))


def _equal(column: Column, value: KeyValue) -> str:
    name = quote_ident(column.name)
    condition = f"{name} = {sql_literal(value)}"
    # a zero date in a NOT NULL column is written as the epoch
    is_epoch = column.data_type in _DATES and str(value).startswith("1970-01-01") and not str(value).strip("1970-: .")
    return f"({condition} OR {name} = 0)" if is_epoch else condition


@dataclass(slots=True)
class _Reader:
    """Takes pieces off the front of an encoded text."""

    rest: bytes
    at_end: bool = False

    def number(self) -> bytes:
        if self.at_end:
            raise ValueError("no piece left")
        piece, separator, self.rest = self.rest.partition(b"|")
        self.at_end = not separator
        if not _NUMBER.match(piece):
            raise ValueError("not a number")
        return piece

    def text(self) -> str:
        size = int(self.number())
        piece, after = self.rest[:size], self.rest[size:]
        if self.at_end or len(piece) != size or after[:1] not in {b"", b"|"}:
            raise ValueError("length does not fit")
        self.at_end, self.rest = not after, after[1:]
        return piece.decode()


def _value(column: Column, reader: _Reader) -> KeyValue:
    if column.data_type in _TEXT:
        return reader.text()
    piece = reader.number()
    if column.data_type in _BYTES:
        return bytes.fromhex(piece.decode())
    read = _NUMBERS.get(column.data_type)
    return int(piece) if read is None else read(column, piece.decode())


def _decimal(column: Column, piece: str) -> KeyValue:
    short = "." not in piece and (column.precision or 10) <= 18
    return Decimal(piece).scaleb(-(column.scale or 0)) if short else Decimal(piece)


def _float(_column: Column, piece: str) -> KeyValue:
    (number,) = struct.unpack(">d", bytes.fromhex(piece))
    return float(number)


def _date(_column: Column, piece: str) -> KeyValue:
    return (_EPOCH + dt.timedelta(days=int(piece))).strftime("%04Y-%m-%d")


def _datetime(_column: Column, piece: str) -> KeyValue:
    return (_EPOCH + dt.timedelta(microseconds=int(piece))).isoformat(" ", "microseconds")


def _time(_column: Column, piece: str) -> KeyValue:
    micros = int(piece)
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    return f"{'-' if micros < 0 else ''}{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{fraction:06d}"


_NUMBERS: dict[str, Callable[[Column, str], KeyValue]] = {
    "decimal": _decimal,
    "float": _float,
    "double": _float,
    "date": _date,
    "datetime": _datetime,
    "timestamp": _datetime,
    "time": _time,
}
