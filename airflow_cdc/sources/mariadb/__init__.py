"""MariaDB: what it answers otherwise than MySQL."""

from airflow_cdc.core.kind import Lazy, SourceKind

KIND = SourceKind(
    name="mariadb",
    title="MariaDB",
    client=Lazy("airflow_cdc.sources.mysql.client:MySqlSource"),
    hook=Lazy("airflow_cdc.hooks.mysql:CdcMySqlHook"),
)
