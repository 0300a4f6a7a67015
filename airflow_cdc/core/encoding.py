"""One row as text that MySQL and Spark write alike, and its SHA-256.

The text is `piece|piece|…` over the compared columns. NULL is the piece `N`; numbers and dates cannot hold the separator
or be `N`, text is written as `bytes|text`, bytes as hexadecimal, long values as their own SHA-256. So different rows
never give the same text: ('a|1', 'b') is `3|a|1|1|b`, ('a', '1|b') is `1|a|3|1|b`; NULL is `N`, '' is `0|`.

Its price over a plain concat_ws, which confuses such rows, is about a quarter of MySQL's time; a bitmap of the NULLs
in front costs more, because a date would be examined twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import time_micros, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_cdc.core.table import Column, Table

_NULL = "'N'"
_LONG_DIGITS = 18  # a number of so many digits fits a bigint


@dataclass(frozen=True, slots=True)
class Pieces:
    """How the types of these names are written.

    `mysql(col, c)` and `spark(col, c)` take the quoted column and give one or more expressions, which are all NULL
    exactly if the sink's value is (a zero date is). Of a NULL the first one is written as `N`, the others are left out.
    """

    names: tuple[str, ...]
    mysql: Callable[[Column, str], tuple[str, ...]]
    spark: Callable[[Column, str], tuple[str, ...]]


def mysql_row_hash(table: Table) -> str:
    """MySQL expression: hexadecimal SHA-256 of the row's encoding."""
    return f"SHA2({_mysql_text(pushed(table), _row)}, 256)"


def spark_row_hash(table: Table) -> str:
    """Spark expression over the sink's columns: the same text as `mysql_row_hash` for equal rows."""
    return f"sha2({_spark_text(pushed(table), _row)}, 256)"


def mysql_key_text(table: Table) -> str:
    """MySQL expression: the key as unambiguous text (the row's hash where there is no key)."""
    if table.keyless:
        return mysql_row_hash(table)
    return f"CONVERT({_mysql_text(table.key_columns, _key_row)} USING utf8mb4)"


def spark_key_text(table: Table) -> str:
    """Spark expression: the same text as `mysql_key_text`."""
    if table.keyless:
        return spark_row_hash(table)
    return _spark_text(table.key_columns, _key_row)


def spark_lanes(h: str) -> tuple[str, str]:
    """The first and the second 32 bits of a row hash, as bigint: a sum of them needs no decimal, which is dear in Spark."""
    return f"CAST(conv(substr({h}, 1, 8), 16, 10) AS bigint)", f"CAST(conv(substr({h}, 9, 8), 16, 10) AS bigint)"


def not_pushed(table: Table) -> tuple[tuple[str, str], ...]:
    """(column, reason) of compared columns outside the row hash: fetched and compared for all rows instead."""
    reason = "MySQL and the sink write JSON differently: compared in canonical form"
    return tuple((c.name, reason) for c in table.compared if c.data_type == "json")


def not_compared(table: Table) -> tuple[tuple[str, str], ...]:
    """(column, reason) of mirrored columns that no comparison covers."""
    reason = "generated from a TIMESTAMP: its value depends on the time zone of the session that reads or writes it"
    zoned = table.zoned
    return tuple((c.name, reason) for c in table.mirrored if c.name in zoned)


def pushed(table: Table) -> tuple[Column, ...]:
    """The columns of the row hash, in order."""
    left_out = {name for name, _ in not_pushed(table)}
    columns = tuple(c for c in table.compared if c.name not in left_out)
    if not columns:
        raise SchemaError("no column can be compared by hash", where=table.full_name)
    return columns


def _mysql_text(columns: Sequence[Column], row: Callable[[Column], Pieces]) -> str:
    pieces = []
    for column in columns:
        first, *rest = row(column).mysql(column, quote_ident(column.name))
        pieces += [f"IFNULL({first}, {_NULL})" if column.nullable else first, *rest]
    # one binary argument makes the whole text binary: no collations to reconcile, no character set conversion
    return f"CONCAT_WS(_binary'|', {', '.join(pieces)})"


def _spark_text(columns: Sequence[Column], row: Callable[[Column], Pieces]) -> str:
    pieces = []
    for column in columns:
        first, *rest = row(column).spark(column, quote_ident(column.name))
        # for NOT NULL columns too: a NULL in the sink must not look like a shorter row of the source
        pieces += [f"coalesce(CAST({first} AS string), {_NULL})", *rest]
    return f"concat_ws('|', {', '.join(pieces)})"


# --- the pieces ------------------------------------------------------------------------------------------------------


def _one(text: str) -> Callable[[Column, str], tuple[str, ...]]:
    return lambda _column, c: (text.format(c=c),)


def _mysql_integer(column: Column, c: str) -> tuple[str, ...]:
    # a YEAR of 0 prints as 0000, ZEROFILL pads
    padded = column.data_type == "year" or column.zerofill
    return (f"{c} + 0" if padded else c,)


def _mysql_bits(_column: Column, c: str) -> tuple[str, ...]:
    return (f"CAST({c} + 0 AS UNSIGNED)",)


def _mysql_decimal(column: Column, c: str) -> tuple[str, ...]:
    if _is_short(column):
        return (f"CAST({c} * {_unscaling(column)} AS SIGNED)",)
    return (f"{c} + 0" if column.zerofill else c,)


def _spark_decimal(column: Column, c: str) -> tuple[str, ...]:
    # as a whole number where it fits: Spark's decimal to text is the dearest piece of a row
    if _is_short(column):
        return (f"CAST({c} * {_unscaling(column)} AS bigint)",)
    return (c,)


