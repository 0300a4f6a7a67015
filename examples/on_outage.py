"""Watch a pipeline without holding a worker's slot, and open a ticket once per outage."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, AssetAlias, task

from airflow_cdc.operators.watch import WatchPipelineOperator, alias_of

with DAG(
    "watch_shop",
    schedule="@continuous",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    WatchPipelineOperator(task_id="watch", pipeline="shop", outlets=[alias_of("shop")], poke_interval=30)

with DAG("ticket_for_shop", schedule=AssetAlias("cdc_problem__shop"), start_date=datetime(2024, 1, 1, tzinfo=UTC)):

    @task(task_id="open_ticket")
    def open_ticket(triggering_asset_events: Any = None) -> None:
        """Each event's `extra` has the diagnosis with its evidence, and the plan."""
        for events in (triggering_asset_events or {}).values():
            for event in events:
                print(event.extra["diagnosis"]["code"], event.extra["plan"]["strategy"])

    open_ticket()
