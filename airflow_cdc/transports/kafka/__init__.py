"""Kafka."""

from airflow_cdc.core.kind import Lazy, TransportKind

KIND = TransportKind(
    name="kafka",
    title="Kafka",
    client=Lazy(".client:KafkaTransport", __name__),
    rules=Lazy(".problems:RULES", __name__),
    hook=Lazy("airflow_cdc.hooks.kafka:CdcKafkaHook"),
)
