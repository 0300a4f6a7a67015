"""How MySQL's values are represented in a Debezium event, and the Spark SQL that decodes them.

Everything here is text for Spark SQL; nothing is executed. Spark runs in ANSI mode with its session in UTC; a value
that cannot be decoded becomes NULL, so that the caller sees a bad record as "field present, value NULL".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.values.mysql_charsets import check_charset, doubt, signs_of
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Instant, Json
from airflow_cdc.sources.mysql.types import BLOBS, INTEGERS, SPATIAL, TEXTS, type_of, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_cdc.core.table import Column, Table

DECIMAL_DIGITS = 38  # Spark's decimals have no more: above it a DECIMAL is text
_LONG_DIGITS = 18  # an unscaled value of so many digits fits 8 bytes
_UNSIGNED = "decimal(20,0)"
FIRST_MICROS, LAST_MICROS = -62135596800000000, 253402300799999999  # years 1 to 9999
FIRST_DAY, LAST_DAY = -719162, 2932896  # the same years
# Why a JSON value cannot be decoded.
_JSON_DOUBT = "no JSON, or a negative TIME of MySQL's own, which Debezium garbles"
# A text that is read as NULL on purpose and does not indicate a wrong value: the instant 0 means a zero date in a
# nullable TIMESTAMP.
ZERO_DATE = "1970-01-01T00:00:00"
GARBLED_TIME = '"[0-9]{2,3}:0-[0-9]{1,2}:'
ESCAPES = (("n", 10), ("r", 13), ("t", 9), ("b", 8), ("0", 0), ("Z", 26))
ESCAPABLE = frozenset({"\\", ",", '"', *(chr(code) for _, code in ESCAPES)})


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


def from_event(column: Column, modes: DecodeModes, value: str | None = None) -> str:
    """Spark expression from the raw JSON text of an event's field (default: the column of that name) to the sink type.

    NULL for NULL and for text that is not a value of this type. SchemaError if the connector's modes lose precision.
    """
    type_of(column)  # an unknown type is named by its own error
    return _EVENTS[words_of(column).data_type](column, modes, value or f"`{column.name.replace('`', '``')}`")


# --- numbers ---------------------------------------------------------------------------------------------------------


def _event_integer(column: Column, modes: DecodeModes, v: str) -> str:
    words = words_of(column)
    if words.data_type != "bigint" or not words.unsigned:
        wide = words.data_type == "bigint" or (words.data_type == "int" and words.unsigned)
        return f"try_cast({v} AS {'bigint' if wide else 'int'})"
    if modes.bigint_unsigned == "long":  # values from 2^63 on arrive as negative numbers
        number = f"try_cast({v} AS {_UNSIGNED})"
        return f"CAST(IF({number} < 0, {number} + 18446744073709551616, {number}) AS {_UNSIGNED})"
    return _event_unscaled(v, 20, 0, modes)


def _event_decimal(column: Column, modes: DecodeModes, v: str) -> str:
    precision, scale = words_of(column).digits
    if modes.decimal == "double":
        raise _refuse(column, "decimal", "double", "string")
    if modes.decimal == "precise":
        return _event_unscaled(v, precision, scale, modes)
    wide = precision > DECIMAL_DIGITS
    return f"cdc_decimal_plain({v}, {scale})" if wide else f"try_cast({v} AS decimal({precision},{scale}))"


def _event_unscaled(v: str, precision: int, scale: int, modes: DecodeModes) -> str:
    """Base64 of a big-endian two's complement number with `scale` decimals."""
    if modes.decimal_format == "numeric":
        what = "value.converter.decimal.format=NUMERIC writes decimals as JSON numbers, which readers round"
        raise SchemaError(what, todo="Set value.converter.decimal.format=BASE64, or decimal.handling.mode=string.")
    if precision > DECIMAL_DIGITS:
        return f"cdc_decimal_bytes({v}, {scale})"
    if precision > _LONG_DIGITS:
        return f"try_cast(cdc_decimal_bytes({v}, {scale}) AS decimal({precision},{scale}))"
    # up to 8 bytes: extend the sign to 16 hexadecimal digits; conv() to base -10 reads them as a signed number
    text = f"hex(try_to_binary({v}, 'base64'))"
    padded = f"lpad({text}, 16, IF({text} >= '8', 'F', '0'))"
    number = f"CAST(conv({padded}, 16, -10) AS decimal({_LONG_DIGITS + 2},0))"
    short = f"length({text}) BETWEEN 1 AND 16"
    # the factor as a decimal literal: the product is exact, and one that does not fit is NULL
    scaled = f"{number} * CAST('{_unit(scale)}' AS decimal({max(scale, 1)},{scale}))" if scale else number
    return f"IF({short}, try_cast({scaled} AS decimal({precision},{scale})), NULL)"


