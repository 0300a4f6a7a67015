"""Flink CDC: a Flink job that reads MySQL's log and writes the sink itself."""

from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.core.kind import ConnectorKind, Lazy, Reads

KIND = ConnectorKind(
    name="flink",
    title="Flink CDC",
    client=Lazy(".connector:FlinkConnector", __name__),
    rules=Lazy(".problems:RULES", __name__),
    settings=FlinkSettings,
    endpoint=Lazy(".endpoint:FlinkEndpoint", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.flink:FlinkHook"),
    form=Lazy(".kind:FORM", __name__),
    reads={"mysql": Reads(codec=Lazy(".offset:FlinkCodec", __name__))},
    through=("direct",),
    config_rules=Lazy(".capture:RULES", __name__),
    voice=Lazy(".error_texts:VOICE", __name__),
)
