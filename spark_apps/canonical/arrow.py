"""The canonical text of rows over Arrow's columns, by the reference, which no engine's SQL shares code with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.types import Float, Geometry
from airflow_cdc.decisions.compare.canonical import SEPARATOR, hashed, in_key, outside_hash, text_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.core.types import LogicalType
    from airflow_cdc.decisions.compare.verdict import Image

_AT_ONCE: Final = 20_000  # rows whose values are Python's at a time


def key_texts(table: Table, rows: pa.Table) -> list[str]:
    """The key of each row, as the comparison writes it."""
    return [text.decode() for text in _texts(rows, table.key_columns, in_key)]


def images(table: Table, rows: pa.Table) -> list[Image]:
    """The hash of each row, and its columns outside the hash."""
    return list(zip(row_hashes(table, rows), *(rows[name].to_pylist() for name in outside_hash(table)), strict=True))


def row_hashes(table: Table, rows: pa.Table) -> list[str]:
    """Hexadecimal SHA-256 of each row's text."""
    parts = (rows.slice(at, _AT_ONCE) for at in range(0, rows.num_rows, _AT_ONCE))
    return [hashlib.sha256(text).hexdigest() for part in parts for text in _texts(part, hashed(table))]


def _texts(
    rows: pa.Table, columns: Sequence[Column], as_written: Callable[[LogicalType], LogicalType] = lambda kind: kind
) -> Iterable[bytes]:
    """The text of each row over these columns."""
    texts = []
    for column in columns:
        write, values = text_of(as_written(column.value_type)), rows[column.name].to_pylist()
        plain = map(_plain, values) if isinstance(column.value_type, Float | Geometry) else values
        texts.append([write(value) for value in plain])
    return map(SEPARATOR.join, zip(*texts, strict=True))


def _plain(value: object) -> object:
    """A value as the reference takes it. Raises ValueError for NaN, of which there are many."""
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("NaN")
    return (value["srid"], value["wkb"]) if isinstance(value, Mapping) else value
