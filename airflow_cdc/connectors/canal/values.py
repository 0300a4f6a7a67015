"""How MySQL's values are written in Canal's flat JSON: Spark SQL from a field's text to the sink type.

Every value is text or null. Bytes are ISO-8859-1 text, ENUM and SET are numbers, and a TIMESTAMP is in the time zone of
Canal's JVM. Text is decoded as UTF-8 whatever its column's character set is, so that others arrive garbled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Date, Instant, LocalDateTime
from airflow_cdc.sources.mysql.types import BLOBS, INTEGERS, SPATIAL, TEXTS, type_of, words_of

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table

# beside Canal's own settings, from pipelines.yaml: the time zone of its JVM
TIME_ZONE: Final = "connector.time_zone"
_CARRIED: Final = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_DECIMAL_DIGITS: Final = 38  # Spark's decimals have no more: above it a DECIMAL is text
_UNSIGNED: Final = "decimal(20,0)"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_SHAPES: Final = {Date: f"^{_DAY}$", LocalDateTime: f"^{_DAY} {_CLOCK}$", Instant: f"^{_DAY} {_CLOCK}$"}
_YEAR_1: Final = "0001"
_MOST_LABELS: Final = 64


@dataclass(frozen=True, slots=True)
class CanalValues:
    """The values of one server's events. `zone`: the time zone of Canal's JVM; "": nobody has said it."""

    zone: str = ""

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

    def from_event(self, column: Column, text: str) -> str:
        """Spark expression from a field's text to the sink type: NULL for NULL and for what is no value of this type.

        Raises SchemaError for a type that is not known.
        """
        type_of(column)  # an unknown type is named by its own error
        return _VALUES[words_of(column).data_type](column, text, self.zone)

    def reads_as_null(self, column: Column, text: str) -> str:
        """Spark condition: a day that no calendar has, which is NULL in the sink; "" where no text means NULL."""
        shape = _SHAPES.get(type(column.type))
        if shape is None or not column.nullable:
            return ""
        no_day = f"({text} < '{_YEAR_1}' OR try_cast({text} AS timestamp_ntz) IS NULL)"
        return f"({text} RLIKE r'{shape}' AND {no_day})"

    def _fault(self, column: Column) -> str:
        words = words_of(column)
        if "`" in column.name:
            return "a backtick in its name arrives doubled"
        if words.data_type in TEXTS and words.charset not in _CARRIED:
            return f"{words.charset} text is decoded as UTF-8"
        if isinstance(column.type, Instant) and not self.zone:
            return "a TIMESTAMP is written in the time zone of Canal's JVM, which is not known"
        self.from_event(column, "''")
        return ""


# --- numbers ---------------------------------------------------------------------------------------------------------


def _integer(column: Column, v: str, _zone: str) -> str:
    words = words_of(column)
    if words.data_type == "bigint" and words.unsigned:
        return f"try_cast({v} AS {_UNSIGNED})"
    wide = words.data_type == "bigint" or (words.data_type == "int" and words.unsigned)
    return f"try_cast({v} AS {'bigint' if wide else 'int'})"


def _decimal(column: Column, v: str, _zone: str) -> str:
    precision, scale = words_of(column).digits
    wide = precision > _DECIMAL_DIGITS
    return f"cdc_decimal_plain({v}, {scale})" if wide else f"try_cast({v} AS decimal({precision},{scale}))"


def _float(_column: Column, v: str, _zone: str) -> str:
    return f"CAST(try_cast({v} AS float) AS double)"  # the sink holds the float's own value, not its decimal text


def _double(_column: Column, v: str, _zone: str) -> str:
    return f"try_cast({v} AS double)"


def _bits(column: Column, v: str, _zone: str) -> str:
    return f"try_cast({v} AS {_UNSIGNED if words_of(column).precision == _MOST_LABELS else 'bigint'})"


def _year(_column: Column, v: str, _zone: str) -> str:
    return f"try_cast({v} AS int)"


# --- dates and times -------------------------------------------------------------------------------------------------


def _or_epoch(column: Column, v: str, value: str, epoch: str) -> str:
    """A day that no calendar has is NULL, and the epoch where NULL is not allowed, as everywhere."""
    there = f"IF({v} < '{_YEAR_1}', NULL, {value})"
    return f"IF({v} RLIKE r'{_SHAPES[type(column.type)]}', {there if column.nullable else f'coalesce({there}, {epoch})'}, NULL)"


def _date(column: Column, v: str, _zone: str) -> str:
    return _or_epoch(column, v, f"try_cast({v} AS date)", "DATE'1970-01-01'")


def _datetime(column: Column, v: str, _zone: str) -> str:
    return _or_epoch(column, v, f"try_cast({v} AS timestamp_ntz)", "TIMESTAMP_NTZ'1970-01-01 00:00:00'")


def _timestamp(column: Column, v: str, zone: str) -> str:
    """NULL in the hour that comes twice in the zone, which the text does not tell apart."""
    local = f"try_cast({v} AS timestamp)"  # the session is in UTC
    value = local
    if zone != "UTC":
        name = f"'{zone}'"
        moment = f"to_utc_timestamp({local}, {name})"
        twice = " OR ".join(
            f"from_utc_timestamp({moment} {sign} INTERVAL 1 HOUR, {name}) = {local}" for sign in ("+", "-")
        )
        value = f"IF({twice}, NULL, {moment})"
    if column.nullable:
        return _or_epoch(column, v, value, "")
    zero = f"{v} < '{_YEAR_1}'"
    return f"IF({v} RLIKE r'{_SHAPES[Instant]}', IF({zero}, timestamp_micros(0L), {value}), NULL)"


def _time(_column: Column, v: str, _zone: str) -> str:
    pattern = r"^(-?)([0-9]{2,3}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,6})?$"
    hours, minutes, seconds = (f"CAST(regexp_extract({v}, r'{pattern}', {group}) AS bigint)" for group in (2, 3, 4))
    fraction = f"CAST(rpad(substr(regexp_extract({v}, r'{pattern}', 5), 2), 6, '0') AS bigint)"
    micros = f"(({hours} * 60 + {minutes}) * 60 + {seconds}) * 1000000 + {fraction}"
    return f"IF({v} RLIKE r'{pattern}', IF(startswith({v}, '-'), -1, 1) * ({micros}), NULL)"


# --- text and bytes --------------------------------------------------------------------------------------------------


def _text(_column: Column, v: str, _zone: str) -> str:
    return v


def _json(_column: Column, v: str, _zone: str) -> str:
    return f"cdc_json_canonical({v})"


def _enum(column: Column, v: str, _zone: str) -> str:
    """The label of a number; 0 is what MySQL stores for a value that is none of the labels."""
    labels = ", ".join(map(_literal, words_of(column).labels))
    number = f"try_cast({v} AS int)"
    return f"IF({number} = 0, '', IF({number} > 0, try_element_at(array({labels}), {number}), NULL))"


def _set(column: Column, v: str, _zone: str) -> str:
    labels = words_of(column).labels
    number = f"CAST(conv({v}, 10, -10) AS bigint)"  # a number from 2^63 on is negative then
    chosen = (
        f"IF(({number} & {1 << at if at < _MOST_LABELS - 1 else -(1 << at)}L) <> 0, {_literal(label)}, NULL)"
        for at, label in enumerate(labels)
    )
    known = "true" if len(labels) >= _MOST_LABELS - 1 else f"{number} BETWEEN 0 AND {(1 << len(labels)) - 1}L"
    return f"IF({v} RLIKE '^[0-9]{{1,20}}$', IF({known}, concat_ws(',', {', '.join(chosen)}), NULL), NULL)"


def _bytes(column: Column, v: str, _zone: str) -> str:
    value, words = _latin1(v), words_of(column)
    if words.data_type != "binary":
        return value
    size = words.byte_length or words.char_length or 1
    return f"IF(length({v}) <= {size}, rpad({value}, {size}, X'00'), NULL)"


def _latin1(v: str) -> str:
    return rf"IF({v} RLIKE r'[^\x00-\xff]', NULL, encode({v}, 'ISO-8859-1'))"


def _spatial(_column: Column, v: str, _zone: str) -> str:
    """Four bytes of SRID, the lowest first, then WKB."""
    value = _latin1(v)
    digits = f"hex(substr({value}, 1, 4))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in (7, 5, 3, 1))
    srid = f"CAST(conv(concat({pairs}), 16, 10) AS int)"
    return f"IF(length({v}) > 4, named_struct('srid', {srid}, 'wkb', substr({value}, 5)), NULL)"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# --- the table -------------------------------------------------------------------------------------------------------

# (column, the field's text, the zone of Canal's JVM) → Spark expression
_Value = Callable[["Column", str, str], str]

_TABLE: tuple[tuple[tuple[str, ...], _Value], ...] = (
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

_VALUES: dict[str, _Value] = {name: value for names, value in _TABLE for name in names}
