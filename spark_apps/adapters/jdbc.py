"""What the row readers of all databases share: frames over JDBC, and chunks whose boundaries are looked up ahead."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.chunk import Chunk, Key
from airflow_cdc.spark_apps.driver.sql import quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Column, Table

V = TypeVar("V")
# (column, the name of the frame's column with its text or value) → Spark SQL of the sink's value
FromRead = Callable[["Column", str], str]


def query_frame(
    spark: SparkSession, options: Mapping[str, str], query: str, predicates: Sequence[str] = ()
) -> DataFrame:
    """A table expression read over JDBC, one partition per predicate."""
    if not predicates:
        return spark.read.format("jdbc").options(**options).option("dbtable", query).load()
    rest = {key: value for key, value in options.items() if key != "url"}
    return spark.read.jdbc(options["url"], query, predicates=list(predicates), properties=rest)


def value_names(table: Table) -> list[str]:
    """A name for the value of each mirrored column, with a prefix that no column of the table has."""
    prefix = "v"
    while any(c.name.lower().startswith(prefix) for c in table.columns):
        prefix = f"{prefix}_"
    return [f"{prefix}{number}" for number in range(len(table.mirrored))]


def typed_rows(raw: DataFrame, table: Table, names: Sequence[str], from_read: FromRead) -> DataFrame:
    """The values called `names` in `raw`, in their sink types and under their columns' names."""
    columns = zip(table.mirrored, names, strict=True)
    return raw.selectExpr(*(f"{from_read(c, name)} AS {quote_ident(c.name)}" for c, name in columns))


def values_outside_hash(raw: DataFrame, table: Table, from_read: FromRead) -> DataFrame:
    """(key_text, x0, x1 …): the columns outside the digest, in their sink types."""
    names = enumerate(outside_hash(table))
    return raw.selectExpr("key_text", *(f"{from_read(table.column(name), f'x{n}')} AS x{n}" for n, name in names))


def groups_ahead(
    next_end: Callable[[Key | None], Key | None], after: Key | None, chunks: int, *, beside: bool = True
) -> Generator[list[Chunk]]:
    """Groups of up to `chunks` chunks from the key `after` to the end of the table.

    `next_end` returns the key that ends the chunk after a key, None for the last chunk. It is called in a thread, one
    group ahead, while Spark reads the previous group; if not `beside`, when the group is asked for.
    """
    while not beside:
        yield (group := _group(next_end, after, chunks))
        if (after := group[-1].hi) is None:
            return
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[list[Chunk]] | None = pool.submit(_group, next_end, after, chunks)
        while waiting is not None:
            group = waiting.result()
            last = group[-1].hi
            waiting = None if last is None else pool.submit(_group, next_end, last, chunks)
            yield group


def _group(next_end: Callable[[Key | None], Key | None], low: Key | None, chunks: int) -> list[Chunk]:
    group: list[Chunk] = []
    while len(group) < chunks:
        high = next_end(low)
        group.append(Chunk(low, high))
        if high is None:
            break
        low = high
    return group


@contextmanager
def one_each(
    view: Callable[..., AbstractContextManager[V]], tables: Sequence[Table], at: Watermark
) -> Iterator[Sequence[V]]:
    """A view of its own for each table, by a reader's `view` (ports.RowReader)."""
    with ExitStack() as stack:
        yield [stack.enter_context(view(table, at=at)) for table in tables]
