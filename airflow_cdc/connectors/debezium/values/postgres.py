"""How PostgreSQL's values are represented in a Debezium event, and the Spark SQL that decodes them.

Everything here is text for Spark SQL; nothing is executed. A type without a row in the table is refused by name:
Debezium silently omits some from its events, and prints others differently from the server. A long value that an UPDATE
did not change is not in the log: the event has a placeholder for it, which is never mistaken for a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.connectors.debezium.names import is_true
from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Array, Bits, Decimal, Text, Unsupported
from airflow_cdc.sources.postgres.types import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.core.types import LogicalType

_DECIMAL_DIGITS = 38  # Spark's decimals have no more: above it a numeric is text
_FIRST_MICROS, _LAST_MICROS = -62135596800000000, 253402300799999999  # years 1 to 9999
_FIRST_DAY, _LAST_DAY = -719162, 2932896
PLACEHOLDER: Final = "__debezium_unavailable_value"
_METADATA: Final = "provide.transaction.metadata"

_SETTINGS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "decimal": ("decimal.handling.mode", ("precise", "string"), "precise"),
    "time": ("time.precision.mode", ("adaptive", "adaptive_time_microseconds", "microseconds"), "adaptive"),
    "binary": ("binary.handling.mode", ("bytes", "base64", "base64-url-safe", "hex"), "bytes"),
    "interval": ("interval.handling.mode", ("numeric", "string"), "numeric"),
    "hstore": ("hstore.handling.mode", ("json", "map"), "json"),
}


@dataclass(frozen=True, slots=True)
class PostgresValues:
    """See carriage.EventValues. The modes are those of the connector's configuration; the defaults are Debezium's.

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
                why = ": it rounds numbers to some 16 digits" if modes[name] == "double" else ""
                raise SchemaError(
                    f"{setting}={modes[name]} cannot be decoded{why}", todo=f"Use one of {', '.join(known)}."
                )
        placeholder = config.get("unavailable.value.placeholder", PLACEHOLDER)
        return cls(**modes, placeholder=placeholder, numbered=is_true(config.get(_METADATA, "")))

    @property
    def way_out(self) -> str:
        """See carriage.EventValues."""
        return (
            "Let each change carry the long values of its row (ALTER TABLE … REPLICA IDENTITY FULL) and recover the table,"
            " or exclude the column on the connector."
        )

    def check_table(self, table: Table) -> None:
        """See carriage.EventValues. A table without a key needs numbered changes: else repeats cannot be recognised."""
        for column in table.mirrored:
            self.from_event(column, "v")
        if table.keyless and not self.numbered:
            raise SchemaError(
                "the table has no key, and its events are not numbered: rows that COPY writes at one place of the log"
                " could not be distinguished from repeats",
                where=f"table {table.full_name}",
                todo=f"Set {_METADATA}=true on the connector, or give the table a primary key.",
            )

    def from_event(self, column: Column, text: str) -> str:
        """See carriage.EventValues."""
        words, kind = words_of(column.native), column.value_type
        if isinstance(kind, Array):
            return self._array(column, kind.of, text)
        name = "enum" if words["type_kind"] == "e" else str(words["type"])
        return self._value(_Field(column, name, kind, text))

    def reads_as_null(self, column: Column, text: str) -> str:  # noqa: ARG002 - as carriage.EventValues asks
        """See carriage.EventValues: NULL is NULL."""
        return ""

    def why_not(self, column: Column) -> str:
        """See carriage.EventValues. The row is read again, as of every value that the event may show otherwise."""
        name = str(words_of(column.native)["type"])
        return "" if name in _SHORT else f"a long value that did not change is left out, and {MISREAD}"

    def _value(self, field: _Field) -> str:
        row = _EVENTS.get(field.type)
        if row is None or isinstance(field.kind, Unsupported):
            raise _refused(field.column, "Debezium's events do not carry it as the server writes it")
        return row(self, field)

    def _array(self, column: Column, of: LogicalType, text: str) -> str:
        """All or nothing: an element that is not a value of its type makes the array NULL.

        So does an array of only NULLs, because multi-dimensional arrays arrive like that.
        """
        words = words_of(column.native)
        name = "enum" if words.get("element_kind") == "e" else str(words["element"])
        if name not in _ELEMENTS:
            raise _refused(column, "Debezium's events do not carry such arrays as the server writes them")
        value = self._value(_Field(column, name, of, "e"))
        elements = f"from_json({text}, 'array<string>')"
        wrong = f"exists({elements}, e -> e IS NOT NULL AND ({value}) IS NULL)"
        nothing = f"size({elements}) > 0 AND forall({elements}, e -> e IS NULL)"
        codes = ", ".join(f"'{code}'" for code in self.placeholder.encode())  # its form in an array of numbers
        absent = f"{elements} <=> array({codes})"
        return f"IF({wrong} OR {nothing} OR {absent}, NULL, transform({elements}, e -> {value}))"


@dataclass(frozen=True, slots=True)
class _Field:
    """One value: its column, the name of its type, its logical type, and its raw JSON text."""

    column: Column
    type: str
    kind: LogicalType
    v: str


def _refused(column: Column, why: str, todo: str = "Exclude the column on the connector.") -> SchemaError:
    return SchemaError(f"{column.native.type}: {why}", where=f"column {column.name}", todo=todo)


def _mode_refused(field: _Field, setting: str, value: str, instead: str) -> SchemaError:
    why = f"{setting}={value} cannot carry it exactly"
    return _refused(field.column, why, f"Set {setting}={instead} on the connector.")


