"""How MySQL's values are written in Canal's messages: for each type the text that Canal writes, and what it means.

Every value is text or null. Bytes are ISO-8859-1 text, ENUM and SET are numbers, and a TIMESTAMP is in the time zone of
Canal's JVM. Text is decoded as UTF-8 whatever its column's character set is, so that others arrive garbled. Times are
numbers, as Arrow holds them: microseconds, and days for a date.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from airflow_cdc.connectors.canal.events.zones import EPOCH, MICRO, instant_of, rules_of, zone_of
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Instant
from airflow_cdc.events.value import (
    DECIMAL_DIGITS,
    NoValueError,
    Shape,
    Value,
    Wire,
    as_is,
    document,
    nearest_single,
    within,
)
from airflow_cdc.events.wire.decimals import WIDE
from airflow_cdc.sources.mysql.types import BLOBS, INTEGERS, SPATIAL, TEXTS, type_of, words_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from airflow_cdc.core.table import Column, Table

# a text → what it means; None for NULL. Raises ValueError
Read: TypeAlias = Callable[[str], object]

# beside Canal's own settings, from pipelines.yaml: the time zone of its JVM
TIME_ZONE: Final = "connector.time_zone"
WAY_OUT: Final = "Convert the column to utf8mb4 and recover the table, or take the table out of the pipeline."
_CARRIED: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_MOST_BITS: Final = 64
_NO_YEAR: Final = "0000"
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)
_SPAN: Final = re.compile(r"(-?)(\d{2,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_WHOLE: Final = re.compile(r"-?\d{1,20}", re.ASCII)
_DIGITS: Final = re.compile(r"\d{1,20}", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,4})?", re.ASCII)
_STRING: Final = Shape(Wire.STRING)


@dataclass(frozen=True, slots=True)
class CanalValues:
    """See value.Values. The values of one server's messages.

    Attributes:
        zone: the time zone of Canal's JVM; "": nobody has said it.
        rules: of that zone.
    """

    zone: str = ""
    rules: bytes = field(init=False, repr=False, compare=False, default=b"")

    def __post_init__(self) -> None:
        if self.zone:
            object.__setattr__(self, "rules", rules_of(self.zone))

    @property
    def way_out(self) -> str:
        """See value.Values."""
        return WAY_OUT

    def check_table(self, table: Table) -> None:
        """Raise one SchemaError that names every column whose values these events don't carry."""
        faults = [f"{column.name} ({fault})" for column in table.mirrored if (fault := self._fault(column))]
        if faults:
            raise SchemaError(
                f"Canal's events do not carry these columns as the server holds them: {'; '.join(faults)}",
                where=f"table {table.full_name}",
                todo=f"Convert text to utf8mb4; rename the column; say with {TIME_ZONE} in which time zone Canal's JVM runs; or take the"
                " table out of the pipeline.",
            )

    def value(self, column: Column) -> Value:
        """See value.Values. Raises SchemaError for a type that is not known."""
        type_of(column)  # an unknown type is named by its own error
        return Value(_STRING, _VALUES[words_of(column).data_type](column, self))

    def _fault(self, column: Column) -> str:
        words = words_of(column)
        if "`" in column.name:
            return "a backtick in its name arrives doubled"
        if words.data_type in TEXTS and words.charset not in _CARRIED:
            return f"{words.charset} text is decoded as UTF-8"
        if isinstance(column.type, Instant) and not self.zone:
            return "a TIMESTAMP is written in the time zone of Canal's JVM, which is not known"
        self.value(column)
        return ""


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise NoValueError
    return match


# --- numbers ---------------------------------------------------------------------------------------------------------


def _integer(column: Column, _: CanalValues) -> Read:
    words = words_of(column)
    if words.data_type == "bigint" and words.unsigned:
        return partial(_unsigned, high=2**64 - 1)
    wide = words.data_type == "bigint" or (words.data_type == "int" and words.unsigned)
    most = 2 ** (63 if wide else 31)
    return partial(_whole, low=-most, high=most - 1)


def _whole(text: str, low: int, high: int) -> int:
    return within(int(_matched(_WHOLE, text)[0]), low, high)


def _unsigned(text: str, high: int) -> Decimal:
    return Decimal(_whole(text, 0, high))


def _decimal(column: Column, _: CanalValues) -> Read:
    precision, scale = words_of(column).digits
    most = 10 ** (precision - scale)
    return partial(_exact, unit=Decimal(1).scaleb(-scale), most=most, as_text=precision > DECIMAL_DIGITS)


def _exact(text: str, unit: Decimal, most: int, *, as_text: bool) -> Decimal | str:
    number = Decimal(_matched(_NUMBER, text)[0])
    exact = number.quantize(unit, context=WIDE)
    if exact != number or exact.copy_abs() >= most:
        raise NoValueError
    exact = exact.copy_abs() if exact.is_zero() else exact
    return f"{exact:f}" if as_text else exact


def _float(_column: Column, _: CanalValues) -> Read:
    return _single  # the sink holds the float's own value, not its decimal text


def _single(text: str) -> float:
    return nearest_single(_finite(text))


