"""MySQL's types: their logical types, and how values are read so that both JDBC drivers return them unchanged.

This module only writes SQL for MySQL; it executes nothing.

Invalid dates (0000-00-00, 2020-02-31, year 0) are NULL in a nullable column and the epoch in a NOT NULL one:
that is what Debezium emits, and later an epoch in an event cannot be told from a real one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, NativeColumn
from airflow_cdc.core.types import (
    Bits,
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
    Unsupported,
)
from airflow_cdc.sources.errors import OTHER_DEFINITION
from airflow_cdc.sources.mysql.quoting import quote_ident

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WORDS = "mysql"  # whose type words a native column holds; MariaDB's are the same
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
SPATIAL = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
)  # fmt: skip
JDBC_DECIMAL_DIGITS = 38  # a DECIMAL with more digits is read as text
_PARENTHESES = re.compile(r"\([^)]*\)")
_UTF8 = "CHAR CHARACTER SET utf8mb4"


@dataclass(frozen=True, slots=True)
class MySqlWords:
    """MySQL's description of a column's type.

    Lengths are in characters (`char_length`) and bytes (`byte_length`); `fsp` is the number of fractional digits of a
    second. `expression` is the text of a generated column's expression; `labels` are those of ENUM and SET, in order.
    """

    data_type: str
    column_type: str
    charset: str | None = None
    collation: str | None = None
    char_length: int | None = None
    byte_length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    labels: tuple[str, ...] = ()
    srid: int | None = None
    expression: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_type", self.data_type.lower())
        object.__setattr__(self, "labels", tuple(self.labels))

    @property
    def unsigned(self) -> bool:
        """Whether the number is UNSIGNED; a label such as `enum('unsigned')` does not count."""
        return "unsigned" in self._plain or self.zerofill

    @property
    def zerofill(self) -> bool:
        """Whether MySQL pads the number with zeros when it prints it."""
        return "zerofill" in self._plain

    @property
    def _plain(self) -> list[str]:
        return [] if self.labels else _PARENTHESES.sub("", self.column_type.lower()).split()

    @property
    def is_integer(self) -> bool:
        """Whether the type is one of MySQL's integers (BIT and YEAR are not)."""
        return self.data_type in INTEGERS

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a DECIMAL."""
        return self.precision or 10, self.scale or 0

    def to_native(self) -> NativeColumn:
        """The words as a column stores them; those that MySQL does not give are left out."""
        words = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "column_type"}
        attributes = {name: word for name, word in words.items() if word not in (None, (), "")}
        return NativeColumn(WORDS, self.column_type, tuple(sorted(attributes.items())))


@lru_cache(maxsize=10_000)
def _words(native: NativeColumn) -> MySqlWords:
    if native.source != WORDS:
        raise SchemaError(
            f"{native.type} is a type of {native.source}, and is read as one of MySQL's",
            todo=OTHER_DEFINITION,
        )
    return MySqlWords(column_type=native.type, **dict(native.words))  # type: ignore[arg-type]


def words_of(column: Column) -> MySqlWords:
    """MySQL's words for a column. Raises SchemaError for a column of another kind of source."""
    return _words(column.native)


def mysql_column(
    name: str, ordinal: int, words: MySqlWords, *, nullable: bool = True, generated: bool = False
) -> Column:
    """A MySQL column. Which columns are `zoned` depends on the whole table: see `with_zones`."""
    row = _BY_NAME.get(words.data_type)
    kind = Unsupported() if row is None else row.logical(words)
    return Column(name, ordinal, kind, words.to_native(), nullable, generated)


def with_words(column: Column, **words: Any) -> Column:
    """The column with some of its words replaced, and with the type that follows from them."""
    changed = mysql_column(column.name, column.ordinal, replace(words_of(column), **words))
    return replace(column, type=changed.type, native=changed.native)


