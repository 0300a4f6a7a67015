"""Foreign keys that change rows of captured tables without a row in the log (INV 14)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.quoting import quote_ident
from airflow_cdc.sources.mysql.session import Session

_QUIET: Final = ("", "NO ACTION", "RESTRICT")
_NAME: Final = r"`((?:[^`]|``)+)`"
# a line of SHOW CREATE TABLE: what a comment or a default holds is never at the beginning of one
_KEY: Final = re.compile(
    rf"^ +CONSTRAINT {_NAME} FOREIGN KEY \(.*?\) REFERENCES (?:{_NAME}\.)?{_NAME} \([^()]*\)"
    r"(?: ON DELETE (?P<delete>[A-Z ]+?))?(?: ON UPDATE (?P<update>[A-Z ]+?))?,?$",
    re.MULTILINE,
)


def unlogged_cascades(session: Session, tables: Sequence[str]) -> tuple[str, ...]:
    """Foreign keys that change rows of these tables without a row event, "shop.items (shop.orders, DELETE CASCADE)"."""
    if not tables or session.version.can(Capability.CASCADES_LOGGED):
        return ()
    read = _listed if session.version.can(Capability.FOREIGN_KEYS_BY_SELECT) else _written
    return tuple(sorted(text for row in read(session, tables) if (text := _cascade(row))))


def keys_in(statement: str, schema: str, table: str) -> Iterator[dict[str, str]]:
    """The foreign keys in a SHOW CREATE TABLE of `schema`.`table`, with the rules that it states."""
    for match in _KEY.finditer(statement):
        yield {
            "own_schema": schema,
            "own_table": table,
            "parent_schema": (match[2] or schema).replace("``", "`"),
            "parent_table": match[3].replace("``", "`"),
            "on_delete": match["delete"] or "",
            "on_update": match["update"] or "",
        }


def _listed(session: Session, tables: Sequence[str]) -> Sequence[Mapping[str, object]]:
    where, args = _these("CONSTRAINT_SCHEMA", tables)
    return session.rows(
        "SELECT CONSTRAINT_SCHEMA AS own_schema, TABLE_NAME AS own_table, UNIQUE_CONSTRAINT_SCHEMA AS parent_schema,"
        " REFERENCED_TABLE_NAME AS parent_table, DELETE_RULE AS on_delete, UPDATE_RULE AS on_update"
        f" FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE {where}",
        args,
        doing="read the foreign keys",
    )


def _written(session: Session, tables: Sequence[str]) -> Iterator[Mapping[str, object]]:
    """Read the rules from the table definitions: other views show which tables have foreign keys, not what these do."""
    where, args = _these("TABLE_SCHEMA", tables)
    sql = f"SELECT DISTINCT TABLE_SCHEMA AS s, TABLE_NAME AS t FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL AND ({where})"
    for row in session.rows(sql, args, doing="read the foreign keys"):
        schema, table = str(row["s"]), str(row["t"])
        shown = session.row(
            f"SHOW CREATE TABLE {quote_ident(schema)}.{quote_ident(table)}", doing=f"read the foreign keys of {table}"
        )
        yield from keys_in(str(shown["Create Table"]), schema, table)


def _these(schema_column: str, tables: Sequence[str]) -> tuple[str, list[str]]:
    each = " OR ".join([f"({schema_column} = %s AND TABLE_NAME = %s)"] * len(tables))
    return each, [part for table in tables for part in (table.partition(".")[0], table.partition(".")[2])]


def _cascade(row: Mapping[str, object]) -> str:
    rules = [(verb, str(row[key])) for verb, key in (("DELETE", "on_delete"), ("UPDATE", "on_update"))]
    loud = [f"{verb} {rule}" for verb, rule in rules if rule not in _QUIET]
    parent = f"{row['parent_schema']}.{row['parent_table']}"
    return f"{row['own_schema']}.{row['own_table']} ({parent}, {', '.join(loud)})" if loud else ""
