"""Convert MySQL's values from JDBC to values of the sink: Spark SQL over what `read_sql` selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.types import Bytes, Date, Geometry, Instant, Json, LocalDateTime, Text
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_cdc.core.table import Column
    from airflow_cdc.core.types import LogicalType


def from_read(column: Column, value: str | None = None) -> str:
    """Spark expression from what `read_sql` selected (default: the column of that name) to the sink type."""
    return _CONVERSIONS.get(type(column.value_type), _cast)(column, value or quote_ident(column.name))


def _or_epoch(column: Column, value: str, epoch: str) -> str:
    return value if column.nullable else f"coalesce({value}, {epoch})"


def _convert_date(column: Column, v: str) -> str:
    value = f"IF({v} < '0001', NULL, try_cast({v} AS date))"
    date_sql = _or_epoch(column, value, "DATE'1970-01-01'")
    return f"IF({v} IS NULL, NULL, {date_sql})"


def _convert_datetime(column: Column, v: str) -> str:
    value = f"IF({v} < '0001', NULL, try_cast({v} AS timestamp_ntz))"
    datetime_sql = _or_epoch(column, value, "TIMESTAMP_NTZ'1970-01-01 00:00:00'")
    return f"IF({v} IS NULL, NULL, {datetime_sql})"


def _convert_timestamp(column: Column, v: str) -> str:
    # 0 is not a valid TIMESTAMP (they begin at 1970-01-01 00:00:01): only the zero date is read as 0
    return f"timestamp_micros({f'nullif({v}, 0L)' if column.nullable else v})"


def _convert_json(column: Column, v: str) -> str:
    del column
    return f"cdc_json_canonical({v})"


def _convert_spatial(column: Column, v: str) -> str:
    del column
    digits = f"hex(substr({v}, 1, 4))"
    pairs = ", ".join(f"substr({digits}, {at}, 2)" for at in (7, 5, 3, 1))
    srid = f"CAST(conv(concat({pairs}), 16, 10) AS int)"
    return f"IF({v} IS NULL, NULL, named_struct('srid', {srid}, 'wkb', substr({v}, 5)))"


def _as_is(_column: Column, value: str) -> str:
    return value


def _cast(column: Column, value: str) -> str:
    return f"CAST({value} AS {sink_type(column)})"


_CONVERSIONS: dict[type[LogicalType], Callable[[Column, str], str]] = {
    Date: _convert_date,
    LocalDateTime: _convert_datetime,
    Instant: _convert_timestamp,
    Text: _as_is,
    Bytes: _as_is,
    Json: _convert_json,
    Geometry: _convert_spatial,
}
