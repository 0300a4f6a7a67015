"""Spark SQL's names and literals, and temporary views over frames for what has no DataFrame form."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


@contextmanager
def view_of(frame: DataFrame) -> Iterator[str]:
    """The name of a view over the frame; the view is dropped at the end of the block."""
    name = f"cdc_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
