"""Values of PostgreSQL as they come over JDBC, made values of the sink: Spark SQL over what `read_sql` selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.types import Array, Boolean, Bytes, Date, Instant, Json, LocalDateTime, LogicalType, Text, Uuid
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.types import sink_type, spark_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_cdc.core.table import Column


def from_read(column: Column, value: str | None = None) -> str:
    """Spark expression from what `read_sql` selected (default: the column of that name) to the sink type."""
    kind, v = column.value_type, value or quote_ident(column.name)
    if isinstance(kind, Array):
        return f"transform(from_json({v}, 'array<string>'), e -> {_element(kind.of)})"
    return _FORMS[type(kind)](v) if type(kind) in _FORMS else f"CAST({v} AS {sink_type(column)})"


def _element(kind: LogicalType) -> str:
    """An element `e`, which is text, in the form of its type."""
    if isinstance(kind, Bytes):
        return "unhex(e)"
    if isinstance(kind, Date | LocalDateTime | Instant):
        return _FORMS[type(kind)](f"CAST(e AS {'int' if isinstance(kind, Date) else 'bigint'})")
    return "e" if isinstance(kind, Text | Uuid) else f"CAST(e AS {spark_type(kind)})"


_FORMS: dict[type[LogicalType], Callable[[str], str]] = {
    Date: lambda v: f"date_from_unix_date({v})",
    LocalDateTime: lambda v: f"CAST(timestamp_micros({v}) AS timestamp_ntz)",  # the session is in UTC
    Instant: lambda v: f"timestamp_micros({v})",
    Json: lambda v: f"cdc_json_canonical({v})",
    Text: lambda v: v,
    Uuid: lambda v: v,
    Bytes: lambda v: v,
    Boolean: lambda v: v,
}
