"""The canonical text of rows (see decisions/compare/canonical.py) in MySQL's SQL, and digests over it.

MySQL adds up 64 bits of the hashes at a time, so that it computes each hash only once.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Bytes, Decimal, Text
from airflow_cdc.decisions.compare.canonical import LONG_DIGITS, hashed, outside_hash
from airflow_cdc.decisions.compare.leaves import LANE, IntegerLeaves, KeyHash
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.row_sql import RowSql, both, where
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table, sql_literal
from airflow_cdc.sources.mysql.sql import key_predicate
from airflow_cdc.sources.mysql.types import (
    BLOBS,
    INTEGERS,
    SPATIAL,
    TEXTS,
    read_sql,
    time_micros,
    type_of,
    words_of,
)

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.leaves import LeafScheme
    from airflow_cdc.decisions.compare.part import Part
    from airflow_cdc.decisions.compare.row_sql import PartValue

_NULL = "'N'"
# (column, its quoted name) → one or more expressions. All are NULL exactly if the sink's value is NULL (a zero date
# is). For a NULL the first one is written as `N` and the others are omitted.
_Pieces = Callable[["Column", str], tuple[str, ...]]


def row_hash(table: Table) -> str:
    """MySQL expression: hexadecimal SHA-256 of the row's text."""
    return f"SHA2({_text(hashed(table), _PIECES)}, 256)"


def key_text(table: Table) -> str:
    """MySQL expression: the key's text (the row's hash where there is no key)."""
    if table.keyless:
        return row_hash(table)
    return f"CONVERT({_text(table.key_columns, _KEY_PIECES)} USING utf8mb4)"


def _text(columns: Sequence[Column], pieces_of: Mapping[str, _Pieces]) -> str:
    pieces = []
    for column in columns:
        type_of(column)  # raises an error that names an unknown type
        first, *rest = pieces_of[words_of(column).data_type](column, quote_ident(column.name))
        pieces += [f"IFNULL({first}, {_NULL})" if column.nullable else first, *rest]
    # one binary argument makes the whole text binary, so no collations clash and no character set is converted
    return f"CONCAT_WS(_binary'|', {', '.join(pieces)})"


# --- the pieces ------------------------------------------------------------------------------------------------------


def _one(text: str) -> Callable[[Column, str], tuple[str, ...]]:
    return lambda _column, c: (text.format(c=c),)


def _integer(column: Column, c: str) -> tuple[str, ...]:
    # a YEAR of 0 prints as 0000, and ZEROFILL pads numbers
    words = words_of(column)
    padded = words.data_type == "year" or words.zerofill
    return (f"{c} + 0" if padded else c,)


def _bits(_column: Column, c: str) -> tuple[str, ...]:
    return (f"CAST({c} + 0 AS UNSIGNED)",)


def _decimal(column: Column, c: str) -> tuple[str, ...]:
    # by the type, which a comparison with another database's column may have widened
    kind = column.type
    if isinstance(kind, Decimal) and kind.precision <= LONG_DIGITS:
        return (f"CAST({c} * {10**kind.scale} AS SIGNED)",)
    return (f"{c} + 0" if words_of(column).zerofill else c,)


def _real(_column: Column, c: str) -> tuple[str, ...]:
    # The 8 bytes of the number as 16 hexadecimal digits, taken from a point's WKB: the text of a DOUBLE
    # differs between server series. Adding 0 turns -0 into 0 and a FLOAT into its DOUBLE.
    return (f"HEX(REVERSE(SUBSTR(CAST(POINT({c} + 0e0, 0) AS BINARY), 10, 8)))",)


def _real_date(c: str, number: str, nullable: bool) -> tuple[str, ...]:
    # adding nothing makes MySQL normalise the date: 2020-02-31 moves, 2020-00-10 becomes NULL; year 0 is ours to handle
    real = f"{c} = {c} + INTERVAL 0 DAY AND {c} >= DATE'0001-01-01'"
    return (f"IF({real}, {number}, {'NULL' if nullable else 0})",)


def _date(column: Column, c: str) -> tuple[str, ...]:
    return _real_date(c, f"TO_DAYS({c}) - 719528", column.nullable)


def _datetime(column: Column, c: str) -> tuple[str, ...]:
    return _real_date(c, f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {c})", column.nullable)


def _timestamp(column: Column, c: str) -> tuple[str, ...]:
    value = f"CAST(UNIX_TIMESTAMP({c}) * 1000000 AS SIGNED)"
    return (f"NULLIF({value}, 0)" if column.nullable else value,)


def _text_pieces(column: Column, c: str) -> tuple[str, ...]:
    if isinstance(column.type, Text) and column.type.long:
        return (f"SHA2(CONVERT({c} USING utf8mb4), 256)",)
    return _whole_text(column, c)


def _whole_text(column: Column, c: str) -> tuple[str, ...]:
    # the bytes in these character sets are already UTF-8
    value = c if words_of(column).charset in {"utf8mb4", "utf8mb3", "utf8", "ascii"} else f"CONVERT({c} USING utf8mb4)"
    value = f"RTRIM({value})" if words_of(column).data_type == "char" else value
    return f"LENGTH({value})", value


def _label(_column: Column, c: str) -> tuple[str, ...]:
    value = f"CONVERT({c} USING utf8mb4)"
    return f"LENGTH({value})", value


def _bytes(column: Column, c: str) -> tuple[str, ...]:
    # hashed first: hexadecimal text of twice the size could exceed max_allowed_packet, where CONCAT_WS gives NULL
    long = isinstance(column.type, Bytes) and column.type.long
    return (f"SHA2({c}, 256)" if long else f"HEX({c})",)


