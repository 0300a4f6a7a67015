"""Debezium on Kafka Connect."""

from airflow_cdc.connectors.debezium.settings import DebeziumSettings
from airflow_cdc.core.kind import ConnectorKind, Lazy, Reads

KIND = ConnectorKind(
    name="debezium",
    title="Debezium",
    settings=DebeziumSettings,
    endpoint=Lazy("airflow_cdc.connectors.kafka_connect.http:ConnectEndpoint"),
    client=Lazy("airflow_cdc.connectors.kafka_connect.client:KafkaConnect"),
    hook=Lazy("airflow_cdc.hooks.kafka_connect:KafkaConnectHook"),
    reads={
        "mysql": Reads(decoder=Lazy("airflow_cdc.spark_apps.adapters.debezium:decode")),
        "mariadb": Reads(),  # its events are not decoded: diagnosed, not recovered
    },
    through=("kafka",),
)
