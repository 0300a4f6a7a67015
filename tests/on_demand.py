"""A driver as it is at its start: its session is made when something first asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext

from airflow_cdc.spark_apps.driver.session import SessionOnDemand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def on_demand(spark: SparkSession) -> Iterator[SparkSession]:
    """The tests' session on demand: until it is asked for, pyspark finds none in this process, as in a new driver.

    Without this, what looks for the process's own session works in every test and fails in the first driver. For one thread
    at a time: all others of the process find no session, too.
    """
    context = SparkContext._active_spark_context

    def make() -> SparkSession:
        SparkContext._active_spark_context = context
        return spark

    SparkContext._active_spark_context = None
    try:
        yield SessionOnDemand.of(make)
    finally:
        SparkContext._active_spark_context = context
