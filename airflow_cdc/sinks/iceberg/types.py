"""Spark SQL type names as Iceberg types, for tables created without Spark."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from airflow_cdc.core.errors import SchemaError

PRIMITIVES: dict[str, type[IcebergType]] = {
    "boolean": BooleanType,
    "tinyint": IntegerType,
    "smallint": IntegerType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestamptzType,
    "timestamp_ntz": TimestampType,
}
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def iceberg_schema(columns: Sequence[tuple[str, str]]) -> Schema:
    """A schema of (column name, Spark SQL type); every column is optional.

    NOT NULL is not copied from the source, because a column may become nullable there at any time.
    Raises SchemaError for a type that Spark's Iceberg tables do not have.
    """
    ids = itertools.count(1)
    top = [(next(ids), name, text) for name, text in columns]
    return Schema(*(NestedField(number, name, iceberg_type(text, ids), required=False) for number, name, text in top))


def iceberg_type(text: str, ids: Iterator[int]) -> IcebergType:
    """One Spark SQL type, e.g. `decimal(20,0)`, `array<string>` or `struct<srid:int,wkb:binary>`."""
    plain = re.sub(r"\s*([<>:,()])\s*", r"\1", text.strip())
    word = plain.lower()
    if word in PRIMITIVES:
        return PRIMITIVES[word]()
    if match := DECIMAL.fullmatch(word):
        return DecimalType(int(match[1]), int(match[2]))
    if word.startswith("struct<") and word.endswith(">"):
        return StructType(*_fields(plain[len("struct<") : -1], ids))
    if word.startswith("array<") and word.endswith(">"):
        return ListType(next(ids), iceberg_type(plain[len("array<") : -1], ids), element_required=False)
    raise SchemaError(f"no Iceberg type for Spark type {text!r}", todo="Use one of the types of spark_apps/types.py.")


def _fields(text: str, ids: Iterator[int]) -> list[NestedField]:
    fields = []
    for part in _split(text):
        name, _, kind = part.partition(":")
        fields.append(NestedField(next(ids), name, iceberg_type(kind, ids), required=False))
    return fields


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts
