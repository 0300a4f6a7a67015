"""The settings of Kafka in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class KafkaSettings(TransportSpec):
    """The brokers of one Kafka cluster."""

    conn_id: str = key("Airflow connection (`cdc_kafka` or `kafka`) of the brokers.", form=CONNECTION)
