"""Spark SQL's names and literals."""

from __future__ import annotations


def quote_ident(name: str) -> str:
    """An identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def own_name(name: str) -> str:
    """A name for our own column beside a table's columns: it ends with a space, which no source column's name can."""
    return f"{name} "


def literal(text: str) -> str:
    """A text literal."""
    return f"'{quoted(text)}'"


def quoted(text: str) -> str:
    """The inside of a text literal."""
    return text.replace("\\", "\\\\").replace("'", "\\'")
