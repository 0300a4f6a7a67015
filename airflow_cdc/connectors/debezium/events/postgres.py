"""How PostgreSQL's values are carried in Debezium's events: for each type the Connect value that a connector writes, and what it means.

A type without a row in the table is refused by name: Debezium silently omits some from its events, and prints others
differently from the server. A long value that an UPDATE did not change is not in the log: the event has a placeholder
for it, which is never mistaken for a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal as Number
from functools import partial
from typing import TYPE_CHECKING, AnyStr, Final, TypeAlias

from airflow_cdc.connectors.debezium.events.texts import (
    BYTES_IN_TEXT,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
    instant,
    iso_instant,
)
from airflow_cdc.connectors.debezium.names import is_true
from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Array, Bits, Decimal, Text, Unsupported
from airflow_cdc.events.value import (
    DECIMAL_DIGITS,
    WRONG,
    Conversion,
    NoValueError,
    Shape,
    Value,
    Wire,
    as_is,
    bounded,
    document,
)
from airflow_cdc.events.wire.decimals import DOUBLE_DIGITS, WIDE, of_double
from airflow_cdc.sources.postgres.types import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.core.types import LogicalType

_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,4})?", re.ASCII)
_PLAIN: Final = re.compile(r"-?(\d+(\.\d+)?|Infinity)", re.ASCII)
_SPECIAL: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_WRITTEN: Final = {text: word for word, text in _SPECIAL.items()}
_STRING, _INT, _BOOLEAN, _BYTES = Shape(Wire.STRING), Shape(Wire.INT), Shape(Wire.BOOLEAN), Shape(Wire.BYTES)
PLACEHOLDER: Final = "__debezium_unavailable_value"
_METADATA: Final = "provide.transaction.metadata"

_SETTINGS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "decimal": ("decimal.handling.mode", ("precise", "string", "double"), "precise"),
    "time": ("time.precision.mode", ("adaptive", "adaptive_time_microseconds", "microseconds"), "adaptive"),
    "binary": ("binary.handling.mode", ("bytes", "base64", "base64-url-safe", "hex"), "bytes"),
    "interval": ("interval.handling.mode", ("numeric", "string"), "numeric"),
    "hstore": ("hstore.handling.mode", ("json", "map"), "json"),
}


@dataclass(frozen=True, slots=True)
class PostgresValues:
    """See value.Values. The modes are those of the connector's configuration; the defaults are Debezium's.

    Attributes:
        placeholder: the text in place of a long value that did not change.
        numbered: whether events are numbered within their transaction. Only these numbers distinguish the rows of one
            log entry, as COPY writes them.
    """

    decimal: str = "precise"
    time: str = "adaptive"
    binary: str = "bytes"
    interval: str = "numeric"
    hstore: str = "json"
    placeholder: str = PLACEHOLDER
    numbered: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> PostgresValues:
        """Read from a connector's configuration; SchemaError names a mode that cannot be decoded."""
        modes = {
            name: config.get(setting, default).strip().lower() for name, (setting, _, default) in _SETTINGS.items()
        }
        for name, (setting, known, _) in _SETTINGS.items():
            if modes[name] not in known:
                raise SchemaError(f"{setting}={modes[name]} cannot be decoded", todo=f"Use one of {', '.join(known)}.")
        placeholder = config.get("unavailable.value.placeholder", PLACEHOLDER)
        return cls(**modes, placeholder=placeholder, numbered=is_true(config.get(_METADATA, "")))

    @property
    def way_out(self) -> str:
        """See value.Values."""
        return (
            "Let each change carry the long values of its row (ALTER TABLE … REPLICA IDENTITY FULL) and recover the table,"
            " or exclude the column on the connector."
        )

    def check_table(self, table: Table) -> None:
        """See value.Values. A table without a key needs numbered changes: else repeats cannot be recognised."""
        for column in table.mirrored:
            self.value(column)
        if table.keyless and not self.numbered:
            raise SchemaError(
                "the table has no key, and its events are not numbered: rows that COPY writes at one place of the log"
                " could not be distinguished from repeats",
                where=f"table {table.full_name}",
                todo=f"Set {_METADATA}=true on the connector, or give the table a primary key.",
            )

    def value(self, column: Column) -> Value:
        """See value.Values. The row of a doubted value is read again, as of every value that the event may show otherwise."""
        words, kind = words_of(column.native), column.value_type
        if isinstance(kind, Array):
            own = self._array(column, kind.of)
        else:
            name = "enum" if words["type_kind"] == "e" else str(words["type"])
            own = self._carried(_Field(column, name, kind))
        long = f"a long value that did not change is left out, and {MISREAD}"
        write = own.write and partial(_read_again, write=own.write, reader=own.read)
        return replace(own, write=write, doubt="" if str(words["type"]) in _SHORT else long)

    def _carried(self, field: _Field) -> Value:
        row = _EVENTS.get(field.type)
        if row is None or isinstance(field.kind, Unsupported):
            raise _refused(field.column, "Debezium's events do not carry it as the server writes it")
        return row(self, field)

    def _array(self, column: Column, of: LogicalType) -> Value:
        words = words_of(column.native)
        name = "enum" if words.get("element_kind") == "e" else str(words["element"])
        if name not in _ELEMENTS:
            raise _refused(column, "Debezium's events do not carry such arrays as the server writes them")
        one = self._carried(_Field(column, name, of))
        read = partial(_elements, read=one.read, absent=list(self.placeholder.encode()))
        return Value(Shape(Wire.ARRAY, of=one.shape), read, list)


