"""Names and values in PostgreSQL's SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table


def quote_ident(name: str) -> str:
    """An identifier in double quotes."""
    if not name or "\0" in name:
        raise SchemaError(f"{name!r} is not a name", todo="Rename it at the source: PostgreSQL cannot hold it, either.")
    return '"' + name.replace('"', '""') + '"'


def quote_table(table: Table) -> str:
    """The source table's full name, quoted."""
    return f"{quote_ident(table.schema)}.{quote_ident(table.name)}"


def text_literal(text: str) -> str:
    r"""A text literal that means the same whatever standard_conforming_strings is: \ appears only in E'' strings."""
    if "\0" in text:
        raise SchemaError("a text of PostgreSQL cannot hold the character 0")
    quoted = "'" + text.replace("'", "''").replace("\\", "\\\\") + "'"
    return f"E{quoted}" if "\\" in text else quoted
