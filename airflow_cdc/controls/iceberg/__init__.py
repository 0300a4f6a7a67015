"""A table in an Iceberg catalog, which need not be the pipeline's sink."""

from airflow_cdc.controls.iceberg.settings import IcebergControlSettings
from airflow_cdc.core.kind import ControlKind, Lazy

KIND = ControlKind(
    name="iceberg",
    title="Apache Iceberg",
    settings=IcebergControlSettings,
    endpoint=Lazy("airflow_cdc.sinks.iceberg.endpoint:IcebergEndpoint"),
    client=Lazy("airflow_cdc.sinks.iceberg.control:open_control_store"),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
    form=Lazy("airflow_cdc.sinks.iceberg.kind:FORM"),
)
