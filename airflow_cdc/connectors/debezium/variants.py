"""Which client a Debezium connector needs, by what pipelines.yaml says of its Kafka Connect."""

from __future__ import annotations

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.old_connect import with_topic
from airflow_cdc.connectors.debezium.strimzi import StrimziDebezium
from airflow_cdc.connectors.kafka_connect.offsets_topic import WritableTopics
from airflow_cdc.connectors.kafka_connect.strimzi import KafkaConnectors
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline


def variant_of(client: DebeziumConnector, pipeline: Pipeline, transport: WritableTopics) -> DebeziumConnector:
    """The client as the pipeline's settings want it. Raises ConfigError for settings that exclude each other."""
    settings = pipeline.connector
    if not isinstance(settings, DebeziumSettings) or not settings.strimzi_namespace:
        return with_topic(client, pipeline, transport)
    if settings.offsets_topic or settings.status_topic:
        raise ConfigError(
            "connector.strimzi_namespace and connector.offsets_topic exclude each other",
            where=f"pipeline {pipeline.name}, key connector",
            todo="A Kafka Connect of Strimzi changes offsets by REST from 3.6 on: remove offsets_topic and status_topic.",
        )
    return StrimziDebezium(client.endpoint, client.codec, KafkaConnectors(settings.strimzi_namespace))
