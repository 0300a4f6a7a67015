"""Compare two tables every Sunday, have wrong rows repaired once a person agreed, and end red unless all is equal."""

from datetime import UTC, datetime

from airflow.sdk import DAG, Param, chain

from airflow_cdc.operators.proven import AnnounceOperator
from airflow_cdc.operators.repair import (
    ApproveRepairOperator,
    CompareTablesOperator,
    ConcludeOperator,
    RepairOperator,
)

with DAG(
    "check_shop_on_sundays",
    schedule="0 5 * * SUN",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"pipeline": "shop", "retries": 0},
    params={"tables": Param(["shop.customers", "shop.orders"], type="array")},
):
    chain(
        CompareTablesOperator(task_id="compare"),
        ApproveRepairOperator(task_id="approve"),
        RepairOperator(task_id="repair"),
        ConcludeOperator(task_id="verdict").as_teardown(on_failure_fail_dagrun=True),
        AnnounceOperator(task_id="announce").as_teardown(on_failure_fail_dagrun=False),
    )
