"""A table in an Iceberg catalog, which need not be the pipeline's sink."""

from __future__ import annotations

from dataclasses import replace

from airflow_cdc.core.kind import ControlKind, Lazy
from airflow_cdc.core.pipeline import ControlSpec
from airflow_cdc.core.settings import NAME, key, settings

_CATALOG = replace(NAME, names_connection=True)


@settings
class IcebergControlSettings(ControlSpec):
    """`kind: iceberg`."""

    catalog: str = key("Airflow connection of the Iceberg catalog.", form=_CATALOG)


KIND = ControlKind(
    name="iceberg",
    title="Apache Iceberg",
    settings=IcebergControlSettings,
    endpoint=Lazy("airflow_cdc.sinks.iceberg.kind:IcebergEndpoint"),
    client=Lazy("airflow_cdc.sinks.iceberg.control:open_control_store"),
    hook=Lazy("airflow_cdc.hooks.iceberg:IcebergCatalogHook"),
    form=Lazy("airflow_cdc.sinks.iceberg.kind:FORM"),
)
