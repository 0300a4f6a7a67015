"""How a column's values stand in a document's `_source`: exactly, whatever OpenSearch indexes of them.

JSON has one kind of number and no bytes, so decimals, dates and times are text there, bytes are base64, and so are the
numbers that are none (NaN and the infinities). Everything else is itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from airflow_cdc.spark_apps.driver.sql import literal, quote_ident

_AS_TEXT = (BinaryType, DateType, DecimalType, TimestampNTZType, TimestampType)


def stored_type(kind: DataType) -> DataType:
    """The Spark type of what is stored for a value of this type."""
    if isinstance(kind, ArrayType):
        return ArrayType(stored_type(kind.elementType))
    if isinstance(kind, StructType):
        return StructType([StructField(part.name, stored_type(part.dataType)) for part in kind.fields])
    return StringType() if isinstance(kind, _AS_TEXT) else kind


def stored(kind: DataType, value: str, depth: int = 0) -> str:
    """SQL: what is stored for the value of an expression."""
    text = f"CAST({value} AS string)"
    match kind:
        case BinaryType():
            return f"base64({value})"
        case DateType() | DecimalType():
            return text
        case TimestampNTZType():
            return f"replace({text}, ' ', 'T')"
        case TimestampType():
            return f"concat(replace({text}, ' ', 'T'), 'Z')"
    return _nested(kind, value, depth, stored)


def restored(kind: DataType, value: str, depth: int = 0) -> str:
    """SQL: the value that was stored; the inverse of `stored`."""
    match kind:
        case BinaryType():
            return f"unbase64({value})"
        case DateType() | DecimalType() | TimestampNTZType() | TimestampType():
            return f"CAST({value} AS {kind.simpleString()})"
    return _nested(kind, value, depth, restored)


def _nested(kind: DataType, value: str, depth: int, inner: Callable[[DataType, str, int], str]) -> str:
    if isinstance(kind, ArrayType):
        each = f"e{depth}"
        return f"transform({value}, {each} -> {inner(kind.elementType, each, depth + 1)})"
    if isinstance(kind, StructType):
        parts = (
            f"{literal(part.name)}, {inner(part.dataType, f'{value}.{quote_ident(part.name)}', depth)}"
            for part in kind.fields
        )
        return f"IF({value} IS NULL, NULL, named_struct({', '.join(parts)}))"
    return value


def to_json(value: object) -> object:
    """A stored value as JSON takes it: numbers that are none as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [to_json(one) for one in value]
    if hasattr(value, "asDict"):
        return {name: to_json(one) for name, one in value.asDict().items()}
    return value


def from_json(kind: DataType, value: Any) -> object:
    """The inverse of `to_json`, for a stored type."""
    if value is None:
        return None
    if isinstance(kind, DoubleType):
        return float(value)
    if isinstance(kind, ArrayType):
        return [from_json(kind.elementType, one) for one in value]
    if isinstance(kind, StructType):
        return {part.name: from_json(part.dataType, value.get(part.name)) for part in kind.fields}
    return value
