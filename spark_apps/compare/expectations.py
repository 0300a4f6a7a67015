"""What a compared stage holds, counted for its expectations (decisions/compare/expectations.py): in memory, or by one query for each table.

A Spark query costs a tenth of a CPU-second and more whatever it counts, and Great Expectations runs one per metric. So a
small table is counted in memory, and Spark is asked once for the rows, NULLs and repeated keys of another. One query for
many tables costs more, not less: 16 tables with 100,000 rows each took 7.1 to 7.5 CPU-seconds in one query, 4.1 to 4.7 in one each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from airflow_cdc.decisions.compare.expectations import Counted, Expected, StageFacts
from airflow_cdc.spark_apps.compare import few
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

log = logging.getLogger("airflow_cdc.verify")


@dataclass(frozen=True, slots=True)
class Pinned:
    """A snapshot and what it must hold.

    `frame`: its rows for Spark, which to make costs more than to count few rows. `small`: reads them into memory if they
    are few.
    """

    frame: Callable[[], DataFrame]
    expected: Expected
    small: few.FewRows | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The key whose repeats are counted; () where the comparison has proven it."""
        return () if self.expected.key_proven else self.expected.key


def counted(outcomes: Sequence[Outcome]) -> list[Counted]:
    """The facts of compared snapshots, beside what they should be."""
    sinks = [(outcome.subject.sink, expected_of(outcome)) for outcome in outcomes]
    return count([Pinned(sink.frame, expected, sink.small) for sink, expected in sinks])


def expected_of(outcome: Outcome) -> Expected:
    """What a compared snapshot must hold, from the source's definition and row count."""
    table = outcome.subject.table
    return Expected(
        name=table.full_name,
        snapshot_id=outcome.subject.sink.version,
        columns={column.name: sink_type(column) for column in table.mirrored},
        not_null=tuple(c.name for c in table.mirrored if not c.nullable or c.name in table.key),
        rows=outcome.source_rows,
        tolerance=outcome.tally.unsettled,
        key=table.key,
        key_proven=outcome.equal_by_digests,
    )


def count(tables: Sequence[Pinned]) -> list[Counted]:
    """The facts of each table, in the order given, beside what they should be."""
    return [Counted(one.expected, _in_memory(one) or _counted(one)) for one in tables]


def _in_memory(pinned: Pinned) -> StageFacts | None:
    """The facts of a small table; None if they are left to Spark."""
    try:
        counts = pinned.small.counted if isinstance(pinned.small, few.Counting) and not pinned.key else None
        if counts is not None:
            return _known(pinned, counts)
        rows = pinned.small and pinned.small()
        return None if rows is None else _known(pinned, few.Counted.of(rows), _arrow_repeated(rows, pinned.key))
    except few.UNREADABLE as error:
        log.info("counted by Spark: %r", error)
        return None


def _known(pinned: Pinned, counted: few.Counted, repeated: int = 0) -> StageFacts:
    nulls = {name: counted.nulls.get(name, counted.rows) for name in pinned.expected.not_null}
    return StageFacts(counted.rows, _types(from_arrow_schema(counted.schema, True)), nulls, repeated)


def _arrow_repeated(rows: pa.Table, key: tuple[str, ...]) -> int:
    """Raises ValueError for a key whose values Arrow does not group as Spark does: -0.0 and 0.0, NaN."""
    if not key or not set(key) <= set(rows.column_names):
        return 0
    if any(pa.types.is_floating(rows.schema.field(name).type) for name in key):
        raise ValueError("a floating-point key")
    copies = rows.group_by(list(key)).aggregate([([], "count_all")])["count_all"].to_pylist()
    return sum(count for count in copies if count > 1)


def _counted(pinned: Pinned) -> StageFacts:
    """One query: a row of counts, and one about the key if it is asked for."""
    frame = pinned.frame()
    counts = {row[0]: (row[1], row[2]) for row in reduce(_union, _queries(pinned, frame)).collect()}
    rows, nulls = counts["rows"]
    repeated, _ = counts.get("key", (0, []))
    return StageFacts(rows, _types(frame.schema), dict(zip(pinned.expected.not_null, nulls, strict=True)), repeated)


def _union(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def _queries(pinned: Pinned, frame: DataFrame) -> Iterator[DataFrame]:
    """(what was counted, count, NULLs per column)."""
    nulls = fn.array(*(_null_rows(frame, name) for name in pinned.expected.not_null)).cast("array<bigint>")
    yield frame.agg(fn.lit("rows"), fn.count(fn.lit(1)), nulls)
    if pinned.key and set(pinned.key) <= set(frame.columns):
        size = own_name("rows")
        keys = frame.groupBy(*(quote_ident(name) for name in pinned.key)).agg(fn.count(fn.lit(1)).alias(size))
        repeated = fn.coalesce(fn.sum(fn.when(fn.col(size) > 1, fn.col(size))), fn.lit(0))
        yield keys.agg(fn.lit("key"), repeated, fn.array().cast("array<bigint>"))


def _null_rows(frame: DataFrame, name: str) -> Column:
    if name not in frame.columns:
        return fn.count(fn.lit(1))
    return fn.count_if(fn.col(quote_ident(name)).isNull())


def _types(schema: StructType) -> dict[str, str]:
    return {field.name: type(field.dataType).__name__ for field in schema.fields}
