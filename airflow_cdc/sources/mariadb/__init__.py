"""MariaDB: what it answers otherwise than MySQL."""

from airflow_cdc.core.kind import Lazy, SourceKind

KIND = SourceKind(
    name="mariadb",
    title="MariaDB",
    client=Lazy(".client:MariaDbSource", __name__),
    rules=Lazy(".problems:RULES", __name__),
    hook=Lazy("airflow_cdc.hooks.mysql:CdcMySqlHook"),
)
