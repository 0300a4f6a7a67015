"""Temporary views over frames, for SQL that has no DataFrame form."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def view_of(frame: DataFrame) -> Iterator[str]:
    """The name of a view over the frame; the view is dropped at the end of the block."""
    name = f"cdc_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
