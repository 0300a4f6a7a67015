"""Iceberg."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.iceberg.kind import IcebergSettings

KIND = SinkKind(
    name="iceberg",
    title="Apache Iceberg",
    settings=IcebergSettings,
    endpoint=Lazy(".kind:IcebergEndpoint", __name__),
    client=Lazy(".client:open_lake", __name__),
    setup=Lazy(".kind:SETUP", __name__),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
    form=Lazy(".kind:FORM", __name__),
    jars=Lazy(".kind:JARS", __name__),
    jars_of=Lazy(".kind:catalog_needs", __name__),
    stages=Lazy("airflow_cdc.spark_apps.adapters.iceberg:IcebergWriter"),
    letters=Lazy("airflow_cdc.spark_apps.adapters.iceberg_letters:IcebergLetters"),
    keeper=Lazy("airflow_cdc.spark_apps.adapters.iceberg_keeper:IcebergKeeper"),
    control=Lazy(".control:IcebergControlStore", __name__),
)