def _spatial(_column: Column, c: str) -> tuple[str, ...]:
    return f"ST_SRID({c})", f"SHA2(SUBSTR(CAST({c} AS BINARY), 5), 256)"


_TABLE: tuple[tuple[tuple[str, ...], _Pieces], ...] = (
    ((*INTEGERS, "year"), _integer),
    (("decimal",), _decimal),
    (("float", "double"), _real),
    (("bit",), _bits),
    (("date",), _date),
    (("datetime",), _datetime),
    (("timestamp",), _timestamp),
    (("time",), lambda _column, c: (time_micros(c),)),
    (TEXTS, _text_pieces),
    (("enum", "set"), _label),
    (("binary", "varbinary", *BLOBS), _bytes),
    (SPATIAL, _spatial),
)

_PIECES: dict[str, _Pieces] = {name: pieces for names, pieces in _TABLE for name in names}

# A key must contain the value itself, so that the row can be found by it.
_KEY_PIECES: dict[str, _Pieces] = {
    **_PIECES,
    **dict.fromkeys(TEXTS, _whole_text),
    **dict.fromkeys(("binary", "varbinary", *BLOBS), _one("HEX({c})")),
}


# --- digests ---------------------------------------------------------------------------------------------------------


def has_ranges(table: Table) -> bool:
    """Whether leaves are ranges of the first key column. Not so for a YEAR: MySQL takes 20 for 2020."""
    return bool(table.key) and words_of(table.key_columns[0]).is_integer


def bounds_sql(table: Table) -> str:
    """(lo, hi) of the first key column read at both ends of its index; NULLs for an empty table."""
    column = quote_ident(table.key_columns[0].name)
    return f"SELECT MIN({column}) AS lo, MAX({column}) AS hi FROM {quote_table(table)}"


class MySqlRows(RowSql):
    """The row expressions of a comparison, in MySQL's SQL."""

    quote_ident = staticmethod(quote_ident)
    key_text = staticmethod(key_text)
    row_hash = staticmethod(row_hash)

    def leaf(self, scheme: LeafScheme, table: Table) -> str:
        if isinstance(scheme, IntegerLeaves):
            return f"CAST({quote_ident(scheme.column)} DIV {scheme.width} AS SIGNED)"
        text = key_text(table)
        sha = f"CAST(CONV(SUBSTR(SHA2({text}, 256), 1, 8), 16, 10) AS UNSIGNED)"
        number = f"CRC32({text})" if scheme.by is KeyHash.CRC32 else sha
        return f"CAST({number} % {scheme.n} AS SIGNED)"

    def literal(self, column: Column, value: PartValue) -> str:
        del column  # literals carry their own type
        if isinstance(value, dt.datetime):
            return f"TIMESTAMP'{value:%Y-%m-%d %H:%M:%S.%f}'"
        return f"DATE'{value:%Y-%m-%d}'" if isinstance(value, dt.date) else sql_literal(value)

    def operand(self, column: Column) -> str:
        """The column to compare; a YEAR as a number, because as a YEAR 20 would mean 2020."""
        name = quote_ident(column.name)
        return f"({name} + 0)" if words_of(column).data_type == "year" else name


ROWS = MySqlRows()


def digest_sql(table: Table, scheme: LeafScheme, part: Part = WHOLE) -> str:
    """One scan → rows (leaf, n, lane1, lane2)."""
    number = f"CAST(CONV(SUBSTR({row_hash(table)}, 1, 16), 16, 10) AS UNSIGNED)"
    # GROUP BY position: a name would mean the table's column of that name, if it has one
    sums = (
        f"SELECT {ROWS.leaf(scheme, table)} AS leaf, COUNT(*) AS n, SUM({number}) AS total"
        f" FROM {quote_table(table)}{where(ROWS.part_where(table, part))} GROUP BY 1"
    )
    return (
        f"SELECT leaf, n, total DIV {LANE} AS lane1, CAST(total MOD {LANE} AS UNSIGNED) AS lane2 FROM ({sums}) AS sums"
    )


def rows_sql(table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE) -> str:
    """(key_text, h) of every row in these leaves; a keyless row's key_text is its hash."""
    inside = both(ROWS.leaves_where(table, scheme, leaves), ROWS.part_where(table, part))
    return f"SELECT {ROWS.columns(table)} FROM {quote_table(table)} WHERE {inside}"


def keys_sql(table: Table, keys: Iterable[str]) -> str:
    """(key_text, h) of the rows with these key texts, found through the key's index (keyless: by a scan).

    Under a case-insensitive collation it may return other keys too, so check key_text.
    """
    if table.keyless:
        hashes = ", ".join(f"'{h}'" for h in sorted({*keys}) if _checked_hash(h))
        condition = f"{row_hash(table)} IN ({hashes})" if hashes else "FALSE"
    else:
        condition = key_predicate(table, keys)
    return f"SELECT {ROWS.columns(table)} FROM {quote_table(table)} WHERE {condition}"


def outside_sql(table: Table, part: Part = WHOLE) -> str:
    """key_text and x0, x1 …: the values of the columns outside the hash, for the comparison of all rows.

    Read it through JDBC; each column is selected as in `read_sql`.
    """
    columns = "".join(f", {read_sql(table.column(name))} AS x{at}" for at, name in enumerate(outside_hash(table)))
    return (
        f"SELECT {key_text(table)} AS key_text{columns} FROM {quote_table(table)}{where(ROWS.part_where(table, part))}"
    )


def _checked_hash(text: str) -> bool:
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise SchemaError(f"not a row hash: {text!r}")
    return True
