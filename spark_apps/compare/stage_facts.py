"""The facts about a pinned stage that a suite of expectations needs, counted in one query for many tables.

A Spark query costs about half a CPU-second whatever it counts, and Great Expectations runs one per metric. So we ask
Spark once for the rows, NULLs and repeated keys of up to TABLES_AT_ONCE tables together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TABLES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """What to count in one table: NULLs in `not_null`, and rows that share their `key` with another (empty: none)."""

    frame: DataFrame
    not_null: tuple[str, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageFacts:
    """Counts and column types of a table.

    Attributes:
        rows: the row count; `types`: column → the name of its Spark type, in order.
        nulls: column → rows in which it is NULL; all rows if the column does not exist.
        repeated: rows that share their key with another row; 0 where no key was asked for.
    """

    rows: int
    types: Mapping[str, str]
    nulls: Mapping[str, int]
    repeated: int = 0


def count_facts(tables: Sequence[Asked]) -> list[StageFacts]:
    """The facts of each table, in the order given."""
    facts: list[StageFacts] = []
    for begin in range(0, len(tables), TABLES_AT_ONCE):
        facts.extend(_counted(tables[begin : begin + TABLES_AT_ONCE]))
    return facts


def _counted(tables: Sequence[Asked]) -> Iterator[StageFacts]:
    """One query: a row of counts per table, and one more per key that is asked for."""
    parts = [part for number, asked in enumerate(tables) for part in _queries(number, asked)]
    counts = {(row[0], row[1]): (row[2], row[3]) for row in reduce(_union, parts).collect()}
    for number, asked in enumerate(tables):
        rows, nulls = counts[number, "rows"]
        repeated, _ = counts.get((number, "key"), (0, []))
        yield StageFacts(rows, _types(asked.frame), dict(zip(asked.not_null, nulls, strict=True)), repeated)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def _queries(number: int, asked: Asked) -> Iterator[DataFrame]:
    """(table's number, what was counted, count, NULLs per column)."""
    frame = asked.frame
    nulls = fn.array(*(_null_rows(frame, name) for name in asked.not_null)).cast("array<bigint>")
    yield frame.agg(fn.lit(number), fn.lit("rows"), fn.count(fn.lit(1)), nulls)
    if asked.key and set(asked.key) <= set(frame.columns):
        size = own_name("rows")
        keys = frame.groupBy(*(quote_ident(name) for name in asked.key)).agg(fn.count(fn.lit(1)).alias(size))
        repeated = fn.coalesce(fn.sum(fn.when(fn.col(size) > 1, fn.col(size))), fn.lit(0))
        yield keys.agg(fn.lit(number), fn.lit("key"), repeated, fn.array().cast("array<bigint>"))


def _null_rows(frame: DataFrame, name: str) -> Column:
    if name not in frame.columns:
        return fn.count(fn.lit(1))
    return fn.count_if(fn.col(quote_ident(name)).isNull())


def _types(frame: DataFrame) -> dict[str, str]:
    return {field.name: type(field.dataType).__name__ for field in frame.schema.fields}
