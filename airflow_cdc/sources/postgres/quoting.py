"""Names and values in PostgreSQL's SQL."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.compare.chunk import KeyValue


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


def sql_literal(value: KeyValue) -> str:
    """A literal that gets its type from the column it is compared with; bytes are of type bytea."""
    if isinstance(value, bool):
        raise SchemaError("a bool is not a key value", todo="read keys with key_select()")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, bytes):
        return f"pg_catalog.decode('{value.hex()}', 'hex')"
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else f"'{value}'::numeric"
    return f"'{value!r}'::float8" if math.isfinite(value) else f"'{_word(value)}'::float8"


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
