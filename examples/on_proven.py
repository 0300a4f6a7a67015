"""Build on rows of `shop.orders` only after they were proven equal to their source."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_cdc.operators.proven import proven_asset

with DAG(
    "marts",
    schedule=[proven_asset("shop", "shop.orders")],  # the same as Asset("cdc://shop/proven/shop.orders")
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
):

    @task(task_id="build")
    def build(triggering_asset_events: Any = None) -> None:
        """Each event's `extra` names the run that proved the table."""
        for events in (triggering_asset_events or {}).values():
            for event in events:
                print(event.extra["table"], event.extra["by"], event.extra["run_id"])

    build()
