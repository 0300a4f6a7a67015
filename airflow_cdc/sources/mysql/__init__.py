"""MySQL."""

from airflow_cdc.core.kind import Lazy, SourceKind
from airflow_cdc.sources.mysql.kind import MySqlSettings

KIND = SourceKind(
    name="mysql",
    title="MySQL",
    settings=MySqlSettings,
    endpoint=Lazy(".session:MySqlEndpoint", __name__),
    client=Lazy(".client:MySqlSource", __name__),
    rules=Lazy(".problems:RULES", __name__),
    read_position=Lazy(".position:read_position", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.mysql:CdcMySqlHook"),
    form=Lazy(".kind:FORM", __name__),
    jars=Lazy(".kind:JARS", __name__),
    reader=Lazy("airflow_cdc.spark_apps.adapters.mysql:MySqlReader"),
    copies=Lazy("airflow_cdc.spark_apps.adapters.mysql_copies:MySqlCopies"),
)
