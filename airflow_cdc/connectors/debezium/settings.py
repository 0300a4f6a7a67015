"""A Debezium connector's settings in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import ConnectorSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class DebeziumSettings(ConnectorSpec):
    """A Debezium connector on Kafka Connect."""

    conn_id: str = key(
        "Airflow connection (`kafka_connect` or `http`) of Kafka Connect's REST interface.", form=CONNECTION
    )