@dataclass(frozen=True, slots=True)
class _Field:
    """What is carried: a column, or an array's element, with the name of its type and its logical type."""

    column: Column
    type: str
    kind: LogicalType


def _refused(column: Column, why: str, todo: str = "Exclude the column on the connector.") -> SchemaError:
    return SchemaError(f"{column.native.type}: {why}", where=f"column {column.name}", todo=todo)


def _mode_refused(field: _Field, setting: str, value: str, instead: str) -> SchemaError:
    why = f"{setting}={value} cannot carry it exactly"
    return _refused(field.column, why, f"Set {setting}={instead} on the connector.")


def _read_again(value: object, write: Conversion, reader: Conversion) -> object:
    """The Connect value, if it is read as the same value: a placeholder is not, nor what a declared precision cuts off."""
    wire = write(value)
    if reader(wire) != value and value == value:  # noqa: PLR0124 - NaN is not equal to itself
        raise NoValueError
    return wire


def _same(shape: Shape, check: Conversion = as_is) -> Value:
    """A value that is carried as it is."""
    return Value(shape, check, as_is)


def _elements(values: list[object], read: Conversion, absent: list[int]) -> list[object]:
    """All or nothing. Many dimensions arrive as one of only NULLs; `absent` is the placeholder in an array of numbers."""
    if values == absent or (values and all(one is None for one in values)) or any(one is WRONG for one in values):
        raise NoValueError
    return [None if one is None else read(one) for one in values]


# --- numbers ---------------------------------------------------------------------------------------------------------


def _integer(_modes: PostgresValues, f: _Field) -> Value:
    most = 2 ** (63 if f.type in {"int8", "oid"} else 31)
    return _same(_INT, bounded(-most, most - 1))


def _boolean(_modes: PostgresValues, _f: _Field) -> Value:
    return _same(_BOOLEAN)


def _numeric(modes: PostgresValues, f: _Field) -> Value:
    if isinstance(f.kind, Text):  # each value has a scale of its own
        if modes.decimal != "string":
            raise _mode_refused(f, "decimal.handling.mode", modes.decimal, "string")
        return Value(_STRING, _digits, lambda text: _WRITTEN.get(text, text))
    assert isinstance(f.kind, Decimal)  # noqa: S101 - the other logical type of a numeric
    precision, scale = f.kind.precision, f.kind.scale
    most = 10 ** (precision - scale) if precision <= DECIMAL_DIGITS else None
    fit = partial(_fitted, unit=Number(1).scaleb(-scale), most=most)
    if modes.decimal == "string":
        return Value(_STRING, partial(_written, fit=fit), partial(_plain, scale=_sent_scale(f)))
    if modes.decimal == "double":
        if max(precision, scale) > DOUBLE_DIGITS:
            raise _mode_refused(f, "decimal.handling.mode", modes.decimal, "string")
        return Value(Shape(Wire.FLOAT64), partial(_of_double, scale=scale, fit=fit))
    return Value(Shape(Wire.DECIMAL, scale=_sent_scale(f)), fit, Number)


