"""Table definitions from a MySQL server, identical on 8.0 and 9.x."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pymysql import MySQLError
from pymysql.connections import Connection
from pymysql.cursors import Cursor, DictCursor

from airflow_cdc.core.table import Column, Table
from airflow_cdc.names import split_name
from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from airflow_cdc.sources.mysql.ddl_text import unescaped
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.mysql.quoting import quote_ident
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column, with_zones
from airflow_cdc.sources.row import Row

# Columns are named in upper case, because 8.0 and 9.x print the names of a SELECT * differently.
_COLUMNS = """
SELECT c.TABLE_SCHEMA AS `schema`, c.TABLE_NAME AS `table`, c.COLUMN_NAME AS name, c.ORDINAL_POSITION AS ordinal,
  c.DATA_TYPE AS data_type, c.COLUMN_TYPE AS column_type, c.IS_NULLABLE AS is_nullable,
  c.CHARACTER_SET_NAME AS charset, c.COLLATION_NAME AS collation, c.CHARACTER_MAXIMUM_LENGTH AS char_length,
  c.CHARACTER_OCTET_LENGTH AS byte_length, c.NUMERIC_PRECISION AS `precision`, c.NUMERIC_SCALE AS scale,
  c.DATETIME_PRECISION AS fsp, c.EXTRA AS extra, c.GENERATION_EXPRESSION AS expression, {srid} AS srid
FROM information_schema.COLUMNS c JOIN information_schema.TABLES t
  ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE t.TABLE_TYPE = 'BASE TABLE' AND ({tables})
ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION
"""

_DEFAULTS = """
SELECT c.TABLE_SCHEMA AS `schema`, c.TABLE_NAME AS `table`, c.COLUMN_NAME AS name, c.COLUMN_DEFAULT AS value
FROM information_schema.COLUMNS c WHERE {tables}
"""
_PRIMARY = """
SELECT c.TABLE_SCHEMA AS `schema`, c.TABLE_NAME AS `table`, c.COLUMN_NAME AS name
FROM information_schema.STATISTICS c WHERE c.INDEX_NAME = 'PRIMARY' AND ({tables})
ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.SEQ_IN_INDEX
"""
_SOME = "(c.TABLE_SCHEMA = %s AND c.TABLE_NAME IN ({names}))"

_LABELLED = frozenset({"enum", "set"})
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)


def read_table_defs(conn: Connection[Cursor], tables: Iterable[str]) -> dict[str, Table]:
    """Definitions of "schema.table" names as the server has them now; a name that has no table is left out.

    The key is the PRIMARY KEY, else the first unique index over NOT NULL columns in the order of SHOW INDEX; Debezium
    chooses the same one. Raises SourceError if the server refuses.
    """
    wanted = [split_name(name) for name in tables]
    if not wanted:
        return {}
    try:
        with conn.cursor(DictCursor) as cursor:
            rows = _columns(cursor, wanted)
            primary = _primary_keys(cursor, list(rows))
            return {f"{s}.{t}": _table(cursor, s, t, columns, primary.get((s, t))) for (s, t), columns in rows.items()}
    except (MySQLError, OSError) as error:
        raise explain(error, where=_where(conn, wanted), doing="read the table definitions") from error


def read_defaults(conn: Connection[Cursor], tables: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """Table → column → its default as the server writes it (an expression as its text); None if it has none.

    Raises SourceError if the server refuses.
    """
    wanted = [split_name(name) for name in tables]
    defaults: dict[str, dict[str, str | None]] = {}
    if not wanted:
        return defaults
    try:
        with conn.cursor(DictCursor) as cursor:
            mariadb = _version(cursor).mariadb
            condition, values = _named(wanted)
            cursor.execute(_DEFAULTS.format(tables=condition), values)
            for row in map(Row, cursor.fetchall()):
                none = mariadb and row["value"] == "NULL"  # MariaDB quotes texts
                defaults.setdefault(f"{row['schema']}.{row['table']}", {})[row.text("name")] = (
                    None if none else row.text_or_null("value")
                )
    except (MySQLError, OSError) as error:
        raise explain(error, where=_where(conn, wanted), doing="read the columns' defaults") from error
    return defaults


def parse_labels(column_type: str) -> tuple[str, ...]:
    r"""Labels of `enum('a','it''s','b\\c')`, in order."""
    inside = column_type[column_type.find("(") + 1 : column_type.rfind(")")]
    return tuple(unescaped(match[1]) for match in _LABEL.finditer(inside))


def _where(conn: Connection[Cursor], wanted: Iterable[tuple[str, str]]) -> str:
    """The server, and the tables that were asked for."""
    return f"mysql {conn.host}:{conn.port}, tables {', '.join('.'.join(pair) for pair in wanted)}"


def _version(cursor: DictCursor) -> ServerVersion:
    cursor.execute("SELECT @@version AS version")
    return ServerVersion.parse(str((cursor.fetchone() or {})["version"]))


def _named(wanted: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    """A condition that only these (schema, table) pairs meet, and its values.

    A list of names uses an index; an OR of 2,000 pairs was tested against each column of the server.
    """
    names: dict[str, list[str]] = {}
    for schema, table in wanted:
        names.setdefault(schema, []).append(table)
    conditions = [_SOME.format(names=", ".join(["%s"] * len(tables))) for tables in names.values()]
    return " OR ".join(conditions), [text for schema, tables in names.items() for text in (schema, *tables)]


def _columns(cursor: DictCursor, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], list[Row]]:
    condition, values = _named(wanted)
    srid = "c.SRS_ID" if _version(cursor).can(Capability.SRS_ID_COLUMN) else "NULL"
    cursor.execute(_COLUMNS.format(tables=condition, srid=srid), values)
    by_table: dict[tuple[str, str], list[Row]] = {}
    for row in map(Row, cursor.fetchall()):
        by_table.setdefault((row.text("schema"), row.text("table")), []).append(row)
    return by_table


def _primary_keys(cursor: DictCursor, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(schema, table) → columns of its primary key, if it has one; one query for all tables."""
    if not wanted:
        return {}
    condition, values = _named(wanted)
    cursor.execute(_PRIMARY.format(tables=condition), values)
    keys: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in map(Row, cursor.fetchall()):
        place = (row.text("schema"), row.text("table"))
        keys[place] = (*keys.get(place, ()), row.text("name"))
    return keys


