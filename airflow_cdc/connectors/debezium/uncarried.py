"""Values that a table may hold but the connector's events don't carry, with the SQL that finds a row with one.

Column types, character sets and modes that are known to lose values are refused by events/mysql.py and events/mysql_charsets.py.
The cases here depend on the rows: a column is fine until somebody stores such a value in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.events.mysql_charsets import doubt
from airflow_cdc.core.capture import Look
from airflow_cdc.core.types import Date, Json, LocalDateTime
from airflow_cdc.sources.mysql.quoting import quote_ident
from airflow_cdc.sources.mysql.types import WORDS, words_of
from airflow_cdc.sources.postgres.odd_values import odd_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_cdc.core.table import Column, Table

# bytes of MySQL's latin1 that have no character in Java's, so that all five arrive as one (connectors/debezium/events/mysql_charsets.py)
_LATIN1_BYTES = "81|8D|8F|90|9D"


def looks(table: Table, *, years_adjusted: bool, bytes_of_decimals: bool = False) -> Iterator[Look]:
    """The values to look for in the table's rows.

    `years_adjusted`: the connector's enable.time.adjuster. `bytes_of_decimals`: its decimal.handling.mode is precise, which
    has no form for NaN.
    """
    if not _of_mysql(table):
        yield from odd_values(table, nan_shows=not bytes_of_decimals)
        return
    for column in table.mirrored:
        if isinstance(column.type, Json) and not column.generated:
            yield _json(table, column)
        if isinstance(column.type, Date | LocalDateTime) and years_adjusted:
            yield _early_year(table, column)
        if column.name in table.key and words_of(column).charset == "latin1" and not words_of(column).labels:
            yield _latin1_key(table, column)


def _json(table: Table, column: Column) -> Look:
    # A value of MySQL's own is not equal to the string that it prints as. The patterns, which cost little, leave out
    # nearly all other rows: a time prints six digits of a second, bytes print their type.
    name = quote_ident(column.name)
    text = f"CAST({name} AS CHAR CHARACTER SET utf8mb4)"
    patterns = ("'%:__.______\"%'", "'%\"base64:type%'")
    alike = " OR ".join(f"{text} LIKE {pattern}" for pattern in patterns)
    return Look(
        table.full_name,
        column.name,
        f"({alike}) AND {name} <> CAST({text} AS JSON)",
        "JSON documents hold TIME, DATETIME or binary values of MySQL's own (as JSON_OBJECT makes of such columns),"
        " which Debezium writes otherwise than the server: it drops zeros of the second and the type of bytes, and"
        " garbles negative times",
        "Store them as text (DATE_FORMAT, CAST(… AS CHAR), TO_BASE64), or exclude the column on the connector.",
    )


def _early_year(table: Table, column: Column) -> Look:
    return Look(
        table.full_name,
        column.name,
        f"{quote_ident(column.name)} BETWEEN '0001-01-01' AND '0099-12-31 23:59:59.999999'",
        "dates lie before the year 100, which arrive as 1970 to 2069",
        "Set enable.time.adjuster=false on the connector.",
    )


def _latin1_key(table: Table, column: Column) -> Look:
    return Look(
        table.full_name,
        column.name,
        f"HEX({quote_ident(column.name)}) REGEXP '^(..)*({_LATIN1_BYTES})'",
        "keys hold the latin1 bytes 81, 8D, 8F, 90 or 9D, which Debezium makes one character (U+FFFD) of all: different"
        " rows would have one key",
        "Convert the column to utf8mb4, or remove the table from the pipeline.",
    )


def dated_columns(table: Table) -> tuple[str, ...]:
    """The table's columns of dates with a year, as `schema.table.column`."""
    if not _of_mysql(table):
        return ()
    kinds = {"year", "date", "datetime"}
    return tuple(f"{table.full_name}.{c.name}" for c in table.columns if words_of(c).data_type in kinds)


def doubted_columns(table: Table) -> tuple[str, ...]:
    """Columns with characters that cannot be read correctly from events, as `schema.table.column (character set)`."""
    if not _of_mysql(table):
        return ()
    return tuple(f"{table.full_name}.{c.name} ({words_of(c).charset})" for c in table.mirrored if doubt(c))


def _of_mysql(table: Table) -> bool:
    """Whether the columns are MySQL's or MariaDB's (described alike): this module concerns only these."""
    return all(column.native.source == WORDS for column in table.columns)
