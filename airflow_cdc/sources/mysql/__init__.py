"""MySQL."""

from airflow_cdc.core.kind import Lazy, SourceKind

KIND = SourceKind(
    name="mysql",
    title="MySQL",
    client=Lazy(".client:MySqlSource", __name__),
    rules=Lazy(".problems:RULES", __name__),
    hook=Lazy("airflow_cdc.hooks.mysql:CdcMySqlHook"),
    reader=Lazy("airflow_cdc.spark_apps.adapters.mysql:rows_frame"),
)
