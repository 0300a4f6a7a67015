"""A part of a table that every engine selects identically: some of its leaves, or an interval of one of its columns.

A part is a value; each engine writes it as a condition in its own SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.types import Date, Instant, Integer, LocalDateTime, Text
from airflow_cdc.decisions.compare.leaves import LeafScheme

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import BackfillSpec
    from airflow_cdc.core.table import Column, Table


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The rows of some leaves. `below`, `above`: also the rows before that leaf, and after that one.

    Only integer leaves have rows beyond their ends. They belong to the parts with the first and the last leaf, so that
    all parts of a table together are the whole table.
    """

    scheme: LeafScheme
    leaves: tuple[int, ...]
    below: int | None = None
    above: int | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """The rows with low <= column < high. The ends are numbers, days, or moments in UTC."""

    column: str
    low: int | dt.date | dt.datetime
    high: int | dt.date | dt.datetime


@dataclass(frozen=True, slots=True)
class OneValue:
    """The rows with one value in a column. A text value is ASCII without quotes or backslashes."""

    column: str
    value: int | str


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows are compared: `rows` None means every row. `name` is its name for people."""

    rows: LeafRows | Interval | OneValue | None = None
    name: str = "all rows"

    @property
    def whole(self) -> bool:
        """Whether it is the whole table."""
        return self.rows is None

    @property
    def scheme(self) -> LeafScheme | None:
        """The scheme its leaves come from, so that the digest uses the same leaves; None: choose by size."""
        return self.rows.scheme if isinstance(self.rows, LeafRows) else None


WHOLE = Part()


def leaves_part(
    scheme: LeafScheme, leaves: Iterable[int], *, below: int | None = None, above: int | None = None
) -> Part:
    """The rows of some leaves, and those beyond the ends as LeafRows describes."""
    chosen = tuple(sorted({*leaves}))
    return Part(LeafRows(scheme, chosen, below, above), f"{len(chosen)} leaves")


def interval_part(table: Table, spec: BackfillSpec, start: dt.datetime, end: dt.datetime) -> Part:
    """The rows of `table` that belong to the interval [start, end), UTC, by the registry's `backfill` setting.

    By a time column: its value lies in the interval. With `format`: the column is the interval's day in that format.
    With `step`: the keys [n * step, (n + 1) * step), n being the days from `origin` to the interval's start.
    Raises ConfigError for a column that cannot be used this way.
    """
    column = table.column(spec.by)
    name = f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    if spec.format:
        return _one_value(table, column, start.strftime(spec.format), name)
    if spec.step:
        return _keys(table, column, spec, start, name)
    return _moments(table, column, start, end, name)


def _one_value(table: Table, column: Column, value: str, name: str) -> Part:
    if isinstance(column.type, Integer) and value.isdigit():
        return Part(OneValue(column.name, int(value)), name)
    if column.type != Text():
        raise _unfit(table, column, "`format` needs a column of whole numbers, CHAR or VARCHAR")
    return Part(OneValue(column.name, _plain(value)), name)


def _plain(value: str) -> str:
    if not value.isascii() or set(value) & set("'\\"):
        raise ConfigError(f"{value!r} is not a plain value", where="backfill.format", todo="Use digits and dashes.")
    return value


def _keys(table: Table, column: Column, spec: BackfillSpec, start: dt.datetime, name: str) -> Part:
    if not isinstance(column.type, Integer):
        raise _unfit(table, column, "`step` needs a column of whole numbers")
    number = (start.date() - dt.date.fromisoformat(spec.origin)).days
    low, high = number * spec.step, (number + 1) * spec.step
    return Part(Interval(column.name, low, high), f"{name}, {column.name} from {low} to {high - 1}")


def _moments(table: Table, column: Column, start: dt.datetime, end: dt.datetime, name: str) -> Part:
    if isinstance(column.type, Date):
        return Part(Interval(column.name, start.date(), end.date()), name)
    if not isinstance(column.type, LocalDateTime | Instant):
        raise _unfit(table, column, "without `format` or `step` it needs a DATE, DATETIME or TIMESTAMP")
    return Part(Interval(column.name, start, end), name)


def _unfit(table: Table, column: Column, why: str) -> ConfigError:
    return ConfigError(
        f"{column.name} is {column.native.type}: {why}",
        where=f"backfill of {table.full_name}",
        todo="Name another column under `backfill: by`.",
    )
