"""A DAG that waits until a binlog position can be read, without holding a worker's slot."""

from datetime import UTC, datetime

from airflow.sdk import DAG

from airflow_cdc.sensors.binlog import BinlogAvailableSensor

with DAG(
    "wait_for_position", schedule=None, start_date=datetime(2024, 1, 1, tzinfo=UTC), params={"file": "binlog.000042"}
):
    BinlogAvailableSensor(
        task_id="wait",
        conn_id="shop_mysql",
        file="{{ params.file }}",
        position=4,
        deferrable=True,
        timeout=3600,
    )
