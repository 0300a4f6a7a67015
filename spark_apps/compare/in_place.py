"""Tables that the connector writes itself, compared as readers see them, while it writes to them (at_rest.py)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare.at_rest import Sides, TableItself, compare_at_rest
from airflow_cdc.spark_apps.compare.caveats import wait_for_xa
from airflow_cdc.spark_apps.compare.results import summary
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.systems import row_reader, stage_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.verify")


def compare_in_place(
    run: Run, spark: SparkSession, tables: Sequence[str], watermark: Watermark, seconds: float
) -> list[Outcome]:
    """Compare the tables, which the connector writes to meanwhile, on the server of this watermark.

    `seconds`: how long the connector may stand still while we wait for it.
    """
    reader, writer = row_reader(run), stage_writer(run)

    def reach_now() -> Watermark:
        position = run.clients.source.position()
        wait_past(run, position, seconds)
        return position

    def newest(table: Table) -> SinkView:
        own = TableItself(run.pipeline.sink.namespace, run.pipeline.sink_table(table.full_name))
        version = writer.version(own)
        return SinkView(spark, writer.at(spark, own, version), version)

    sides = Sides(reader, watermark, reach_now, newest)
    outcomes = compare_at_rest(sides, list(captured(run, tables).values()))
    for outcome in outcomes:
        wait_for_xa(run, outcome)
        log.info("%s", summary(outcome))
    return outcomes
