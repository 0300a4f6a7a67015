"""Canal: a server that reads MySQL's log and writes its changes to topics."""

from airflow_cdc.connectors.canal.kind import CanalSettings
from airflow_cdc.core.kind import ConnectorKind, Lazy, Reads

KIND = ConnectorKind(
    name="canal",
    title="Canal",
    client=Lazy(".connector:CanalConnector", __name__),
    rules=Lazy(".problems:RULES", __name__),
    settings=CanalSettings,
    endpoint=Lazy(".endpoint:CanalEndpoint", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.canal:CanalHook"),
    form=Lazy(".kind:FORM", __name__),
    reads={
        "mysql": Reads(
            codec=Lazy(".cursor:CursorCodec", __name__), decoder=Lazy("airflow_cdc.spark_apps.adapters.canal:Events")
        )
    },
    through=("kafka", "rabbitmq"),
    config_rules=Lazy(".capture:RULES", __name__),
    voice=Lazy(".error_texts:VOICE", __name__),
)