def _sent_scale(f: _Field) -> int:
    """The scale in events. A negative one is sent as its 11 bits: numeric(3,-2) has 2046."""
    assert isinstance(f.kind, Decimal)  # noqa: S101 - see _numeric
    modifier = int(words_of(f.column.native).get("modifier", -1))
    return (modifier - 4) & 0x7FF if f.type == "numeric" and modifier >= 4 else f.kind.scale


def _digits(text: str) -> str:
    if (special := _SPECIAL.get(text.upper())) is not None:
        return special
    if _PLAIN.fullmatch(text) is None:  # an exponent is not how the server writes a number
        raise NoValueError
    return text


def _plain(number: Number | str, scale: int) -> str:
    return f"{Number(number).quantize(Number(1).scaleb(-scale), context=WIDE):f}"


def _written(text: str, fit: Callable[[Number], Number | str]) -> Number | str:
    if _DECIMAL.fullmatch(text) is None:
        raise NoValueError
    return fit(Number(text))


def _of_double(number: float, scale: int, fit: Callable[[Number], Number | str]) -> Number | str:
    try:
        return fit(of_double(number, scale))
    except ValueError:
        raise NoValueError from None


def _fitted(number: Number, unit: Number, most: int | None) -> Number | str:
    """A number below `most` in whole units; None: as text with all decimals, as it may have more digits than a sink's decimal."""
    fitted = number.quantize(unit, context=WIDE)
    if fitted != number or (most is not None and fitted.copy_abs() >= most):
        raise NoValueError
    fitted = fitted.copy_abs() if fitted.is_zero() else fitted
    return fitted if most is not None else f"{fitted:f}"


def _float4(_modes: PostgresValues, _f: _Field) -> Value:
    return _same(Shape(Wire.FLOAT32))


def _float8(_modes: PostgresValues, _f: _Field) -> Value:
    return _same(Shape(Wire.FLOAT64))


def _bits(_modes: PostgresValues, f: _Field) -> Value:
    """bit(1) is true or false; a longer one arrives as bytes, the last bits first, without zeros at the end."""
    if not isinstance(f.kind, Bits):
        raise _refused(f.column, "bits in such numbers arrive without their length")
    size = f.kind.size
    return Value(_BOOLEAN, int, bool) if size == 1 else Value(_BYTES, partial(_of_bits, size=size), _to_bits)


def _of_bits(raw: bytes, size: int) -> int | Number:
    number = int.from_bytes(raw, "little")
    if len(raw) > (size + 7) // 8 or number >= 2**size:
        raise NoValueError
    return Number(number) if size == 64 else number


