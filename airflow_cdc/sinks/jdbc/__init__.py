"""Tables in a database that Debezium's JDBC sink connector fills from the topics."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.jdbc.kind import JdbcSettings

KIND = SinkKind(
    name="jdbc",
    title="Debezium JDBC sink",
    settings=JdbcSettings,
    endpoint=Lazy(".endpoint:JdbcEndpoint", __name__),
    client=Lazy(".client:JdbcSink", __name__),
    rules=Lazy(".config:RULES", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.jdbc:JdbcSinkHook"),
    feeder=Lazy("airflow_cdc.connectors.kafka_connect.feeder:ConnectFeeder"),
    fed_by=("debezium",),
)
