"""The Arrow type of each logical type: what a decoded row's columns hold."""

from __future__ import annotations

from typing import Final

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
    LogicalType,
    Time,
)
from airflow_cdc.events.value import DECIMAL_DIGITS

_UNSIGNED: Final = pa.decimal128(20, 0)


def arrow_of(kind: LogicalType) -> pa.DataType:
    """The Arrow type of a logical type. Texts, and what is kept as one, are strings."""
    match kind:
        case Integer(bits, unsigned):
            return _whole(bits + unsigned)
        case Bits(size):
            return _whole(64 if size < 64 else 65)
        case Decimal(precision, scale) if precision <= DECIMAL_DIGITS:
            return pa.decimal128(precision, scale)
        case Array(of):
            return pa.list_(arrow_of(of))
    return _PLAIN.get(type(kind), pa.string())


def _whole(bits: int) -> pa.DataType:
    if bits <= 32:
        return pa.int32()
    return pa.int64() if bits <= 64 else _UNSIGNED


_PLAIN: Final[dict[type[LogicalType], pa.DataType]] = {
    Float: pa.float64(),
    Boolean: pa.bool_(),
    Bytes: pa.binary(),
    Date: pa.date32(),
    Time: pa.int64(),
    LocalDateTime: pa.timestamp("us"),
    Instant: pa.timestamp("us", "UTC"),
    Geometry: pa.struct({"srid": pa.int32(), "wkb": pa.binary()}),
}
