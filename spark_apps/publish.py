"""The application `publish`: step 9, for a sink that publishes by a Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_cdc.flows import publish
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.spark_apps.driver.app import open_app
from airflow_cdc.spark_apps.driver.session import made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(settings: Mapping[str, object]) -> Facts:
    """Publish the verified tables of the run's open recovery. `settings`: the operator's file for the driver."""
    with open_app(settings, "publish") as (run, spark):
        return publish_by_spark(run, spark)


def publish_by_spark(run: Run, spark: SparkSession) -> Facts:
    """As flows.publish; the sink finds the session as that of this process."""
    made(spark)
    return publish.publish(run)
