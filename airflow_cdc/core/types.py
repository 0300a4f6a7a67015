"""MySQL types: the sink type of each, how a value is read over JDBC, and how it is decoded from an event.

Everything here is text for MySQL or for Spark SQL; nothing is executed. Spark runs in ANSI mode with its session in
UTC; a value that cannot be decoded becomes NULL, so that the caller sees a bad record as "field present, value NULL".

Dates that are no dates (0000-00-00, 2020-02-31, year 0) are NULL in a nullable column and the epoch in a NOT NULL one:
that is what Debezium emits, and an epoch in an event cannot be told apart from a real one later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.sources.mysql.charsets import signs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_cdc.core.table import Column

SPARK_DECIMAL_DIGITS = 38  # above it a DECIMAL is text in the sink
_LONG_DIGITS = 18  # an unscaled value of so many digits fits 8 bytes
_UNSIGNED = "decimal(20,0)"
_FIRST_MICROS, _LAST_MICROS = -62135596800000000, 253402300799999999  # years 1 to 9999
_UTF8 = "CHAR CHARACTER SET utf8mb4"
_GARBLED_TIME = '"[0-9]{2,3}:0-[0-9]{1,2}:'
_ESCAPES = (("n", 10), ("r", 13), ("t", 9), ("b", 8), ("0", 0), ("Z", 26))
_ESCAPABLE = frozenset({"\\", ",", '"', *(chr(code) for _, code in _ESCAPES)})


@dataclass(frozen=True, slots=True)
class DecodeModes:
    """How the connector writes values, as its configuration says (defaults are Debezium's)."""

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
        found = {name: str(config[setting]) for name, (setting, _) in _MODES.items() if setting in config}
        return cls(**found)


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
    what = f"{setting}={value} cannot carry {column.column_type} exactly"
    return SchemaError(what, where=f"column {column.name}", todo=f"Set {setting}={instead} on the connector.")


@dataclass(frozen=True, slots=True)
class MySqlType:
    """One row of the table: what to do with the types of these names.

    `sink(col)` Spark type; `read(col, c)` MySQL expression over the quoted column `c`; `convert(col, v)` Spark
    expression over that read value; `event(col, modes, v)` Spark expression over the event's raw JSON text `v`.
    """

    names: tuple[str, ...]
    sink: Callable[[Column], str]
    read: Callable[[Column, str], str]
    convert: Callable[[Column, str], str]
    event: Callable[[Column, DecodeModes, str], str]


def sink_type(column: Column) -> str:
    """The Spark SQL type of the sink's column."""
    return type_of(column).sink(column)


def read_sql(column: Column) -> str:
    """The MySQL select expression (without alias) whose value both JDBC drivers return unharmed."""
    return type_of(column).read(column, quote_ident(column.name))


def from_read(column: Column, value: str | None = None) -> str:
    """Spark expression from what `read_sql` selected (default: the column of that name) to the sink type."""
    return type_of(column).convert(column, value or quote_ident(column.name))


def from_event(column: Column, modes: DecodeModes, value: str | None = None) -> str:
    """Spark expression from the raw JSON text of an event's field (default: the column of that name) to the sink type.

    NULL for NULL and for text that is not a value of this type. SchemaError if the connector's modes lose precision.
    """
    return type_of(column).event(column, modes, value or quote_ident(column.name))


def type_of(column: Column) -> MySqlType:
    """The row for the column's type; SchemaError for a type that is not in the table."""
    found = _BY_NAME.get(column.data_type)
    if found is None:
        known = "Exclude the column on the connector, or leave the table out of the pipeline."
        raise SchemaError(f"type {column.column_type} is not supported", where=f"column {column.name}", todo=known)
    return found


# --- numbers ---------------------------------------------------------------------------------------------------------


def _sink_integer(column: Column) -> str:
    if column.data_type == "bigint":
        return _UNSIGNED if column.unsigned else "bigint"
    return "bigint" if column.data_type == "int" and column.unsigned else "int"


def _is_bigint_unsigned(column: Column) -> bool:
    return column.data_type == "bigint" and column.unsigned


def _read_integer(column: Column, c: str) -> str:
    # TINYINT(1) arrives as a boolean and unsigned types overflow in some drivers: one wide type for all
    return f"CAST({c} AS DECIMAL(20,0))" if _is_bigint_unsigned(column) else f"CAST({c} AS SIGNED)"


def _event_integer(column: Column, modes: DecodeModes, v: str) -> str:
    if not _is_bigint_unsigned(column):
        return f"try_cast({v} AS {_sink_integer(column)})"
    if modes.bigint_unsigned == "long":  # values from 2^63 on arrive as negative numbers
        number = f"try_cast({v} AS {_UNSIGNED})"
        return f"CAST(IF({number} < 0, {number} + 18446744073709551616, {number}) AS {_UNSIGNED})"
    return _event_unscaled(v, 20, 0, modes)


def _digits(column: Column) -> tuple[int, int]:
    return column.precision or 10, column.scale or 0


def _is_wide(column: Column) -> bool:
    return _digits(column)[0] > SPARK_DECIMAL_DIGITS


def _sink_decimal(column: Column) -> str:
    precision, scale = _digits(column)
    return "string" if _is_wide(column) else f"decimal({precision},{scale})"


def _read_decimal(column: Column, c: str) -> str:
    if not _is_wide(column):
        return c
    return f"CAST({c} + 0 AS {_UTF8})" if column.zerofill else f"CAST({c} AS {_UTF8})"


def _event_decimal(column: Column, modes: DecodeModes, v: str) -> str:
    precision, scale = _digits(column)
    if modes.decimal == "double":
        raise _refuse(column, "decimal", "double", "string")
    if modes.decimal == "precise":
        return _event_unscaled(v, precision, scale, modes)
    return f"cdc_decimal_plain({v}, {scale})" if _is_wide(column) else f"try_cast({v} AS decimal({precision},{scale}))"


def _event_unscaled(v: str, precision: int, scale: int, modes: DecodeModes) -> str:
    """Base64 of a big-endian two's complement number with `scale` decimals."""
    if modes.decimal_format == "numeric":
        what = "value.converter.decimal.format=NUMERIC writes decimals as JSON numbers, which readers round"
        raise SchemaError(what, todo="Set value.converter.decimal.format=BASE64, or decimal.handling.mode=string.")
    if precision > SPARK_DECIMAL_DIGITS:
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


def _read_real(column: Column, c: str) -> str:
    # as text, FLOAT loses digits and DOUBLE(20,4) its last bits; a sum has neither a length nor decimals
    del column
    return f"{c} + 0e0"


def _event_float(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    return f"CAST(try_cast({v} AS float) AS double)"  # the sink holds the float's own value, not its decimal text


def _sink_bits(column: Column) -> str:
    return _UNSIGNED if (column.precision or 1) == 64 else "bigint"


def _read_bits(column: Column, c: str) -> str:
    wide = _sink_bits(column) == _UNSIGNED
    return f"CAST({c} + 0 AS DECIMAL(20,0))" if wide else f"CAST({c} + 0 AS SIGNED)"


def _event_bits(column: Column, modes: DecodeModes, v: str) -> str:
    del modes  # BIT ignores binary.handling.mode
    size = column.precision or 1
    if size == 1:
        return f"CASE {v} WHEN 'true' THEN 1L WHEN 'false' THEN 0L END"
    value = f"try_to_binary({v}, 'base64')"
    digits = f"hex(rpad({value}, 8, X'00'))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in range(15, 0, -2))  # little-endian: last byte first
    number = f"try_cast(conv(concat({pairs}), 16, 10) AS {_sink_bits(column)})"
    return f"IF(octet_length({value}) BETWEEN 1 AND {(size + 7) // 8}, {number}, NULL)"


# --- dates and times -------------------------------------------------------------------------------------------------


def _or_epoch(column: Column, value: str, epoch: str) -> str:
    return value if column.nullable else f"coalesce({value}, {epoch})"


def _convert_date(column: Column, v: str) -> str:
    value = f"IF({v} < '0001', NULL, try_cast({v} AS date))"
    kept = _or_epoch(column, value, "DATE'1970-01-01'")
    return f"IF({v} IS NULL, NULL, {kept})"


def _event_date(column: Column, modes: DecodeModes, v: str) -> str:
    del column
    if modes.time == "isostring":
        return f"try_cast(TRIM(TRAILING 'Z' FROM {v}) AS date)"
    days = f"try_cast({v} AS int)"
    return f"IF({days} BETWEEN -719162 AND 2932896, date_from_unix_date({days}), NULL)"


def _convert_datetime(column: Column, v: str) -> str:
    value = f"IF({v} < '0001', NULL, try_cast({v} AS timestamp_ntz))"
    kept = _or_epoch(column, value, "TIMESTAMP_NTZ'1970-01-01 00:00:00'")
    return f"IF({v} IS NULL, NULL, {kept})"


def _event_datetime(column: Column, modes: DecodeModes, v: str) -> str:
    fsp = column.fsp or 0
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
    inside = f"{number} BETWEEN {_FIRST_MICROS // micros_each} AND {_LAST_MICROS // micros_each}"
    micros = number if micros_each == 1 else f"{number} * {micros_each}"
    return f"IF({inside}, timestamp_micros({micros}), NULL)"


def _read_timestamp(column: Column, c: str) -> str:
    # over a bare TIMESTAMP column this is the stored UTC value: no time zone, so no hour that comes twice
    del column
    return f"CAST(UNIX_TIMESTAMP({c}) * 1000000 AS SIGNED)"


def _convert_timestamp(column: Column, v: str) -> str:
    # 0 is no TIMESTAMP (they begin at 1970-01-01 00:00:01): only the zero date reads so
    return f"timestamp_micros({f'nullif({v}, 0L)' if column.nullable else v})"


def _event_timestamp(column: Column, modes: DecodeModes, v: str) -> str:
    del modes  # always ISO-8601 with Z
    value = f"try_cast({v} AS timestamp)"
    return f"nullif({value}, timestamp_micros(0L))" if column.nullable else value


def _read_time(column: Column, c: str) -> str:
    del column
    return time_micros(c)


def time_micros(c: str) -> str:
    """MySQL: a TIME as signed microseconds (TIME_TO_SEC alone loses the sign of -00:00:00.5)."""
    return f"(IF({c} < CAST('00:00:00' AS TIME), -1, 1) * (ABS(TIME_TO_SEC({c})) * 1000000 + MICROSECOND({c})))"


def _event_time(column: Column, modes: DecodeModes, v: str) -> str:
    fsp, number = column.fsp or 0, f"try_cast({v} AS bigint)"
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


def _read_text(column: Column, c: str) -> str:
    # CONVERT also keeps the driver from reporting CHAR(n), which Spark would pad
    text = f"CONVERT({c} USING utf8mb4)"
    return f"RTRIM({text})" if column.data_type == "char" else text


def _read_label(column: Column, c: str) -> str:
    del column
    return f"CAST({c} AS {_UTF8})"


def _event_text(column: Column, modes: DecodeModes, v: str) -> str:
    """NULL for text that may stand for other characters of the server's (sources/mysql/charsets.py)."""
    del modes
    signs = signs_of(column)
    return f"IF({v} RLIKE r'[{signs}]', NULL, {v})" if signs else v


def _event_label(column: Column, modes: DecodeModes, v: str) -> str:
    r"""A label as it stood between the quotes of the DDL, with commas escaped: `b\\c` and `x\,y` for b\c and x,y."""
    del modes
    if not any(_ESCAPABLE & {*label} for label in column.labels):
        return v
    part = "x"
    for letter, code in _ESCAPES:
        part = rf"replace({part}, r'\{letter}', char({code}))"
    part = rf"regexp_replace({part}, r'\\([^%_])', '$1')"  # MySQL keeps the backslash of \% and \_
    return rf"array_join(transform(split({v}, r'\\\\'), x -> {part}), char(92))"


def _convert_json(column: Column, v: str) -> str:
    del column
    return f"cdc_json_canonical({v})"


def _event_json(column: Column, modes: DecodeModes, v: str) -> str:
    """NULL for a document with what Debezium makes of MySQL's own negative TIME: "479:0-60:0-59"."""
    del column, modes
    return f"IF({v} RLIKE r'{_GARBLED_TIME}', NULL, cdc_json_canonical({v}))"


def _event_bytes(column: Column, modes: DecodeModes, v: str) -> str:
    text, form = v, "base64"
    if modes.binary == "base64-url-safe":
        text = f"translate({v}, '-_', '+/')"
    elif modes.binary == "hex":
        form = "hex"
    value = f"try_to_binary({text}, '{form}')"
    if column.data_type != "binary":
        return value
    size = column.byte_length or column.char_length or 1
    return f"IF(octet_length({value}) <= {size}, rpad({value}, {size}, X'00'), NULL)"


def _read_spatial(column: Column, c: str) -> str:
    del column
    return f"CAST({c} AS BINARY)"  # 4 bytes of SRID, then WKB as it is stored: no axis is swapped


def _convert_spatial(column: Column, v: str) -> str:
    del column
    digits = f"hex(substr({v}, 1, 4))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in (7, 5, 3, 1))
    srid = f"CAST(conv(concat({pairs}), 16, 10) AS int)"
    return f"IF({v} IS NULL, NULL, named_struct('srid', {srid}, 'wkb', substr({v}, 5)))"


def _event_spatial(column: Column, modes: DecodeModes, v: str) -> str:
    del column, modes
    wkb = f"try_to_binary(get_json_object({v}, '$.wkb'), 'base64')"
    srid = f"coalesce(try_cast(get_json_object({v}, '$.srid') AS int), 0)"
    return f"IF({wkb} IS NULL, NULL, named_struct('srid', {srid}, 'wkb', {wkb}))"


# --- the table -------------------------------------------------------------------------------------------------------


def _always(text: str) -> Callable[[Column], str]:
    return lambda _column: text


def _as_is(_column: Column, value: str) -> str:
    return value


def _cast(column: Column, value: str) -> str:
    return f"CAST({value} AS {sink_type(column)})"


_SPATIAL = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
)  # fmt: skip
_TEXT = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")

TYPES: tuple[MySqlType, ...] = (
    MySqlType(
        ("tinyint", "smallint", "mediumint", "int", "bigint"), _sink_integer, _read_integer, _cast, _event_integer
    ),
    MySqlType(("decimal",), _sink_decimal, _read_decimal, _cast, _event_decimal),
    MySqlType(("float",), _always("double"), _read_real, _cast, _event_float),
    MySqlType(("double",), _always("double"), _read_real, _cast, lambda _c, _m, v: f"try_cast({v} AS double)"),
    MySqlType(("bit",), _sink_bits, _read_bits, _cast, _event_bits),
    MySqlType(("date",), _always("date"), lambda _c, c: f"DATE_FORMAT({c}, '%Y-%m-%d')", _convert_date, _event_date),
    MySqlType(
        ("datetime",),
        _always("timestamp_ntz"),
        lambda _c, c: f"DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')",
        _convert_datetime,
        _event_datetime,
    ),
    MySqlType(("timestamp",), _always("timestamp"), _read_timestamp, _convert_timestamp, _event_timestamp),
    MySqlType(("time",), _always("bigint"), _read_time, _cast, _event_time),
    MySqlType(("year",), _always("int"), lambda _c, c: f"CAST({c} + 0 AS SIGNED)", _cast, _event_year),
    MySqlType(_TEXT, _always("string"), _read_text, _as_is, _event_text),
    MySqlType(("enum", "set"), _always("string"), _read_label, _as_is, _event_label),
    MySqlType(("json",), _always("string"), _read_label, _convert_json, _event_json),
    MySqlType(_BYTES, _always("binary"), _as_is, _as_is, _event_bytes),
    MySqlType(_SPATIAL, _always("struct<srid:int,wkb:binary>"), _read_spatial, _convert_spatial, _event_spatial),
)

_BY_NAME: dict[str, MySqlType] = {name: row for row in TYPES for name in row.names}
