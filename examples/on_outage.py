"""Watch a pipeline without holding a worker's slot, and open and close a ticket per outage."""

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

    @task(task_id="ticket")
    def ticket(triggering_asset_events: Any = None) -> None:
        """Each event's `extra` has the alert, the diagnosis with its evidence, and the plan."""
        for events in (triggering_asset_events or {}).values():
            for event in events:
                action = "close" if event.extra["status"] == "resolved" else "open"
                print(action, event.extra["dedup_key"], event.extra["plan"]["strategy"])

    ticket()