# --- numbers ---------------------------------------------------------------------------------------------------------


def _integer(_modes: PostgresValues, f: _Field) -> str:
    return f"try_cast({f.v} AS {'bigint' if f.type in {'int8', 'oid'} else 'int'})"


def _boolean(_modes: PostgresValues, f: _Field) -> str:
    return f"CASE {f.v} WHEN 'true' THEN true WHEN 'false' THEN false END"


def _numeric(modes: PostgresValues, f: _Field) -> str:
    if isinstance(f.kind, Text):  # each value has a scale of its own
        if modes.decimal != "string":
            raise _mode_refused(f, "decimal.handling.mode", modes.decimal, "string")
        words = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
        cases = " ".join(f"WHEN '{name}' THEN '{meant}'" for name, meant in words.items())
        exponent = f"{f.v} RLIKE '[eE]'"
        plain = f"IF({exponent}, NULL, {_present(modes, f)})"
        return f"CASE upper({f.v}) {cases} ELSE {plain} END"
    assert isinstance(f.kind, Decimal)  # noqa: S101 - the other logical type of a numeric
    p, s = f.kind.precision, f.kind.scale
    text = f"cdc_decimal_bytes({f.v}, {s})" if modes.decimal == "precise" else f"cdc_decimal_plain({f.v}, {s})"
    return text if p > _DECIMAL_DIGITS else f"try_cast({text} AS decimal({p},{s}))"


def _float4(_modes: PostgresValues, f: _Field) -> str:
    return f"CAST(try_cast({f.v} AS float) AS double)"


def _float8(_modes: PostgresValues, f: _Field) -> str:
    return f"try_cast({f.v} AS double)"


def _bits(_modes: PostgresValues, f: _Field) -> str:
    """bit(1) is true or false; a longer one arrives as bytes, the last bits first."""
    if not isinstance(f.kind, Bits):
        raise _refused(f.column, "bits in such numbers arrive without their length")
    if f.kind.size == 1:
        return f"CASE {f.v} WHEN 'true' THEN 1L WHEN 'false' THEN 0L END"
    value = f"try_to_binary({f.v}, 'base64')"
    digits = f"hex(rpad({value}, 8, X'00'))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in range(15, 0, -2))
    number = f"try_cast(conv(concat({pairs}), 16, 10) AS {'decimal(20,0)' if f.kind.size == 64 else 'bigint'})"
    return f"IF(octet_length({value}) <= 8, {number}, NULL)"


# --- dates and times -------------------------------------------------------------------------------------------------


def _date(_modes: PostgresValues, f: _Field) -> str:
    days = f"try_cast({f.v} AS int)"
    return f"IF({days} BETWEEN {_FIRST_DAY} AND {_LAST_DAY}, date_from_unix_date({days}), NULL)"


def _millis(modes: PostgresValues, f: _Field, *, of_day: bool) -> bool:
    """Whether a value is in milliseconds: depends on the mode, and on the column's declared precision."""
    digits = int(words_of(f.column.native).get("modifier", -1))
    adaptive = modes.time == "adaptive" or (modes.time == "adaptive_time_microseconds" and not of_day)
    return adaptive and 0 <= digits <= 3


def _time(modes: PostgresValues, f: _Field) -> str:
    number = f"try_cast({f.v} AS bigint)"
    return f"{number} * 1000" if _millis(modes, f, of_day=True) else number


def _timestamp(modes: PostgresValues, f: _Field) -> str:
    number, each = f"try_cast({f.v} AS bigint)", 1000 if _millis(modes, f, of_day=False) else 1
    inside = f"{number} BETWEEN {_FIRST_MICROS // each} AND {_LAST_MICROS // each}"
    return f"CAST(IF({inside}, timestamp_micros({number} * {each}), NULL) AS timestamp_ntz)"  # the session is in UTC


def _instant(_modes: PostgresValues, f: _Field) -> str:
    value = f"try_cast({f.v} AS timestamp)"
    return f"IF(unix_micros({value}) BETWEEN {_FIRST_MICROS} AND {_LAST_MICROS}, {value}, NULL)"


def _interval(modes: PostgresValues, f: _Field) -> str:
    if modes.interval != "string":
        raise _mode_refused(f, "interval.handling.mode", modes.interval, "string")
    return f.v


# --- text and bytes --------------------------------------------------------------------------------------------------


def _present(modes: PostgresValues, f: _Field) -> str:
    """The text; NULL if it is the placeholder."""
    quoted = modes.placeholder.replace("\\", "\\\\").replace("'", "\\'")
    return f"nullif({f.v}, '{quoted}')"


def _padded(modes: PostgresValues, f: _Field) -> str:
    """char(n) without its padding blanks, which carry no meaning."""
    return f"rtrim({_present(modes, f)})"


def _bytes(modes: PostgresValues, f: _Field) -> str:
    form = "hex" if modes.binary == "hex" else "base64"
    text = f"translate({f.v}, '-_', '+/')" if modes.binary == "base64-url-safe" else f.v
    placeholder = f"X'{modes.placeholder.encode().hex()}'"
    return f"nullif(try_to_binary({text}, '{form}'), {placeholder})"


def _hstore(modes: PostgresValues, f: _Field) -> str:
    if modes.hstore != "json":
        raise _mode_refused(f, "hstore.handling.mode", modes.hstore, "json")
    return f"IF(contains({f.v}, '{modes.placeholder}'), NULL, cdc_json_canonical({f.v}))"


_Event = Callable[[PostgresValues, _Field], str]

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
