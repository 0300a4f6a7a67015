"""Kafka."""

from airflow_cdc.core.kind import Lazy, RegistryKind, TransportKind
from airflow_cdc.transports.kafka.kind import KafkaSettings

KIND = TransportKind(
    name="kafka",
    title="Kafka",
    settings=KafkaSettings,
    endpoint=Lazy(".wire:KafkaEndpoint", __name__),
    client=Lazy(".client:KafkaTransport", __name__),
    rules=Lazy(".problems:RULES", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.kafka:CdcKafkaHook"),
    form=Lazy(".kind:FORM", __name__),
    jars=Lazy(".kind:JARS", __name__),
    reader=Lazy("airflow_cdc.spark_apps.adapters.kafka:KafkaTopics"),
    registry=RegistryKind(
        endpoint=Lazy(".registry:RegistryEndpoint", __name__),
        client=Lazy(".registry:SchemaRegistry", __name__),
        hook=Lazy("airflow_cdc.hooks.schema_registry:SchemaRegistryHook"),
        form=Lazy(".kind:REGISTRY_FORM", __name__),
    ),
)
