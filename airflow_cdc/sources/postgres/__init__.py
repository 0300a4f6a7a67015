"""PostgreSQL."""

from airflow_cdc.core.kind import Lazy, SourceKind
from airflow_cdc.sources.postgres.settings import PostgresSettings

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
    # spark_apps/adapters/postgres.py reads its rows; it is named here once a whole recovery was seen to end
    why_unread="no recovery of a PostgreSQL source was seen to its end yet: it is diagnosed and watched",
)
