"""All rows of a MariaDB table in one read view, and that view's own place in the log, over one JDBC connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SourceError
from airflow_cdc.sources.mariadb.log import VIEW_PLACE, Place
from airflow_cdc.sources.mysql.quoting import quote_table
from airflow_cdc.sources.mysql.types import read_sql
from airflow_cdc.spark_apps.adapters.jdbc import query_frame, typed_rows, value_names
from airflow_cdc.spark_apps.adapters.mysql_values import from_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.table import Table

_PLACE = "struct(cdc_view_file, CAST(cdc_view_pos AS bigint) AS pos, CAST(cdc_prepares AS bigint) AS prepares)"


def placed_rows(spark: SparkSession, options: Mapping[str, str], table: Table) -> tuple[DataFrame, Callable[[], Place]]:
    """The rows in sink types, in one partition, and a function that returns the view's place once they were read.

    The place is in every row, or in a row of its own if the table is empty. If Spark retries the task, the retry has
    another view: there is then more than one place, and none is returned. `options` must open the view.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    names = value_names(table)
    values = ", ".join(f"{read_sql(c)} AS {name}" for c, name in zip(table.mirrored, names, strict=True))
    rows = f"(SELECT 1 AS cdc_row, {values} FROM {quote_table(table)}) AS cdc_held"
    place = f"(SELECT {VIEW_PLACE}) AS cdc_place"
    query = (
        f"(SELECT snapshot_file AS cdc_view_file, snapshot_pos AS cdc_view_pos, prepares AS cdc_prepares, cdc_held.*"
        f" FROM {place} LEFT JOIN {rows} ON TRUE) AS cdc_rows"
    )
    seen = Observation()
    ends = (fn.expr(f"{which}({_PLACE})").alias(which) for which in ("min", "max"))
    raw = query_frame(spark, options, query).observe(seen, *ends).where("cdc_row IS NOT NULL")

    def view_place() -> Place:
        places = seen.get
        if places["min"] is None or places["min"] != places["max"]:
            raise SourceError(f"{table.full_name} was read in more than one view", todo="Try again.")
        return Place(str(places["min"][0]), int(places["min"][1]), int(places["min"][2]))

    return typed_rows(raw, table, names, from_read), view_place
