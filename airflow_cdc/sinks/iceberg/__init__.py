"""Iceberg."""

from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.sinks.iceberg.settings import IcebergSettings

KIND = SinkKind(
    name="iceberg",
    title="Apache Iceberg",
    settings=IcebergSettings,
    client=Lazy(".client:Lake", __name__),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
    stages=Lazy("airflow_cdc.spark_apps.adapters.iceberg:IcebergWriter"),
    letters=Lazy("airflow_cdc.spark_apps.adapters.iceberg_letters:IcebergLetters"),
)
