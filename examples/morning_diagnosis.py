"""A DAG that observes every pipeline each morning. A problem fails the task of its pipeline."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_cdc.config.registry import load_registry
from airflow_cdc.config.settings import registry_path
from airflow_cdc.operators.diagnose import CdcDiagnoseOperator

with DAG("morning_diagnosis", schedule="0 6 * * *", start_date=datetime(2024, 1, 1, tzinfo=UTC), catchup=False):
    for name in load_registry(registry_path()):
        found = CdcDiagnoseOperator(task_id=f"diagnose_{name}", pipeline=name)

        @task(task_id=f"report_{name}")
        def broken(decision: dict[str, Any]) -> None:
            raise RuntimeError(f"{decision['pipeline']}: {decision['diagnosis']['description']}")

        broken(found.output)
