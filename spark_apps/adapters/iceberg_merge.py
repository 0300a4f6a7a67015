"""Write a table's batch to its stage: delete replaced rows, append the current ones, stamp the append.

Two commits instead of one MERGE: nobody reads a stage before it is published, a batch counts only once it is stamped,
and without a MERGE's outer join only the table's keys are read and no row is shuffled (a quarter of the work).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import SinkError
from airflow_cdc.spark_apps.driver.session import kept
from airflow_cdc.spark_apps.driver.sql import literal, quote_ident, view_of
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.schema_change import SchemaChange


def append(target: str, rows: DataFrame, summary: Mapping[str, str]) -> None:
    """Append rows in a commit that carries `summary`; no rows make a commit too."""
    writer = rows.writeTo(target)
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.append()


def append_nothing(session: SparkSession, target: str, summary: Mapping[str, str]) -> None:
    """A commit that changes no row and carries `summary`."""
    append(target, session.table(target).limit(0), summary)


def write_by_key(
    target: str,
    table: Table,
    changes: DataFrame,
    summary: Mapping[str, str],
    *,
    emptied: bool = False,
    small: bool = True,
) -> None:
    """Bring net changes (key, deleted, after) to `target`; the last commit carries `summary`.

    Idempotent: repeating it from any point gives the same result. `emptied`: the table was truncated before these
    changes. `small`: every task can hold their keys in memory.
    """
    keys = changes.select(*(fn.col(f"key.{quote_ident(name)}").alias(f"k{at}") for at, name in enumerate(table.key)))
    keys = fn.broadcast(keys) if small else keys
    _delete(
        target, keys, " AND ".join(f"t.{quote_ident(n)} = s.k{at}" for at, n in enumerate(table.key)), emptied=emptied
    )
    columns = (fn.col(f"after.{quote_ident(c.name)}") for c in table.mirrored)
    append(target, changes.where("NOT deleted").select(*columns), summary)


def write_images(
    target: str, table: Table, images: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
) -> None:
    """Bring net copies (image, n) of whole rows to `target`; the last commit carries `summary`.

    If a row image loses copies, all of them are deleted and the remaining number is appended again, because equal rows
    cannot be told apart. Raises SinkError if the table holds fewer copies than are to be removed. Not idempotent.
    """
    images = kept(images, eager=False)
    gains, losses = images.where("n > 0"), images.where("n < 0")
    if emptied or not losses.isEmpty():
        left = _left_of(target, table, losses, emptied=emptied)
        _delete(target, losses.selectExpr(*_flat(table)), _same_image(table), emptied=emptied)
        gains = gains.unionAll(left.where("n > 0"))
    copies = gains.withColumn("copy", fn.explode(fn.sequence(fn.lit(1), fn.col("n").cast("int"))))
    append(target, copies.select("image.*"), summary)


def _flat(table: Table) -> list[str]:
    return [f"image.{quote_ident(c.name)} AS v{at}" for at, c in enumerate(table.mirrored)]


def _same_image(table: Table) -> str:
    return " AND ".join(f"t.{quote_ident(c.name)} <=> s.v{at}" for at, c in enumerate(table.mirrored))


def _left_of(target: str, table: Table, losses: DataFrame, *, emptied: bool) -> DataFrame:
    """(image, n): how many copies remain of each image that loses some. Read before anything is deleted."""
    if emptied:
        left = _kept_sums(losses)
    else:
        with view_of(fn.broadcast(losses.selectExpr("image", *_flat(table)))) as view:
            copies = f"SELECT s.image, 1L AS n FROM {target} t JOIN {view} s ON {_same_image(table)}"
            left = _kept_sums(losses.unionAll(losses.sparkSession.sql(copies)))
    short = left.where("n < 0").agg(fn.sum(-fn.col("n")).alias("rows")).first()
    if short is not None and short["rows"]:
        raise SinkError(
            f"{short['rows']} rows that the source deleted are not in the table",
            where=f"table {target}",
            todo="The mirror is already wrong: recover the table (diff_repair).",
        )
    return left


def _kept_sums(rows: DataFrame) -> DataFrame:
    return kept(rows.groupBy("image").agg(fn.sum("n").alias("n")))


def _delete(target: str, rows: DataFrame, same: str, *, emptied: bool) -> None:
    session = rows.sparkSession
    if emptied:
        session.sql(f"DELETE FROM {target}")
        return
    with view_of(rows) as view:
        session.sql(f"DELETE FROM {target} t WHERE EXISTS (SELECT 1 FROM {view} s WHERE {same})")


def fill(session: SparkSession, target: str, table: Table, change: SchemaChange) -> None:
    """Fill in the values that DDL gave to old rows of `target`. The columns were never nullable: NULL means old."""
    if not change.filled:
        return
    values = (
        f"{quote_ident(name)} = coalesce({quote_ident(name)}, CAST({literal(text)} AS {sink_type(table.column(name))}))"
        for name, text in change.filled.items()
    )
    session.sql(f"UPDATE {target} SET {', '.join(values)}")
