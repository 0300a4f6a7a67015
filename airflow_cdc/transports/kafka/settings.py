"""The settings of Kafka in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class KafkaSettings(TransportSpec):
    """The brokers of one Kafka cluster."""

    conn_id: str = key("Airflow connection (`cdc_kafka` or `kafka`) of the brokers.", form=CONNECTION)
    registry: str = key(
        "Airflow connection (`cdc_schema_registry` or `http`) of the schema registry, for a connector that writes Avro. By"
        " default the registry that the connector's own converter settings name, with their login.",
        form=CONNECTION,
        default="",
    )

    @property
    def schemas_conn_id(self) -> str:
        """See TransportSpec."""
        return self.registry
