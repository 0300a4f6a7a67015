"""The one commit of a table's batch: MERGE texts, and the stamp that rides in its snapshot summary."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.errors import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.table import TableDef

_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


@contextmanager
def stamped(session: SparkSession, summary: Mapping[str, str]) -> Iterator[None]:
    """Every commit made in this session meanwhile carries `summary`. The session must belong to one writer."""
    for key, value in summary.items():
        session.conf.set(_SNAPSHOT_PROPERTY + key, value)
    try:
        yield
    finally:
        for key in summary:
            session.conf.unset(_SNAPSHOT_PROPERTY + key)


@contextmanager
def view_of(frame: DataFrame) -> Iterator[str]:
    """A temporary view over a frame, for SQL that has no DataFrame form."""
    name = f"cdc_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def merge_by_key(
    target: str, table: TableDef, changes: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
) -> None:
    """Apply net changes (key, deleted, after) to `target` in one commit.

    `emptied`: the table was truncated before these changes, so rows that are not among them go.
    """
    flat = changes.select(
        "deleted",
        *(fn.col(f"key.{quote_ident(name)}").alias(f"k{at}") for at, name in enumerate(table.key)),
        *(fn.col(f"after.{quote_ident(c.name)}").alias(f"v{at}") for at, c in enumerate(table.mirrored)),
    )
    on = " AND ".join(f"t.{quote_ident(name)} = s.k{at}" for at, name in enumerate(table.key))
    sets = ", ".join(f"t.{quote_ident(c.name)} = s.v{at}" for at, c in enumerate(table.mirrored))
    clauses = [
        "WHEN MATCHED AND s.deleted THEN DELETE",
        f"WHEN MATCHED THEN UPDATE SET {sets}",
        f"WHEN NOT MATCHED AND NOT s.deleted THEN {_insert(table)}",
    ]
    _merge(target, flat, on, [*clauses, *_emptying(emptied)], summary)


def merge_images(
    target: str, table: TableDef, images: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
) -> None:
    """Apply net copies (image, n) of whole rows to `target` in one commit.

    A row image that loses copies is taken out wholly and what is left of it put back, because equal rows cannot
    be told apart. Raises SinkError if the table holds fewer copies than are to go.
    """
    session = images.sparkSession
    flat = images.select(
        "n", *(fn.col(f"image.{quote_ident(c.name)}").alias(f"v{at}") for at, c in enumerate(table.mirrored))
    ).persist()
    try:
        same = " AND ".join(f"t.{quote_ident(c.name)} <=> s.v{at}" for at, c in enumerate(table.mirrored))
        held = _held(session, "" if emptied else target, flat, same)
        _check_enough(held, target)
        takes = held.where("n < 0").withColumn("take", fn.lit(True))
        puts = held.where("n + held > 0").withColumn("take", fn.lit(False))
        copies = fn.explode(fn.sequence(fn.lit(1), (fn.col("n") + fn.when(fn.col("n") < 0, fn.col("held")).otherwise(0)).cast("int")))
        rows = takes.unionAll(puts.withColumn("copy", copies).drop("copy"))
        clauses = ["WHEN MATCHED THEN DELETE", f"WHEN NOT MATCHED AND NOT s.take THEN {_insert(table)}"]
        _merge(target, rows, f"s.take AND {same}", [*clauses, *_emptying(emptied)], summary)
    finally:
        flat.unpersist()


def append_nothing(session: SparkSession, target: str, summary: Mapping[str, str]) -> None:
    """A commit that changes no row and carries `summary`."""
    writer = session.table(target).limit(0).writeTo(target)
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def _held(session: SparkSession, target: str, flat: DataFrame, same: str) -> DataFrame:
    """Add `held`: how many copies of each image that loses some the table has now (NULL for the others)."""
    columns = ", ".join(f"s.{name}" for name in flat.columns)
    if not target:
        return flat.withColumn("held", fn.lit(0).cast("bigint"))
    with view_of(flat) as view:
        text = f"SELECT {columns}, count(t.cdc_one) AS held FROM {view} s LEFT JOIN (SELECT *, 1 AS cdc_one FROM {target}) t ON s.n < 0 AND {same} GROUP BY {columns}"
        return session.sql(text).localCheckpoint(eager=True)


def _check_enough(held: DataFrame, target: str) -> None:
    short = held.where("n < 0 AND n + held < 0").agg(fn.sum(-(fn.col("n") + fn.col("held"))).alias("rows")).first()
    if short is not None and short["rows"]:
        raise SinkError(
            f"{short['rows']} rows that the source deleted are not in the table",
            where=f"table {target}",
            todo="The mirror is wrong already: recover the table (diff_repair).",
        )


def _insert(table: TableDef) -> str:
    names = ", ".join(quote_ident(c.name) for c in table.mirrored)
    return f"INSERT ({names}) VALUES ({', '.join(f's.v{at}' for at in range(len(table.mirrored)))})"


def _emptying(emptied: bool) -> list[str]:
    return ["WHEN NOT MATCHED BY SOURCE THEN DELETE"] if emptied else []


def _merge(target: str, rows: DataFrame, on: str, clauses: list[str], summary: Mapping[str, str]) -> None:
    session = rows.sparkSession
    with view_of(rows) as view, stamped(session, summary):
        session.sql(f"MERGE INTO {target} t USING {view} s ON {on} {' '.join(clauses)}")