def _mysql_real(_column: Column, c: str) -> tuple[str, ...]:
    # The 8 bytes of the number itself, out of a point's WKB, as 16 hexadecimal digits: how a DOUBLE is written as
    # text differs from one server series to the next. Adding 0 turns -0 into 0 and a FLOAT into its DOUBLE.
    return (f"HEX(REVERSE(SUBSTR(CAST(POINT({c} + 0e0, 0) AS BINARY), 10, 8)))",)


def _is_short(column: Column) -> bool:
    return (column.precision or 10) <= _LONG_DIGITS


def _unscaling(column: Column) -> int:
    return int(10 ** (column.scale or 0))


def _real_date(c: str, number: str, nullable: bool) -> tuple[str, ...]:
    # adding nothing makes MySQL build the date anew: 2020-02-31 moves, 2020-00-10 is NULL; year 0 is left to us
    real = f"{c} = {c} + INTERVAL 0 DAY AND {c} >= DATE'0001-01-01'"
    return (f"IF({real}, {number}, {'NULL' if nullable else 0})",)


def _mysql_date(column: Column, c: str) -> tuple[str, ...]:
    return _real_date(c, f"TO_DAYS({c}) - 719528", column.nullable)


def _mysql_datetime(column: Column, c: str) -> tuple[str, ...]:
    return _real_date(c, f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {c})", column.nullable)


def _mysql_timestamp(column: Column, c: str) -> tuple[str, ...]:
    value = f"CAST(UNIX_TIMESTAMP({c}) * 1000000 AS SIGNED)"
    return (f"NULLIF({value}, 0)" if column.nullable else value,)


def _mysql_text_pieces(column: Column, c: str) -> tuple[str, ...]:
    # the bytes of these character sets are UTF-8 already
    value = c if column.charset in {"utf8mb4", "utf8mb3", "utf8", "ascii"} else f"CONVERT({c} USING utf8mb4)"
    value = f"RTRIM({value})" if column.data_type == "char" else value
    return f"LENGTH({value})", value


def _mysql_label(_column: Column, c: str) -> tuple[str, ...]:
    value = f"CONVERT({c} USING utf8mb4)"
    return f"LENGTH({value})", value


def _mysql_long_text(_column: Column, c: str) -> tuple[str, ...]:
    return (f"SHA2(CONVERT({c} USING utf8mb4), 256)",)


_SPARK_TEXT = ("octet_length({c})", "{c}")


def _spark_text_pieces(_column: Column, c: str) -> tuple[str, ...]:
    return tuple(part.format(c=c) for part in _SPARK_TEXT)


def _mysql_spatial(_column: Column, c: str) -> tuple[str, ...]:
    return f"ST_SRID({c})", f"SHA2(SUBSTR(CAST({c} AS BINARY), 5), 256)"


def _spark_spatial(_column: Column, c: str) -> tuple[str, ...]:
    return f"{c}.srid", f"sha2({c}.wkb, 256)"


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_SPATIAL = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
)  # fmt: skip

_TABLE: tuple[Pieces, ...] = (
    Pieces(_INTEGERS, _mysql_integer, _one("{c}")),
    Pieces(("decimal",), _mysql_decimal, _spark_decimal),
    Pieces(("float", "double"), _mysql_real, _one("lpad(hex(cdc_double_bits({c})), 16, '0')")),
    Pieces(("bit",), _mysql_bits, _one("{c}")),
    Pieces(("date",), _mysql_date, _one("unix_date({c})")),
    Pieces(("datetime",), _mysql_datetime, _one("unix_micros(CAST({c} AS timestamp))")),
    Pieces(("timestamp",), _mysql_timestamp, _one("unix_micros({c})")),
    Pieces(("time",), lambda _column, c: (time_micros(c),), _one("{c}")),
    Pieces(("char", "varchar", "tinytext", "text"), _mysql_text_pieces, _spark_text_pieces),
    Pieces(("enum", "set"), _mysql_label, _spark_text_pieces),
    Pieces(("mediumtext", "longtext"), _mysql_long_text, _one("sha2({c}, 256)")),
    Pieces(("binary", "varbinary"), _one("HEX({c})"), _one("hex({c})")),
    # their own hash: twice the bytes in hexadecimal could pass max_allowed_packet, where CONCAT_WS gives NULL
    Pieces(("tinyblob", "blob", "mediumblob", "longblob"), _one("SHA2({c}, 256)"), _one("sha2({c}, 256)")),
    Pieces(_SPATIAL, _mysql_spatial, _spark_spatial),
)

_PIECES: dict[str, Pieces] = {name: row for row in _TABLE for name in row.names}

# In a key the value itself has to be there, so that the row can be found by it (sources/mysql/key_text.py).
_KEY_TABLE: tuple[Pieces, ...] = (
    Pieces(("mediumtext", "longtext"), _mysql_text_pieces, _spark_text_pieces),
    Pieces(("tinyblob", "blob", "mediumblob", "longblob"), _one("HEX({c})"), _one("hex({c})")),
)

_KEY_PIECES: dict[str, Pieces] = {name: row for row in _KEY_TABLE for name in row.names}


def _row(column: Column) -> Pieces:
    type_of(column)  # an unknown type is named by its own error
    return _PIECES[column.data_type]


def _key_row(column: Column) -> Pieces:
    type_of(column)
    return _KEY_PIECES.get(column.data_type, _PIECES[column.data_type])
