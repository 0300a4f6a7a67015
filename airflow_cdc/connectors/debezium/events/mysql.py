"""How MySQL's and MariaDB's values are carried in Debezium's events, whatever the format of the records.

A value is read only in the one form in which the connector writes it; whatever else it may be raises, and its record becomes a
dead letter that names the column. Times are numbers, as Arrow holds them: microseconds, and days for a date.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.connectors.debezium.events.mysql_charsets import check_charset, doubt, signs_of
from airflow_cdc.connectors.debezium.events.texts import (
    BYTES_IN_TEXT,
    EPOCH,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    MICRO,
    instant,
    iso_instant,
)
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.events.value import (
    DECIMAL_DIGITS,
    Conversion,
    NoValueError,
    Shape,
    Value,
    Wire,
    as_is,
    bounded,
    document,
    within,
)
from airflow_cdc.events.wire.decimals import DOUBLE_DIGITS, of_double
from airflow_cdc.sources.mysql.types import BLOBS, INTEGERS, SPATIAL, TEXTS, type_of, words_of

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table

_JSON_DOUBT = "no JSON, or a negative TIME of MySQL's own, which Debezium garbles"
# read as NULL on purpose: the instant 0 is a zero date in a nullable TIMESTAMP
_ZERO_DATE = "1970-01-01T00:00:00"
_ESCAPES = (("n", 10), ("r", 13), ("t", 9), ("b", 8), ("0", 0), ("Z", 26))
_ESCAPABLE = frozenset({"\\", ",", '"', *(chr(code) for _, code in _ESCAPES)})
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\dZ?", re.ASCII)
_GARBLED = re.compile('"[0-9]{2,3}:0-[0-9]{1,2}:')
_ESCAPED = re.compile(r"\\([^%_])")
_POINT = struct.Struct("<bIdd")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)

_INT, _STRING, _BYTES = Shape(Wire.INT), Shape(Wire.STRING), Shape(Wire.BYTES)


@dataclass(frozen=True, slots=True)
class DecodeModes:
    """How the connector writes values, according to its configuration (defaults are Debezium's)."""

    decimal: str = "precise"
    time: str = "adaptive_time_microseconds"
    bigint_unsigned: str = "long"
    binary: str = "bytes"
    decimal_format: str = "base64"

    def __post_init__(self) -> None:
        for name, (setting, known) in _MODES.items():
            value = getattr(self, name).lower()
            if value not in known:
                raise SchemaError(f"{setting}={value} cannot be decoded", todo=f"Use one of {', '.join(known)}.")
            object.__setattr__(self, name, value)

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> DecodeModes:
        """The modes of a connector's configuration; SchemaError names a setting that is not known here."""
        modes = {name: str(config[setting]) for name, (setting, _) in _MODES.items() if setting in config}
        return cls(**modes)


_MODES: dict[str, tuple[str, tuple[str, ...]]] = {
    "decimal": ("decimal.handling.mode", ("precise", "string", "double")),
    "time": (
        "time.precision.mode",
        ("adaptive_time_microseconds", "adaptive", "connect", "isostring", "microseconds", "nanoseconds"),
    ),
    "bigint_unsigned": ("bigint.unsigned.handling.mode", ("long", "precise")),
    "binary": ("binary.handling.mode", ("bytes", "base64", "base64-url-safe", "hex")),
    "decimal_format": ("value.converter.decimal.format", ("base64", "numeric")),
}


def _refuse(column: Column, mode: str, value: str, instead: str) -> SchemaError:
    setting = _MODES[mode][0]
    what = f"{setting}={value} cannot carry {column.native.type} exactly"
    return SchemaError(what, where=f"column {column.name}", todo=f"Set {setting}={instead} on the connector.")


@dataclass(frozen=True, slots=True)
class MySqlValues:
    """Satisfies events.value.Values."""

    modes: DecodeModes = field(default_factory=DecodeModes)

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> MySqlValues:
        """Read from a connector's configuration; SchemaError names a setting that is not known here."""
        return cls(DecodeModes.from_config(config))

    @property
    def way_out(self) -> str:
        """See events.value.Values."""
        return "Convert the column to utf8mb4 and recover the table, or exclude the column on the connector."

    def check_table(self, table: Table) -> None:
        """See events.value.Values."""
        for column in table.mirrored:
            check_charset(column, table.full_name)
            self.value(column)  # raises for a column that these modes can't carry

    def value(self, column: Column) -> Value:
        """See events.value.Values."""
        type_of(column)  # an unknown type is named by its own error
        return _VALUES[words_of(column).data_type](column, self.modes)


# --- numbers -------------------------------------------------------------------------------------------------------------


def _integer(column: Column, modes: DecodeModes) -> Value:
    words = words_of(column)
    if words.data_type == "bigint" and words.unsigned:
        return Value(_INT, _unsigned, _signed) if modes.bigint_unsigned == "long" else _precise(20, 0, modes)
    bits = 64 if words.data_type == "bigint" or (words.data_type == "int" and words.unsigned) else 32
    return _same(_INT, bounded(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


def _unsigned(number: int) -> Decimal:
    """A value from 2^63 on arrives as a negative number."""
    within(number, -(2**63), 2**63 - 1)
    return Decimal(number if number >= 0 else number + 2**64)


def _signed(number: Decimal) -> int:
    whole = within(int(number), 0, 2**64 - 1)
    return whole if whole < 2**63 else whole - 2**64


def _same(shape: Shape, check: Conversion, *, doubt: str = "", wide: Shape | None = None) -> Value:
    """A value that is carried as it is."""
    return Value(shape, check, check, doubt, wide)


def _decimal(column: Column, modes: DecodeModes) -> Value:
    precision, scale = words_of(column).digits
    if modes.decimal == "double":
        if precision > DOUBLE_DIGITS:
            raise _refuse(column, "decimal", "double", "string")
        return Value(Shape(Wire.FLOAT64), partial(_of_double, scale=scale, fitting=_fitting(precision, scale)))
    if modes.decimal == "precise":
        return _precise(precision, scale, modes)
    return Value(
        _STRING, partial(_written, scale=scale, fitting=_fitting(precision, scale)), partial(_plain, scale=scale)
    )


def _precise(precision: int, scale: int, modes: DecodeModes) -> Value:
    if modes.decimal_format == "numeric":
        what = "value.converter.decimal.format=NUMERIC writes decimals as JSON numbers, which readers round"
        raise SchemaError(what, todo="Set value.converter.decimal.format=BASE64, or decimal.handling.mode=string.")
    return Value(Shape(Wire.DECIMAL, scale=scale), _fitting(precision, scale), Decimal)


def _fitting(precision: int, scale: int) -> Callable[[Decimal], Decimal | str]:
    """The read of what is within the column's digits: a decimal, or a text where a sink's decimals have fewer digits."""
    limit = Decimal(1).scaleb(precision - scale)

    def read(number: Decimal) -> Decimal | str:
        if number.copy_abs() >= limit:
            raise NoValueError
        if precision <= DECIMAL_DIGITS:
            return number
        if number.is_zero() and number.is_signed():
            raise NoValueError
        return f"{number:.{scale}f}"

    return read


def _of_double(number: float, scale: int, fitting: Callable[[Decimal], Decimal | str]) -> Decimal | str:
    try:
        return fitting(of_double(number, scale))
    except ValueError:
        raise NoValueError from None


def _written(text: str, scale: int, fitting: Callable[[Decimal], Decimal | str]) -> Decimal | str:
    if _NUMBER.fullmatch(text) is None or len(text.partition(".")[2]) > scale:
        raise NoValueError
    return fitting(Decimal(text))


def _plain(number: Decimal | str, scale: int) -> str:
    return f"{Decimal(number):.{scale}f}"


def _float(column: Column, __: DecodeModes) -> Value:
    # the sink holds the float's own value, not its decimal text; with its digits declared, it is sent as a double
    wide = Shape(Wire.FLOAT64) if words_of(column).scale is not None else None
    return _same(Shape(Wire.FLOAT32), _finite, wide=wide)


def _double(_: Column, __: DecodeModes) -> Value:
    return _same(Shape(Wire.FLOAT64), _finite)


def _finite(number: float) -> float:
    """MySQL has no infinite numbers."""
    if not math.isfinite(number):
        raise NoValueError
    return number


def _bit(column: Column, _: DecodeModes) -> Value:
    """binary.handling.mode is not about bits."""
    size = words_of(column).precision or 1
    if size == 1:
        return Value(Shape(Wire.BOOLEAN), int, bool)
    return Value(_BYTES, partial(_bits, size=size), partial(_of_bits, size=size))


def _bits(raw: bytes, size: int) -> Decimal | int:
    """Little-endian."""
    number = int.from_bytes(raw, "little")
    if not 0 < len(raw) <= (size + 7) // 8 or number >= 2**size:
        raise NoValueError
    return Decimal(number) if size == 64 else number


def _of_bits(number: Decimal | int, size: int) -> bytes:
    return int(number).to_bytes((size + 7) // 8, "little")


# --- dates and times -----------------------------------------------------------------------------------------------------


def _date(_: Column, modes: DecodeModes) -> Value:
    if modes.time == "isostring":
        return Value(_STRING, _iso_date)
    return _same(_INT, bounded(FIRST_DAY, LAST_DAY))


def _iso_date(text: str) -> int:
    if _DATE.fullmatch(text) is None:
        raise NoValueError
    return (datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC) - EPOCH).days


def _datetime(column: Column, modes: DecodeModes) -> Value:
    fsp = words_of(column).fsp or 0
    if modes.time == "nanoseconds":  # 64 bits of nanoseconds end in the year 2262
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    if modes.time == "isostring":
        return Value(_STRING, _iso_datetime)
    if modes.time == "connect" and fsp > 3:
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    each = 1000 if modes.time == "connect" or (modes.time.startswith("adaptive") and fsp <= 3) else 1
    return Value(_INT, bounded(FIRST_MICROS // each, LAST_MICROS // each, each), partial(_each, each=each))


def _each(micros: int, each: int) -> int:
    number, rest = divmod(micros, each)
    if rest:
        raise NoValueError
    return number


def _iso_datetime(text: str) -> int:
    if _LOCAL.fullmatch(text) is None:
        raise NoValueError
    head, _, digits = text.removesuffix("Z").partition(".")
    if digits[6:].strip("0"):
        raise NoValueError
    whole = datetime.fromisoformat(head).replace(tzinfo=UTC)
    return (whole - EPOCH) // MICRO + int((digits[:6] or "0").ljust(6, "0"))


def _timestamp(column: Column, _: DecodeModes) -> Value:
    """Always ISO-8601 with Z."""
    fsp = words_of(column).fsp or 0
    return Value(_STRING, _or_zero_date if column.nullable else instant, partial(iso_instant, digits=fsp))


def _or_zero_date(text: str) -> int | None:
    return instant(text) or None


def _time(column: Column, modes: DecodeModes) -> Value:
    fsp = words_of(column).fsp or 0
    # Connect's own time is a time of day: -01:00:00 and 25:00:00 arrive as NULL
    if modes.time in {"isostring", "connect"}:
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    if modes.time == "nanoseconds":
        return Value(_INT, _of_nanos, lambda micros: micros * 1000)
    if modes.time == "adaptive" and fsp <= 3:
        return Value(_INT, bounded(-9_000_000_000_000, 9_000_000_000_000 - 1, 1000), partial(_each, each=1000))
    return _same(_INT, bounded(-(2**63), 2**63 - 1))


def _of_nanos(number: int) -> int:
    micros, rest = divmod(within(number, -(2**63), 2**63 - 1), 1000)
    if rest:
        raise NoValueError
    return micros


def _year(_: Column, __: DecodeModes) -> Value:
    return Value(_INT, _of_year, lambda year: year or 1900)


def _of_year(number: int) -> int:
    year = within(number, 1900, 2155)
    return 0 if year == 1900 else year  # a stored 0 is sent as 1900; a real YEAR begins at 1901


# --- text and bytes ------------------------------------------------------------------------------------------------------


def _text(column: Column, _: DecodeModes) -> Value:
    """None for text that may represent other characters on the server (mysql_charsets.py)."""
    signs = signs_of(column)
    read = partial(_undoubted, signs=re.compile(f"[{signs}]")) if signs else as_is
    return _same(_STRING, read, doubt=doubt(column))


def _undoubted(text: str, signs: re.Pattern[str]) -> str:
    if signs.search(text) is not None:
        raise NoValueError
    return text


def _label(column: Column, _: DecodeModes) -> Value:
    r"""A label as it stood between the quotes of the DDL, with commas escaped: `b\\c` and `x\,y` for b\c and x,y."""
    if any(_ESCAPABLE & {*label} for label in words_of(column).labels):
        return Value(
            _STRING, _unescaped
        )  # not written: the connector's own snapshot writes such labels otherwise than its log
    return _same(_STRING, as_is)


def _unescaped(text: str) -> str:
    return "\\".join(map(_without_escapes, text.split(r"\\")))


def _without_escapes(text: str) -> str:
    for letter, code in _ESCAPES:
        text = text.replace(f"\\{letter}", chr(code))
    return _ESCAPED.sub(r"\1", text)  # MySQL keeps the backslash of \% and \_


def _json(_: Column, __: DecodeModes) -> Value:
    return _same(_STRING, _document, doubt=_JSON_DOUBT)


def _document(text: str) -> str:
    """No value: a document with what Debezium makes of MySQL's own negative TIME, "479:0-60:0-59"."""
    if _GARBLED.search(text):
        raise NoValueError
    return document(text)


def _bytes(column: Column, modes: DecodeModes) -> Value:
    words = words_of(column)
    fixed = words.byte_length or words.char_length or 1 if words.data_type == "binary" else 0
    if modes.binary == "bytes":
        return _same(_BYTES, partial(_padded, size=fixed) if fixed else as_is)
    read, write = BYTES_IN_TEXT[modes.binary]
    return Value(_STRING, partial(_decoded, read=read, size=fixed), lambda raw: write(raw).decode())


def _decoded(text: str, read: Callable[[str], bytes], size: int) -> bytes:
    try:
        raw = read(text)
    except binascii.Error as error:
        raise NoValueError from error
    return _padded(raw, size) if size else raw


def _padded(raw: bytes, size: int) -> bytes:
    if len(raw) > size:
        raise NoValueError
    return raw.ljust(size, b"\0")


def _spatial(column: Column, __: DecodeModes) -> Value:
    """A POINT has x and y, too, which its WKB holds."""
    written = (("wkb", _BYTES), ("srid", _INT))
    shape = Shape(Wire.STRUCT, (("srid", _INT), ("wkb", _BYTES)))
    if words_of(column).data_type != "point":
        return Value(shape, _geometry, _of_geometry, wide=Shape(Wire.STRUCT, written))
    ordinates = (("x", Shape(Wire.FLOAT64)), ("y", Shape(Wire.FLOAT64)))
    return Value(shape, _geometry, _of_point, wide=Shape(Wire.STRUCT, (*ordinates, *written)))


def _geometry(parts: tuple[object, object]) -> dict[str, object]:
    srid, wkb = parts
    number = 0 if srid is None else srid
    if type(wkb) is not bytes or type(number) is not int:
        raise NoValueError
    return {"srid": within(number, -(2**31), 2**31 - 1), "wkb": wkb}


def _of_geometry(shape: Mapping[str, object]) -> dict[str, object]:
    return {"wkb": shape["wkb"], "srid": shape["srid"] or None}


def _of_point(shape: Mapping[str, Any]) -> dict[str, object]:
    """WKB of a point: its byte order, its kind, two doubles."""
    if len(shape["wkb"]) != _POINT.size or shape["wkb"][:1] != b"\1":
        raise NoValueError
    _, _, x, y = _POINT.unpack(shape["wkb"])
    return {"x": x, "y": y, **_of_geometry(shape)}


# --- the table -----------------------------------------------------------------------------------------------------------

_TABLE: tuple[tuple[tuple[str, ...], Callable[[Column, DecodeModes], Value]], ...] = (
    (tuple(INTEGERS), _integer),
    (("decimal",), _decimal),
    (("float",), _float),
    (("double",), _double),
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
_VALUES: Final = {name: make for names, make in _TABLE for name in names}
