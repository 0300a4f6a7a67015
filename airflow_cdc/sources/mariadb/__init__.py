"""The MariaDB source: only what differs from MySQL."""

from airflow_cdc.core.kind import Lazy, SourceKind
from airflow_cdc.sources.mariadb.kind import MariaDbSettings

KIND = SourceKind(
    name="mariadb",
    title="MariaDB",
    client=Lazy(".client:MariaDbSource", __name__),
    rules=Lazy(".problems:RULES", __name__),
    settings=MariaDbSettings,
    endpoint=Lazy("airflow_cdc.sources.mysql.session:MySqlEndpoint"),
    read_position=Lazy(".position:read_position", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.mysql:CdcMySqlHook"),
    form=Lazy("airflow_cdc.sources.mysql.kind:FORM"),
    jars=Lazy("airflow_cdc.sources.mysql.kind:JARS"),
    reader=Lazy("airflow_cdc.spark_apps.adapters.mariadb:MariaDbReader"),
    copies=Lazy("airflow_cdc.spark_apps.adapters.mysql_copies:MySqlCopies"),
)
