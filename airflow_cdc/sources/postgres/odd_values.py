"""Values that PostgreSQL's types allow and the sink's don't, with the SQL that finds a row with one.

The statement that reads such a row fails (types.py). So they are looked for before a recovery stops the connector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.capture import Look
from airflow_cdc.core.types import Array, Decimal
from airflow_cdc.sources.postgres.quoting import quote_ident
from airflow_cdc.sources.postgres.types import WORDS, out_of_range, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_cdc.core.table import Column, Table

WAYS_OUT: Final = (
    "Change the value, leave out the column (column.exclude.list on the connector), or leave out the table"
    " (remove it from source.tables in pipelines.yaml)."
)


@dataclass(frozen=True, slots=True)
class Odd:
    """A kind of value: a condition in SQL for it, what it is, and whether an event with it can be seen to hold it."""

    condition: str
    what: str
    shows: bool = True


def odd_values(table: Table, *, nan_shows: bool) -> Iterator[Look]:
    """What to look for in the table's rows; nothing in a table of another source.

    `nan_shows`: whether NaN arrives as something that is no decimal, and not as NULL.
    """
    if any(column.native.source != WORDS for column in table.columns):
        return
    for column in table.mirrored:
        if odd := _odd(column, quote_ident(column.name), nan_shows=nan_shows):
            yield Look(table.full_name, column.name, odd.condition, odd.what, WAYS_OUT, noticed=odd.shows)


def _odd(column: Column, name: str, *, nan_shows: bool) -> Odd | None:
    if isinstance(column.value_type, Array):
        return Odd(f"pg_catalog.array_ndims({name}) > 1", "arrays have several dimensions, and the sink's have one")
    if isinstance(column.value_type, Decimal) and words_of(column.native)["type"] == "numeric":
        return Odd(f"{name} = 'NaN'", "numbers are NaN, which no decimal of the sink is", nan_shows)
    if outside := out_of_range(column, name):
        return Odd(outside, "dates lie before the year 1 or after 9999, or are infinite: the sink holds no such date")
    return None
