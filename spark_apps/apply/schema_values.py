"""What DDL did to existing rows: the value of an added column, and NULLs in columns that are now NOT NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.decisions.apply.schema_change import SchemaChange, refused
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

    from airflow_cdc.core.table import Table


def _constant(table: Table, name: str, text: str) -> Expression:
    return fn.lit(text).cast(sink_type(table.column(name)))


def with_filled(net: DataFrame, table: Table, change: SchemaChange) -> DataFrame:
    """Net changes (key, deleted, after), with the change's values filled in where an event predates the DDL."""
    after = fn.col("after")
    for name, text in change.filled.items():
        column = quote_ident(name)
        after = after.withField(column, fn.coalesce(fn.col(f"after.{column}"), _constant(table, name, text)))
    return net.withColumn("after", after) if change.filled else net


def check_never_null(
    rows: DataFrame, table: Table, change: SchemaChange, net: DataFrame | None = None, *, emptied: bool = False
) -> None:
    """Raise RereadNeededError if `rows` after the net changes would hold NULL where the definition now forbids it.

    The server replaced such a NULL with a value, and no event says which.
    """
    for name in change.never_null:
        column = quote_ident(name)
        has_null = False if net is None else not net.where(f"NOT deleted AND after.{column} IS NULL").isEmpty()
        if not has_null and not emptied:
            has_null = not _left(rows, table, net).where(f"{column} IS NULL").isEmpty()
        if has_null:
            raise refused(table, f"column {name}: it became NOT NULL, and existing NULLs were replaced")


def _left(rows: DataFrame, table: Table, net: DataFrame | None) -> DataFrame:
    """The rows that the net changes do not touch."""
    if net is None:
        return rows
    keys = net.select(*(fn.col(f"key.{quote_ident(name)}").alias(f"cdc_k{at}") for at, name in enumerate(table.key)))
    same = [rows[quote_ident(name)] == keys[f"cdc_k{at}"] for at, name in enumerate(table.key)]
    return rows.join(keys, same, "left_anti")