def _to_bits(number: Number | int) -> bytes:
    size = int(number).bit_length()
    return int(number).to_bytes((size + 7) // 8, "little")


# --- dates and times -------------------------------------------------------------------------------------------------


def _date(_modes: PostgresValues, _f: _Field) -> Value:
    return _same(_INT, bounded(FIRST_DAY, LAST_DAY))


def _micros_each(modes: PostgresValues, f: _Field, *, of_day: bool) -> int:
    """1000 for milliseconds: depends on the mode, and on the column's declared precision."""
    digits = int(words_of(f.column.native).get("modifier", -1))
    adaptive = modes.time == "adaptive" or (modes.time == "adaptive_time_microseconds" and not of_day)
    return 1000 if adaptive and 0 <= digits <= 3 else 1


def _time(modes: PostgresValues, f: _Field) -> Value:
    return _counted(_micros_each(modes, f, of_day=True), -(2**63), 2**63 - 1)


def _timestamp(modes: PostgresValues, f: _Field) -> Value:
    each = _micros_each(modes, f, of_day=False)
    return _counted(each, FIRST_MICROS, LAST_MICROS)


def _counted(each: int, low: int, high: int) -> Value:
    """Microseconds that are sent in units of `each`."""
    return Value(_INT, bounded(-(-low // each), high // each, each), lambda micros: micros // each)


def _instant(_modes: PostgresValues, f: _Field) -> Value:
    digits = int(words_of(f.column.native).get("modifier", -1))
    return Value(_STRING, instant, partial(iso_instant, digits=6 if digits < 0 else digits))


def _interval(modes: PostgresValues, f: _Field) -> Value:
    if modes.interval != "string":
        raise _mode_refused(f, "interval.handling.mode", modes.interval, "string")
    return _same(_STRING)


# --- text and bytes --------------------------------------------------------------------------------------------------


def _present(modes: PostgresValues, _f: _Field) -> Value:
    return _same(_STRING, partial(_there, absent=modes.placeholder))


def _there(value: AnyStr, absent: AnyStr) -> AnyStr:
    """The value, if it is not the placeholder."""
    if value == absent:
        raise NoValueError
    return value


def _padded(modes: PostgresValues, f: _Field) -> Value:
    """char(n) without its padding blanks, which carry no meaning. How many a bpchar without a length had is not known."""
    size = int(words_of(f.column.native).get("modifier", -1)) - 4
    write = None if size < 1 else lambda text: text.ljust(size)
    return Value(_STRING, partial(_unpadded, absent=modes.placeholder), write)


def _unpadded(text: str, absent: str) -> str:
    return str(_there(text, absent)).rstrip(" ")


def _bytes(modes: PostgresValues, _f: _Field) -> Value:
    absent = modes.placeholder.encode()
    if modes.binary == "bytes":
        return _same(_BYTES, partial(_there, absent=absent))
    form, write = BYTES_IN_TEXT[modes.binary]
    return Value(_STRING, partial(_of_text, form=form, absent=absent), lambda raw: write(raw).decode())


def _of_text(text: str, form: Callable[[bytes], bytes], absent: bytes) -> bytes:
    written = _there(text.encode(), absent)  # some texts that are no placeholder in base64 are read as bytes
    return bytes(_there(form(written), absent))


def _hstore(modes: PostgresValues, f: _Field) -> Value:
    if modes.hstore != "json":
        raise _mode_refused(f, "hstore.handling.mode", modes.hstore, "json")
    return _same(_STRING, partial(_document, absent=modes.placeholder))


def _document(text: str, absent: str) -> str:
    if absent in text:
        raise NoValueError
    return document(text)


_Event: TypeAlias = Callable[[PostgresValues, _Field], Value]

_TABLE: tuple[tuple[tuple[str, ...], _Event], ...] = (
    (("int2", "int4", "int8", "oid"), _integer),
    (("bool",), _boolean),
    (("numeric", "money"), _numeric),
    (("float4",), _float4),
    (("float8",), _float8),
    (("bit",), _bits),
    (("date",), _date),
    (("time",), _time),
    (("timestamp",), _timestamp),
    (("timestamptz",), _instant),
    (("interval",), _interval),
    (("bpchar",), _padded),
    (("bytea",), _bytes),
    (("hstore",), _hstore),
    (
        ("text", "varchar", "enum", "uuid", "json", "jsonb", "xml", "citext", "ltree", "inet", "cidr", "macaddr",
         "macaddr8", "int4range", "int8range", "numrange", "tsrange", "daterange"),
        _present,
    ),
)  # fmt: skip
_EVENTS: dict[str, _Event] = {name: event for names, event in _TABLE for name in names}
# of a length that the log always holds whole
_SHORT: Final = frozenset({
    "int2", "int4", "int8", "oid", "bool", "float4", "float8", "money", "date", "time", "timestamp", "timestamptz", "uuid",
    "interval", "macaddr", "macaddr8",
})  # fmt: skip
# Of other arrays the placeholder is not known, or a value arrives as another: {NaN} in a numeric[] as NULL, infinity in a
# date[] as a day.
_ELEMENTS: Final = frozenset({"int4", "int8", "text", "varchar"})
