"""The application `publish`: step 9, for a sink that publishes by a Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.flows import publish
from airflow_cdc.flows.run import Facts
from airflow_cdc.spark_apps.driver.app import open_app


def main(settings: Mapping[str, Any]) -> Facts:
    """Publish the verified tables of the run's open recovery. `settings`: the operator's file for the driver."""
    with open_app(settings, "publish") as (run, _):
        return publish.publish(run)
