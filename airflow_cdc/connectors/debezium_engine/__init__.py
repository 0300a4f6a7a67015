"""Debezium's engine without Kafka Connect: Debezium Server, or an application that embeds the engine."""

from airflow_cdc.connectors.debezium import KIND as DEBEZIUM
from airflow_cdc.connectors.debezium_engine.kind import EngineSettings
from airflow_cdc.core.kind import ConnectorKind, Lazy

KIND = ConnectorKind(
    name="debezium_engine",
    title="Debezium's engine",
    client=Lazy(".connector:DebeziumEngine", __name__),
    rules=DEBEZIUM.rules,
    settings=EngineSettings,
    endpoint=Lazy(".endpoint:EngineEndpoint", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.debezium_engine:DebeziumEngineHook"),
    form=Lazy(".kind:FORM", __name__),
    reads=DEBEZIUM.reads,
    through=("kafka",),
    config_rules=DEBEZIUM.config_rules,
    voice=DEBEZIUM.voice,
)