def with_zones(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns of a table; those generated from a TIMESTAMP, directly or not, are marked as zoned."""
    ordered, marked = sorted(columns, key=lambda c: c.ordinal), list[Column]()
    zoned = {c.name for c in ordered if isinstance(c.type, Instant) and not c.generated}
    for column in ordered:
        expression = words_of(column).expression
        own = column.generated and any(quote_ident(name) in expression for name in zoned)
        zoned |= {column.name} if own else set()
        marked.append(replace(column, zoned=own))
    return tuple(marked)


@dataclass(frozen=True, slots=True)
class MySqlType:
    """One row of the table: the types with these names.

    `logical(words)` gives the logical type; `read(words, c)` is the MySQL expression over the quoted column `c`.
    """

    names: tuple[str, ...]
    logical: Callable[[MySqlWords], LogicalType]
    read: Callable[[MySqlWords, str], str]


def read_sql(column: Column) -> str:
    """The MySQL select expression (without alias) whose value both JDBC drivers return unchanged."""
    return type_of(column).read(words_of(column), quote_ident(column.name))


def type_of(column: Column) -> MySqlType:
    """The row for the column's type; SchemaError for a type that is not in the table."""
    column.value_type  # noqa: B018 - raises an error that names an unknown type
    return _BY_NAME[words_of(column).data_type]


def _integer(words: MySqlWords) -> LogicalType:
    return Integer(INTEGERS[words.data_type], words.unsigned)


def _read_integer(words: MySqlWords, c: str) -> str:
    # some drivers return TINYINT(1) as a boolean or overflow on unsigned types, so all are cast to one wide type
    wide = words.data_type == "bigint" and words.unsigned
    return f"CAST({c} AS DECIMAL(20,0))" if wide else f"CAST({c} AS SIGNED)"


def _read_decimal(words: MySqlWords, c: str) -> str:
    if words.digits[0] <= JDBC_DECIMAL_DIGITS:
        return c
    return f"CAST({c} + 0 AS {_UTF8})" if words.zerofill else f"CAST({c} AS {_UTF8})"


def _read_real(_words: MySqlWords, c: str) -> str:
    # as text, FLOAT loses digits and DOUBLE(20,4) its last bits; a sum has no such limits
    return f"{c} + 0e0"


def _read_bits(words: MySqlWords, c: str) -> str:
    wide = (words.precision or 1) == 64
    return f"CAST({c} + 0 AS DECIMAL(20,0))" if wide else f"CAST({c} + 0 AS SIGNED)"


def _read_timestamp(_words: MySqlWords, c: str) -> str:
    # over a bare TIMESTAMP column this is the stored UTC value: no time zone, so no hour occurs twice
    return f"CAST(UNIX_TIMESTAMP({c}) * 1000000 AS SIGNED)"


def _read_time(_words: MySqlWords, c: str) -> str:
    return time_micros(c)


def time_micros(c: str) -> str:
    """MySQL: a TIME as signed microseconds (TIME_TO_SEC loses the sign of -00:00:00.5 and keeps MariaDB's fraction)."""
    seconds = f"ABS(TIME_TO_SEC({c})) DIV 1"
    return f"(IF({c} < CAST('00:00:00' AS TIME), -1, 1) * ({seconds} * 1000000 + MICROSECOND({c})))"


def _read_text(words: MySqlWords, c: str) -> str:
    # CONVERT also keeps the driver from reporting CHAR(n), which Spark would pad with blanks
    text = f"CONVERT({c} USING utf8mb4)"
    return f"RTRIM({text})" if words.data_type == "char" else text


def _read_label(_words: MySqlWords, c: str) -> str:
    return f"CAST({c} AS {_UTF8})"


def _read_spatial(_words: MySqlWords, c: str) -> str:
    return f"CAST({c} AS BINARY)"  # 4 bytes of SRID, then the stored WKB, with no axes swapped


def _always(kind: LogicalType) -> Callable[[MySqlWords], LogicalType]:
    return lambda _words: kind


def _as_is(_words: MySqlWords, value: str) -> str:
    return value


def _read(text: str) -> Callable[[MySqlWords, str], str]:
    return lambda _words, c: text.format(c=c)


TYPES: tuple[MySqlType, ...] = (
    MySqlType(tuple(INTEGERS), _integer, _read_integer),
    MySqlType(("decimal",), lambda words: Decimal(*words.digits), _read_decimal),
    MySqlType(("float",), _always(Float(32)), _read_real),
    MySqlType(("double",), _always(Float(64)), _read_real),
    MySqlType(("bit",), lambda words: Bits(words.precision or 1), _read_bits),
    MySqlType(("date",), _always(Date()), _read("DATE_FORMAT({c}, '%Y-%m-%d')")),
    MySqlType(("datetime",), _always(LocalDateTime()), _read("DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')")),
    MySqlType(("timestamp",), _always(Instant()), _read_timestamp),
    MySqlType(("time",), _always(Time()), _read_time),
    MySqlType(("year",), _always(Integer(16, unsigned=True)), _read("CAST({c} + 0 AS SIGNED)")),
    MySqlType(("char", "varchar", "tinytext", "text"), _always(Text()), _read_text),
    MySqlType(("mediumtext", "longtext"), _always(Text(long=True)), _read_text),
    MySqlType(("enum", "set"), _always(Text()), _read_label),
    MySqlType(("json",), _always(Json()), _read_label),
    MySqlType(("binary", "varbinary"), _always(Bytes()), _as_is),
    MySqlType(BLOBS, _always(Bytes(long=True)), _as_is),
    MySqlType(SPATIAL, _always(Geometry()), _read_spatial),
)

_BY_NAME: dict[str, MySqlType] = {name: row for row in TYPES for name in row.names}