def _double(_column: Column, _: CanalValues) -> Read:
    return _finite


def _finite(text: str) -> float:
    number = float(_matched(_NUMBER, text)[0])
    if not math.isfinite(number):
        raise NoValueError
    return number


def _bits(column: Column, _: CanalValues) -> Read:
    size = words_of(column).precision or 1
    high = 2**size - 1
    return partial(_unsigned, high=high) if size == _MOST_BITS else partial(_whole, low=0, high=high)


def _year(_column: Column, _: CanalValues) -> Read:
    return _of_year


def _of_year(text: str) -> int:
    year = _whole(text, 0, 2155)
    if 0 < year < 1901:
        raise NoValueError
    return year


# --- dates and times -------------------------------------------------------------------------------------------------


def _date(column: Column, _: CanalValues) -> Read:
    return partial(_of_day, none=None if column.nullable else 0)


def _of_day(text: str, none: int | None) -> int | None:
    """A day that no calendar has is NULL, and the epoch where NULL is not allowed, as everywhere."""
    local = _local(_matched(_DAY, text)[0])
    return none if local is None else (local.replace(tzinfo=UTC) - EPOCH).days


def _datetime(column: Column, _: CanalValues) -> Read:
    return partial(_of_moment, none=None if column.nullable else 0)


def _of_moment(text: str, none: int | None) -> int | None:
    local = _local(_matched(_MOMENT, text)[0])
    return none if local is None else (local.replace(tzinfo=UTC) - EPOCH) // MICRO


def _local(text: str) -> datetime | None:
    """None for what is on no calendar and no clock."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _timestamp(column: Column, values: CanalValues) -> Read:
    if not values.rules:
        return _unknown
    return partial(_instant, zone=zone_of(values.rules), nullable=column.nullable)


def _unknown(_: str) -> int:
    """See CanalValues._fault."""
    raise NoValueError


def _instant(text: str, zone: ZoneInfo, *, nullable: bool) -> int | None:
    """No value in the hour that comes twice in the zone, which the text does not tell apart."""
    local = _local(_matched(_MOMENT, text)[0])
    if local is None and nullable:
        return None
    if local is None and text.startswith(_NO_YEAR):
        return 0
    instant = None if local is None else instant_of(local, zone)
    if instant is None:
        raise NoValueError
    return instant


def _time(_column: Column, _: CanalValues) -> Read:
    return _of_span


def _of_span(text: str) -> int:
    sign, hours, minutes, seconds, fraction = _matched(_SPAN, text).groups()
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


# --- text and bytes --------------------------------------------------------------------------------------------------


def _text(_column: Column, _: CanalValues) -> Read:
    return as_is


def _json(_column: Column, _: CanalValues) -> Read:
    return document


def _enum(column: Column, _: CanalValues) -> Read:
    """The label of a number; 0 is what MySQL stores for a value that is none of the labels."""
    return partial(_label, labels=("", *words_of(column).labels))


def _label(text: str, labels: tuple[str, ...]) -> str:
    return labels[_whole(text, 0, len(labels) - 1)]


def _set(column: Column, _: CanalValues) -> Read:
    return partial(_chosen, labels=words_of(column).labels)


def _chosen(text: str, labels: tuple[str, ...]) -> str:
    number = within(int(_matched(_DIGITS, text)[0]), 0, (1 << len(labels)) - 1)
    return ",".join(label for at, label in enumerate(labels) if number >> at & 1)


def _bytes(column: Column, _: CanalValues) -> Read:
    words = words_of(column)
    return partial(_latin1, size=words.byte_length or words.char_length or 1) if words.data_type == "binary" else _raw


def _raw(text: str) -> bytes:
    return text.encode("latin-1")


def _latin1(text: str, size: int) -> bytes:
    if len(text) > size:
        raise NoValueError
    return _raw(text).ljust(size, b"\0")


def _spatial(_column: Column, _: CanalValues) -> Read:
    return _geometry


def _geometry(text: str) -> dict[str, object]:
    """Four bytes of SRID, the lowest first, then WKB."""
    raw = _raw(text)
    srid = int.from_bytes(raw[:4], "little")
    if len(raw) <= 4 or srid >= 2**31:
        raise NoValueError
    return {"srid": srid, "wkb": raw[4:]}


# --- the table -------------------------------------------------------------------------------------------------------

_TABLE: tuple[tuple[tuple[str, ...], Callable[[Column, CanalValues], Read]], ...] = (
    (tuple(INTEGERS), _integer),
    (("decimal",), _decimal),
    (("float",), _float),
    (("double",), _double),
    (("bit",), _bits),
    (("date",), _date),
    (("datetime",), _datetime),
    (("timestamp",), _timestamp),
    (("time",), _time),
    (("year",), _year),
    (TEXTS, _text),
    (("enum",), _enum),
    (("set",), _set),
    (("json",), _json),
    (("binary", "varbinary", *BLOBS), _bytes),
    (SPATIAL, _spatial),
)
_VALUES: dict[str, Callable[[Column, CanalValues], Read]] = {name: value for names, value in _TABLE for name in names}
