"""Debezium on Kafka Connect."""

from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.core.kind import ConnectorKind, Lazy, Reads

KIND = ConnectorKind(
    name="debezium",
    title="Debezium",
    client=Lazy(".connector:DebeziumConnector", __name__),
    rules=Lazy(".problems:RULES", __name__),
    settings=DebeziumSettings,
    endpoint=Lazy("airflow_cdc.connectors.kafka_connect.http:ConnectEndpoint"),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.kafka_connect:KafkaConnectHook"),
    form=Lazy(".kind:FORM", __name__),
    reads={
        "mysql": Reads(
            codec=Lazy(".offsets.mysql:MySqlCodec", __name__),
            decoder=Lazy("airflow_cdc.spark_apps.adapters.debezium:Events"),
            writes=True,
        ),
        "mariadb": Reads(
            codec=Lazy(".offsets.mariadb:MariaDbCodec", __name__),
            decoder=Lazy("airflow_cdc.spark_apps.adapters.debezium:Events"),
        ),
        "postgres": Reads(
            codec=Lazy(".offsets.postgres:PostgresCodec", __name__),
            decoder=Lazy("airflow_cdc.spark_apps.adapters.debezium:Events"),
            writes=True,
        ),
    },
    through=("kafka",),
    over_topics=Lazy(".strimzi:variant_of", __name__),
    config_rules=Lazy(".config_rules:RULES", __name__),
    voice=Lazy(".error_texts:VOICE", __name__),
)