def _table(cursor: DictCursor, schema: str, name: str, rows: Sequence[Row], key: tuple[str, ...] | None) -> Table:
    """`key`: its primary key. None: it has none, so its other indexes are read, whose order only SHOW INDEX gives."""
    if key is None:
        cursor.execute(f"SHOW INDEX FROM {quote_ident(schema)}.{quote_ident(name)}")
        key = _key(map(Row, cursor.fetchall()))
    return Table(schema, name, with_zones(_column(row) for row in rows), key)


def _column(row: Row) -> Column:
    data_type, column_type = row.text("data_type").lower(), row.text("column_type")
    # DEFAULT_GENERATED only says that the default is an expression
    generated = "GENERATED" in row.text("extra").upper().replace("DEFAULT_GENERATED", "")
    words = MySqlWords(
        data_type=data_type,
        column_type=column_type,
        charset=row.text_or_null("charset"),
        collation=row.text_or_null("collation"),
        char_length=row.number_or_null("char_length"),
        byte_length=row.number_or_null("byte_length"),
        precision=row.number_or_null("precision"),
        scale=row.number_or_null("scale"),
        fsp=row.number_or_null("fsp"),
        labels=parse_labels(column_type) if data_type in _LABELLED else (),
        srid=row.number_or_null("srid"),
        expression=row.text("expression"),
    )
    nullable = row["is_nullable"] == "YES"
    return mysql_column(row.text("name"), row.number("ordinal"), words, nullable=nullable, generated=generated)


def _key(rows: Iterable[Row]) -> tuple[str, ...]:
    unique: dict[str, list[Row]] = {}
    for row in rows:
        if not row["Non_unique"]:
            unique.setdefault(row.text("Key_name"), []).append(row)
    for name in ("PRIMARY", *unique):
        parts = sorted(unique.get(name, ()), key=lambda row: row.number("Seq_in_index"))
        # an expression has no column name; with a nullable part, equal rows may exist twice
        if parts and all(row["Column_name"] and row["Null"] != "YES" for row in parts):
            return tuple(row.text("Column_name") for row in parts)
    return ()
