"""Names and literals in MySQL's SQL."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.compare.chunk import KeyValue


def quote_ident(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quote_table(table: Table) -> str:
    """The source table's full name, quoted."""
    return f"{quote_ident(table.schema)}.{quote_ident(table.name)}"


def quote_full(name: str) -> str:
    """`schema.table`, quoted."""
    schema, _, table = name.partition(".")
    return f"{quote_ident(schema)}.{quote_ident(table)}"


def sql_literal(value: KeyValue | None) -> str:
    """A MySQL literal that means the same under every sql_mode and connection character set.

    Text is written in hexadecimal with its character set, so no quote or backslash can end it early.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool | dt.datetime | dt.date | dt.time | dt.timedelta):
        raise SchemaError(f"a {type(value).__name__} is not a key value", todo="read keys with key_select()")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"_utf8mb4 X'{value.encode().hex()}'"
    if isinstance(value, bytes):
        return f"_binary X'{value.hex()}'"
    if isinstance(value, Decimal):
        return format(value, "f")
    if not math.isfinite(value):
        raise SchemaError(f"{value!r} has no literal")
    text = repr(value)
    return text if "e" in text else f"{text}e0"  # 1.5 alone would be a DECIMAL
