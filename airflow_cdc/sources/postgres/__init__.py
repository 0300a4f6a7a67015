"""PostgreSQL."""

from airflow_cdc.core.kind import Lazy, SourceKind
from airflow_cdc.sources.postgres.settings import PostgresSettings

# its rows are not read by Spark and its events are not decoded: diagnosed, not recovered
KIND = SourceKind(
    name="postgres",
    title="PostgreSQL",
    settings=PostgresSettings,
    endpoint=Lazy(".session:PostgresEndpoint", __name__),
    client=Lazy(".client:PostgresSource", __name__),
    read_position=Lazy(".position:read_position", __name__),
    rules=Lazy(".problems:RULES", __name__),
    setup=Lazy(".setup:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.postgres:CdcPostgresHook"),
    form=Lazy(".connection:FORM", __name__),
    why_unread="the rows of a PostgreSQL source are not read by Spark yet: it is diagnosed and watched",
)
