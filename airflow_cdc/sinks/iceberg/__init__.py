"""Iceberg."""

from airflow_cdc.core.kind import Lazy, SinkKind

KIND = SinkKind(
    name="iceberg",
    title="Apache Iceberg",
    client=Lazy(".client:Lake", __name__),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
)
