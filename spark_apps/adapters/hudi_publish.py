"""Publishing into Hudi: the rows of a stage replace the table's in one commit (ADR 0017, 0021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import SinkError
from airflow_cdc.spark_apps.adapters import hudi_shared, hudi_table
from airflow_cdc.spark_apps.driver.app import explained

if TYPE_CHECKING:
    from airflow_cdc.sinks.hudi.client import HudiSink, Stage


def replace_rows(sink: HudiSink, stage: Stage, summary: Mapping[str, str]) -> None:
    """Replace the table's rows by the stage's, in the Spark session of this process. Raises SinkError without one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    where = f"table {stage.target}"
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - it has no public name
        raise SinkError("a Hudi table is published by a Spark job, and there is no session here", where=where)
    spark = SparkSession.builder.getOrCreate()
    todo = "Run the step again: readers see the old rows until it is done."
    with explained(SinkError, "publish the table", where=where, todo=todo):
        rows = hudi_table.read(spark, sink.folder(stage.identifier), sink.stage_head(stage))
        if (shared := sink.shared_table((stage.namespace, stage.table))) and sink.endpoint.shared:
            hudi_shared.replace(rows, shared, sink.endpoint.buckets, summary)
            return
        table = hudi_table.HudiTable(sink.folder((stage.namespace, stage.table)), stage.table, sink.endpoint.table_type)
        hudi_table.write(rows, table, hudi_table.REPLACE, summary)
