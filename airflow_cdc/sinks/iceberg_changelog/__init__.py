"""Tables of an Iceberg catalog to which Iceberg's own Kafka Connect sink only appends: a log of changes for each table."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.iceberg_changelog.kind import ChangelogSettings

KIND = SinkKind(
    name="iceberg_changelog",
    title="Iceberg's Kafka Connect sink",
    settings=ChangelogSettings,
    endpoint=Lazy("airflow_cdc.sinks.iceberg.kind:IcebergEndpoint"),
    client=Lazy(".client:ChangelogSink", __name__, extra="avro"),
    rules=Lazy(".config:RULES", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
    jars=Lazy("airflow_cdc.sinks.iceberg.kind:JARS"),
    jars_of=Lazy("airflow_cdc.sinks.iceberg.kind:catalog_needs"),
    feeder=Lazy("airflow_cdc.connectors.kafka_connect.feeder:ConnectFeeder"),
    fed_by=("debezium",),
    folds=Lazy("airflow_cdc.spark_apps.adapters.iceberg_changelog:ChangelogReader"),
)
