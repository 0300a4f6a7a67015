"""A part of a table that both engines cut out alike: some of its leaves, or an interval of one of its columns.

Conditions stand on bare columns, so that MySQL reads a range of an index where there is one, and Iceberg skips files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.chunk import quote_ident, sql_literal
from airflow_cdc.core.compare.digest import (
    IntegerLeaves,
    LeafScheme,
    leaf_bounds,
    mysql_leaves_where,
    spark_leaves_where,
)
from airflow_cdc.core.errors import ConfigError

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import BackfillSpec
    from airflow_cdc.core.table import Column, Table

_TEXTS = frozenset({"char", "varchar"})
_MOMENTS = frozenset({"datetime", "timestamp"})


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows are compared.

    Attributes:
        mysql: condition for the source; "" means every row.
        spark: the same condition over the sink's columns.
        name: how people call it.
        scheme: the leaves that it is made of, so that the digest has the same ones; None: chosen by size.
    """

    mysql: str = ""
    spark: str = ""
    name: str = "all rows"
    scheme: LeafScheme | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole table."""
        return not self.mysql


WHOLE = Part()


def leaves_part(
    table: Table, scheme: LeafScheme, leaves: Iterable[int], *, below: int | None = None, above: int | None = None
) -> Part:
    """The rows of some leaves. `below`, `above`: and those before the one leaf, and after the other.

    Only integer leaves have rows beyond their ends; open ends belong to whoever has the first and the last leaf, so
    that all parts of a table together are the whole table.
    """
    chosen = sorted({*leaves})
    mysql = mysql_leaves_where(table, scheme, chosen)
    spark = spark_leaves_where(table, scheme, chosen)
    beyond = _beyond(scheme, below, above)
    return Part("".join((mysql, *beyond)), "".join((spark, *beyond)), f"{len(chosen)} leaves", scheme)


def _beyond(scheme: LeafScheme, below: int | None, above: int | None) -> list[str]:
    if not isinstance(scheme, IntegerLeaves):
        return []
    column = quote_ident(scheme.column)
    low = [] if below is None else [f" OR {column} < {leaf_bounds(scheme.width, below)[0]}"]
    high = [] if above is None else [f" OR {column} > {leaf_bounds(scheme.width, above)[1]}"]
    return low + high


def interval_part(table: Table, spec: BackfillSpec, start: dt.datetime, end: dt.datetime) -> Part:
    """The rows of `table` that belong to the interval [start, end), UTC, as the registry says (`backfill`).

    By a time column: its value lies in the interval. With `format`: the column is the interval's day, written so.
    With `step`: the keys [n * step, (n + 1) * step), n being the days from `origin` to the interval's start.
    Raises ConfigError for a column that cannot be cut so.
    """
    column = table.column(spec.by)
    name = f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    if spec.format:
        return _one_value(table, column, start.strftime(spec.format), name)
    if spec.step:
        return _keys(table, column, spec, start, name)
    return _moments(table, column, start, end, name)


def _one_value(table: Table, column: Column, value: str, name: str) -> Part:
    quoted = quote_ident(column.name)
    if column.is_integer and value.isdigit():
        return Part(f"{quoted} = {int(value)}", f"{quoted} = {int(value)}", name)
    if column.data_type not in _TEXTS:
        raise _unfit(table, column, "`format` needs a column of whole numbers, CHAR or VARCHAR")
    return Part(f"{quoted} = {sql_literal(value)}", f"{quoted} = '{_plain(value)}'", name)


def _plain(value: str) -> str:
    if not value.isascii() or set(value) & set("'\\"):
        raise ConfigError(f"{value!r} is not a plain value", where="backfill.format", todo="Use digits and dashes.")
    return value


def _keys(table: Table, column: Column, spec: BackfillSpec, start: dt.datetime, name: str) -> Part:
    if not column.is_integer:
        raise _unfit(table, column, "`step` needs a column of whole numbers")
    number = (start.date() - dt.date.fromisoformat(spec.origin)).days
    low, high = number * spec.step, (number + 1) * spec.step
    condition = f"{quote_ident(column.name)} >= {low} AND {quote_ident(column.name)} < {high}"
    return Part(condition, condition, f"{name}, {column.name} from {low} to {high - 1}")


def _moments(table: Table, column: Column, start: dt.datetime, end: dt.datetime, name: str) -> Part:
    quoted = quote_ident(column.name)
    if column.data_type == "date":
        condition = f"{quoted} >= DATE'{start:%Y-%m-%d}' AND {quoted} < DATE'{end:%Y-%m-%d}'"
        return Part(condition, condition, name)
    if column.data_type not in _MOMENTS:
        raise _unfit(table, column, "without `format` or `step` it needs a DATE, DATETIME or TIMESTAMP")
    low, high = (moment.strftime("%Y-%m-%d %H:%M:%S.%f") for moment in (start, end))
    mysql = f"{quoted} >= TIMESTAMP'{low}' AND {quoted} < TIMESTAMP'{high}'"
    kind = "TIMESTAMP" if column.data_type == "timestamp" else "TIMESTAMP_NTZ"
    return Part(mysql, f"{quoted} >= {kind}'{low}' AND {quoted} < {kind}'{high}'", name)


def _unfit(table: Table, column: Column, why: str) -> ConfigError:
    return ConfigError(
        f"{column.name} is {column.column_type}: {why}",
        where=f"backfill of {table.full_name}",
        todo="Name another column under `backfill: by`.",
    )
