"""The application `reset_offset`: step 7, for tables that the connector writes itself and a Spark job publishes."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.flows import reset_offset
from airflow_cdc.flows.run import Facts
from airflow_cdc.spark_apps.driver.app import open_app


def main(settings: Mapping[str, object]) -> Facts:
    """Publish the tables that were read, and write W as the connector's offset. `settings`: the operator's file for the driver."""
    with open_app(settings, "reset_offset") as (run, _):
        return reset_offset.reset_offset(run)
