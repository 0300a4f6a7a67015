"""The PostgreSQL source."""

from airflow_cdc.core.kind import Lazy, SourceKind
from airflow_cdc.sources.postgres.kind import PostgresSettings

KIND = SourceKind(
    name="postgres",
    title="PostgreSQL",
    settings=PostgresSettings,
    endpoint=Lazy(".session:PostgresEndpoint", __name__),
    client=Lazy(".client:PostgresSource", __name__),
    read_position=Lazy(".position:read_position", __name__),
    rules=Lazy(".problems:RULES", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.postgres:CdcPostgresHook"),
    form=Lazy(".kind:FORM", __name__),
    jars=Lazy(".kind:JARS", __name__),
    reader=Lazy("airflow_cdc.spark_apps.adapters.postgres:PostgresReader"),
    copies=Lazy("airflow_cdc.spark_apps.adapters.postgres_copies:PostgresCopies"),
)