def _unit(scale: int) -> str:
    return "0." + "0" * (scale - 1) + "1"


def _event_float(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    return f"CAST(try_cast({v} AS float) AS double)"  # the sink holds the float's own value, not its decimal text


def _event_bits(column: Column, modes: DecodeModes, v: str) -> str:
    del modes  # BIT ignores binary.handling.mode
    size = words_of(column).precision or 1
    if size == 1:
        return f"CASE {v} WHEN 'true' THEN 1L WHEN 'false' THEN 0L END"
    value = f"try_to_binary({v}, 'base64')"
    digits = f"hex(rpad({value}, 8, X'00'))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in range(15, 0, -2))  # little-endian: last byte first
    number = f"try_cast(conv(concat({pairs}), 16, 10) AS {_UNSIGNED if size == 64 else 'bigint'})"
    return f"IF(octet_length({value}) BETWEEN 1 AND {(size + 7) // 8}, {number}, NULL)"


# --- dates and times -------------------------------------------------------------------------------------------------


def _event_date(column: Column, modes: DecodeModes, v: str) -> str:
    del column
    if modes.time == "isostring":
        return f"try_cast(TRIM(TRAILING 'Z' FROM {v}) AS date)"
    days = f"try_cast({v} AS int)"
    return f"IF({days} BETWEEN {FIRST_DAY} AND {LAST_DAY}, date_from_unix_date({days}), NULL)"


def _event_datetime(column: Column, modes: DecodeModes, v: str) -> str:
    fsp = words_of(column).fsp or 0
    if modes.time == "nanoseconds":  # 64 bits of nanoseconds end in the year 2262
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    if modes.time == "isostring":
        return f"try_cast(TRIM(TRAILING 'Z' FROM {v}) AS timestamp_ntz)"
    if modes.time == "connect" and fsp > 3:
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    millis = modes.time == "connect" or (modes.time.startswith("adaptive") and fsp <= 3)
    return f"CAST({_instant(v, 1000 if millis else 1)} AS timestamp_ntz)"  # the session is in UTC


def _instant(v: str, micros_each: int) -> str:
    number = f"try_cast({v} AS bigint)"
    inside = f"{number} BETWEEN {FIRST_MICROS // micros_each} AND {LAST_MICROS // micros_each}"
    micros = number if micros_each == 1 else f"{number} * {micros_each}"
    return f"IF({inside}, timestamp_micros({micros}), NULL)"


def _event_timestamp(column: Column, modes: DecodeModes, v: str) -> str:
    del modes  # always ISO-8601 with Z
    value = f"try_cast({v} AS timestamp)"
    return f"nullif({value}, timestamp_micros(0L))" if column.nullable else value


def _event_time(column: Column, modes: DecodeModes, v: str) -> str:
    fsp, number = words_of(column).fsp or 0, f"try_cast({v} AS bigint)"
    # Connect's own time is a time of day: -01:00:00 and 25:00:00 arrive as NULL
    if modes.time in {"isostring", "connect"}:
        raise _refuse(column, "time", modes.time, "adaptive_time_microseconds")
    if modes.time == "nanoseconds":
        return f"{number} div 1000"
    if modes.time == "adaptive" and fsp <= 3:
        return f"IF(abs({number}) < 9000000000000, {number} * 1000, NULL)"
    return number


def _event_year(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    number = f"try_cast({v} AS int)"
    return f"IF({number} = 1900, 0, {number})"  # a stored 0 is decoded as 1900 + 0; a real YEAR begins at 1901


# --- text and bytes --------------------------------------------------------------------------------------------------


def _event_text(column: Column, modes: DecodeModes, v: str) -> str:
    """NULL for text that may represent other characters on the server (mysql_charsets.py)."""
    del modes
    signs = signs_of(column)
    return f"IF({v} RLIKE r'[{signs}]', NULL, {v})" if signs else v


def _event_label(column: Column, modes: DecodeModes, v: str) -> str:
    r"""A label as it stood between the quotes of the DDL, with commas escaped: `b\\c` and `x\,y` for b\c and x,y."""
    del modes
    if not any(ESCAPABLE & {*label} for label in words_of(column).labels):
        return v
    part = "x"
    for letter, code in ESCAPES:
        part = rf"replace({part}, r'\{letter}', char({code}))"
    part = rf"regexp_replace({part}, r'\\([^%_])', '$1')"  # MySQL keeps the backslash of \% and \_
    return rf"array_join(transform(split({v}, r'\\\\'), x -> {part}), char(92))"


def _event_json(column: Column, modes: DecodeModes, v: str) -> str:
    """NULL for a document with what Debezium makes of MySQL's own negative TIME: "479:0-60:0-59"."""
    del column, modes
    return f"IF({v} RLIKE r'{GARBLED_TIME}', NULL, cdc_json_canonical({v}))"


def _event_bytes(column: Column, modes: DecodeModes, v: str) -> str:
    text, form = v, "base64"
    if modes.binary == "base64-url-safe":
        text = f"translate({v}, '-_', '+/')"
    elif modes.binary == "hex":
        form = "hex"
    value = f"try_to_binary({text}, '{form}')"
    words = words_of(column)
    if words.data_type != "binary":
        return value
    size = words.byte_length or words.char_length or 1
    return f"IF(octet_length({value}) <= {size}, rpad({value}, {size}, X'00'), NULL)"


def _event_spatial(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    wkb = f"try_to_binary(get_json_object({v}, '$.wkb'), 'base64')"
    srid = f"coalesce(try_cast(get_json_object({v}, '$.srid') AS int), 0)"
    return f"IF({wkb} IS NULL, NULL, named_struct('srid', {srid}, 'wkb', {wkb}))"


# --- the table -------------------------------------------------------------------------------------------------------


def _event_double(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    return f"try_cast({v} AS double)"


# (column, the connector's modes, the field's raw JSON text) → Spark expression
_Event = Callable[["Column", DecodeModes, str], str]

_TABLE: tuple[tuple[tuple[str, ...], _Event], ...] = (
    (tuple(INTEGERS), _event_integer),
    (("decimal",), _event_decimal),
    (("float",), _event_float),
    (("double",), _event_double),
    (("bit",), _event_bits),
    (("date",), _event_date),
    (("datetime",), _event_datetime),
    (("timestamp",), _event_timestamp),
    (("time",), _event_time),
    (("year",), _event_year),
    (TEXTS, _event_text),
    (("enum", "set"), _event_label),
    (("json",), _event_json),
    (("binary", "varbinary", *BLOBS), _event_bytes),
    (SPATIAL, _event_spatial),
)

_EVENTS: dict[str, _Event] = {name: event for names, event in _TABLE for name in names}


@dataclass(frozen=True, slots=True)
class MySqlValues:
    """See carriage.EventValues."""

    modes: DecodeModes = field(default_factory=DecodeModes)

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> MySqlValues:
        """Read from a connector's configuration; SchemaError names a setting that is not known here."""
        return cls(DecodeModes.from_config(config))

    @property
    def way_out(self) -> str:
        """See carriage.EventValues."""
        return "Convert the column to utf8mb4 and recover the table, or exclude the column on the connector."

    def check_table(self, table: Table) -> None:
        """See carriage.EventValues."""
        for column in table.mirrored:
            check_charset(column, table.full_name)
            from_event(column, self.modes)  # raises for a column that these modes can't carry

    def from_event(self, column: Column, text: str) -> str:
        """See carriage.EventValues."""
        return from_event(column, self.modes, text)

    def reads_as_null(self, column: Column, text: str) -> str:
        """See carriage.EventValues."""
        return f"startswith({text}, '{ZERO_DATE}')" if column.nullable and isinstance(column.type, Instant) else ""

    def why_not(self, column: Column) -> str:
        """See carriage.EventValues."""
        return doubt(column) or (_JSON_DOUBT if isinstance(column.type, Json) else "")
