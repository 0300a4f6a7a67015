"""Apply a pipeline's changes once an hour, right before the job that reads them (with `[cdc] apply_schedule = none`)."""

from datetime import UTC, datetime

from airflow.sdk import DAG, task

from airflow_cdc.operators.spark import ApplyChangesOperator

with DAG(
    "hourly_sales",
    schedule="@hourly",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):
    fresh = ApplyChangesOperator(task_id="apply", pipeline="shop")

    @task(task_id="count_sales", trigger_rule="none_failed")  # `apply` is skipped where nothing is new
    def count_sales() -> None:
        """Read the sink here: it holds all that the topics held when `apply` began."""

    fresh >> count_sales()
