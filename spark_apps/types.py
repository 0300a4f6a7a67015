"""The Spark SQL type of each logical type: the types of a sink's columns and of decoded rows and events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    LocalDateTime,
    Time,
)

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column
    from airflow_cdc.core.types import LogicalType

DECIMAL_DIGITS = 38  # above it a decimal is text in the sink
UNSIGNED = "decimal(20,0)"
GEOMETRY = "struct<srid:int,wkb:binary>"


def sink_type(column: Column) -> str:
    """The Spark SQL type of the sink's column; SchemaError for a type that cannot be carried."""
    return spark_type(column.value_type)


def spark_type(kind: LogicalType) -> str:
    """The Spark SQL type of a logical type."""
    match kind:
        case Integer(bits, unsigned):
            return _whole_number(bits + unsigned)
        case Bits(size):
            return _whole_number(64 if size < 64 else 65)
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})" if precision <= DECIMAL_DIGITS else "string"
        case Array(of):
            return f"array<{spark_type(of)}>"
    return _PLAIN.get(type(kind), "string")


def _whole_number(bits: int) -> str:
    if bits <= 32:
        return "int"
    return "bigint" if bits <= 64 else UNSIGNED


# the others are text
_PLAIN: dict[type[LogicalType], str] = {
    Float: "double",
    Boolean: "boolean",
    Bytes: "binary",
    Date: "date",
    Time: "bigint",
    LocalDateTime: "timestamp_ntz",
    Instant: "timestamp",
    Geometry: GEOMETRY,
}


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type; LookupError for one that is not written without Spark."""
    if is_decimal(text):
        precision, scale = text[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[text]


def is_decimal(text: str) -> bool:
    """Whether a Spark SQL type is one of its decimals."""
    return text.startswith("decimal(")


_ARROW: Final[Mapping[str, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    GEOMETRY: pa.struct({"srid": pa.int32(), "wkb": pa.binary()}),
}


def arrow_rows(columns: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows as a table of the columns' sink types."""
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [pa.array(list(each), arrow_type(sink_type(one))) for one, each in zip(columns, values, strict=True)]
    return pa.table(arrays, [column.name for column in columns])
