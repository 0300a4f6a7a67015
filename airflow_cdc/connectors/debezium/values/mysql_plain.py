"""MySQL's values in Debezium's events as Python values, for a few records that are decoded without Spark.

A value is converted only in the one form in which a connector always writes it. Anything else raises NotPlainError, and
Spark's expressions (values/mysql.py), which say what is wrong with a value, decide. Times are numbers, as Arrow holds
them: microseconds, and days for a date.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors.debezium.values.mysql import (
    DECIMAL_DIGITS,
    ESCAPABLE,
    ESCAPES,
    FIRST_DAY,
    FIRST_MICROS,
    GARBLED_TIME,
    LAST_DAY,
    LAST_MICROS,
    ZERO_DATE,
    DecodeModes,
)
from airflow_cdc.connectors.debezium.values.mysql_charsets import signs_of
from airflow_cdc.connectors.debezium.values.plain import Convert, whole, within
from airflow_cdc.decisions.apply.plain import NotPlainError
from airflow_cdc.decisions.compare.json_text import json_writer
from airflow_cdc.sources.mysql.types import BLOBS, INTEGERS, SPATIAL, TEXTS, words_of

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column

_WIDE = Context(prec=90)  # more than a DECIMAL's 65 digits
_EPOCH, _MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
_GARBLED = re.compile(GARBLED_TIME)
_ESCAPED = re.compile(r"\\([^%_])")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def converter(column: Column, modes: DecodeModes) -> Convert | None:
    """How a value of this column that is not NULL is converted; None if only Spark's expressions can."""
    make = _MAKERS.get(words_of(column).data_type)
    return None if make is None else make(column, modes)


def _checked(wanted: bool) -> None:
    if not wanted:
        raise NotPlainError


def _integer(column: Column, modes: DecodeModes) -> Convert | None:
    words = words_of(column)
    if words.data_type == "bigint" and words.unsigned:
        return _unsigned if modes.bigint_unsigned == "long" else _precise(20, 0, modes)
    bits = 64 if words.data_type == "bigint" or (words.data_type == "int" and words.unsigned) else 32
    return partial(whole, bits=bits)


def _unsigned(value: Any) -> Decimal:
    """A value from 2^63 on arrives as a negative number."""
    number = whole(value)
    return Decimal(number if number >= 0 else number + 2**64)


def _decimal(column: Column, modes: DecodeModes) -> Convert | None:
    precision, scale = words_of(column).digits
    if modes.decimal not in {"precise", "string"}:
        return None
    written = partial(_written, most=10**precision, scale=scale)
    read = _precise(precision, scale, modes) if modes.decimal == "precise" else written
    return read if read is None or precision <= DECIMAL_DIGITS else partial(_in_full, read=read, scale=scale)


def _in_full(value: Any, read: Convert, scale: int) -> str:
    """All decimals, and no exponent."""
    number = read(value)
    _checked(not (number.is_zero() and number.is_signed()))
    return f"{number:.{scale}f}"


def _precise(precision: int, scale: int, modes: DecodeModes) -> Convert | None:
    return partial(_unscaled, most=10**precision, scale=scale) if modes.decimal_format == "base64" else None


def _unscaled(value: Any, most: int, scale: int) -> Decimal:
    """Base64 of a big-endian two's complement number in as few bytes as it needs."""
    raw = _base64(value)
    number = int.from_bytes(raw, "big", signed=True)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    _checked(len(raw) == size and abs(number) < most)
    return Decimal(number).scaleb(-scale, _WIDE)


def _written(value: Any, most: int, scale: int) -> Decimal:
    _checked(type(value) is str and _NUMBER.fullmatch(value) is not None and len(value.partition(".")[2]) <= scale)
    number = Decimal(value)
    _checked(number.scaleb(scale, _WIDE).copy_abs() < most)
    return number


def _double(_: Column, __: DecodeModes) -> Convert:
    return _finite


def _finite(value: Any) -> float:
    _checked(type(value) is float and value - value == 0)
    return float(value)


def _float(_: Column, __: DecodeModes) -> Convert:
    return _single


def _single(value: Any) -> float:
    """The nearest number of single precision, as the event's digits are rounded at once.

    They were rounded to a double first, and twice is not always as good as once: 1.000000059604644776 is above the middle
    between 1 and its neighbour, and its double is that middle. So both doubles beside it have to give the same.
    """
    number = _finite(value)
    near = {_rounded(one) for one in (number, math.nextafter(number, math.inf), math.nextafter(number, -math.inf))}
    _checked(len(near) == 1)
    return _rounded(number)


def _rounded(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError as error:
        raise NotPlainError from error


def _bit(column: Column, _: DecodeModes) -> Convert:
    size = words_of(column).precision or 1
    return _boolean if size == 1 else partial(_bits, size=size)


def _boolean(value: Any) -> int:
    _checked(type(value) is bool)
    return int(value)


def _bits(value: Any, size: int) -> int:
    """Base64 of a little-endian number."""
    raw = _base64(value)
    number = int.from_bytes(raw, "little")
    _checked(0 < len(raw) <= (size + 7) // 8 and number < 2**size)
    return number


def _date(_: Column, modes: DecodeModes) -> Convert | None:
    return None if modes.time == "isostring" else partial(within, low=FIRST_DAY, high=LAST_DAY)


def _datetime(column: Column, modes: DecodeModes) -> Convert | None:
    fsp = words_of(column).fsp or 0
    if modes.time not in {"adaptive", "adaptive_time_microseconds", "microseconds"}:
        return None
    each = 1000 if modes.time.startswith("adaptive") and fsp <= 3 else 1
    return partial(_micros, each=each)


def _micros(value: Any, each: int) -> int:
    return within(value, FIRST_MICROS // each, LAST_MICROS // each) * each


def _timestamp(_: Column, __: DecodeModes) -> Convert:
    return _instant


def _instant(value: Any) -> int:
    # the instant 0 stands for a zero date
    _checked(type(value) is str and _INSTANT.fullmatch(value) is not None and not value.startswith(ZERO_DATE))
    return (datetime.fromisoformat(value) - _EPOCH) // _MICRO


def _time(_: Column, modes: DecodeModes) -> Convert | None:
    plain = modes.time in {"adaptive_time_microseconds", "microseconds"}
    return whole if plain else None


def _year(_: Column, __: DecodeModes) -> Convert:
    return _of_year


def _of_year(value: Any) -> int:
    year = within(value, 1900, 2155)
    return 0 if year == 1900 else year


def _text(column: Column, _: DecodeModes) -> Convert:
    signs = signs_of(column)
    return partial(_undoubted, doubted=re.compile(f"[{signs}]")) if signs else _string


def _string(value: Any) -> str:
    _checked(type(value) is str)
    return str(value)


def _undoubted(value: Any, doubted: re.Pattern[str]) -> str:
    text = _string(value)
    _checked(doubted.search(text) is None)
    return text


def _label(column: Column, _: DecodeModes) -> Convert:
    return _unescaped if any(ESCAPABLE & {*label} for label in words_of(column).labels) else _string


def _unescaped(value: Any) -> str:
    """See values/mysql.py, _event_label."""
    return "\\".join(map(_without_escapes, _string(value).split(r"\\")))


def _without_escapes(text: str) -> str:
    for letter, code in ESCAPES:
        text = text.replace(f"\\{letter}", chr(code))
    return _ESCAPED.sub(r"\1", text)


def _json(_: Column, __: DecodeModes) -> Convert:
    return partial(_document, write=json_writer())


def _document(value: Any, write: Callable[[str], str | None]) -> str:
    text = _string(value)
    written = None if _GARBLED.search(text) else write(text)
    _checked(written is not None)
    return str(written)


def _bytes(column: Column, modes: DecodeModes) -> Convert | None:
    words = words_of(column)
    if modes.binary not in {"bytes", "base64"}:
        return None
    return (
        partial(_padded, size=words.byte_length or words.char_length or 1) if words.data_type == "binary" else _base64
    )


def _base64(value: Any) -> bytes:
    raw = base64.b64decode(_string(value), validate=True)
    _checked(base64.b64encode(raw).decode() == value)
    return raw


def _spatial(_: Column, __: DecodeModes) -> Convert:
    return _geometry


def _geometry(value: Any) -> dict[str, object]:
    """A POINT has x and y, too, which its WKB holds."""
    _checked(type(value) is dict and {"wkb", "srid"} <= {*value} <= {"wkb", "srid", "x", "y"})
    return {"srid": 0 if value["srid"] is None else whole(value["srid"], 32), "wkb": _base64(value["wkb"])}


def _padded(value: Any, size: int) -> bytes:
    raw = _base64(value)
    _checked(len(raw) <= size)
    return raw.ljust(size, b"\0")


_TABLE: tuple[tuple[tuple[str, ...], Callable[[Column, DecodeModes], Convert | None]], ...] = (
    (tuple(INTEGERS), _integer),
    (("decimal",), _decimal),
    (("double",), _double),
    (("float",), _float),
    (("bit",), _bit),
    (("date",), _date),
    (("datetime",), _datetime),
    (("timestamp",), _timestamp),
    (("time",), _time),
    (("year",), _year),
    (TEXTS, _text),
    (("enum", "set"), _label),
    (("json",), _json),
    (("binary", "varbinary", *BLOBS), _bytes),
    (SPATIAL, _spatial),
)
_MAKERS = {name: make for names, make in _TABLE for name in names}
