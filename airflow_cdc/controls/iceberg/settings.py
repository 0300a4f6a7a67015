"""The settings of a control store in an Iceberg catalog in pipelines.yaml."""

from __future__ import annotations

from dataclasses import replace

from airflow_cdc.core.pipeline import ControlSpec
from airflow_cdc.core.settings import NAME, key, settings

_CATALOG = replace(NAME, names_connection=True)


@settings
class IcebergControlSettings(ControlSpec):
    """`kind: iceberg`."""

    catalog: str = key("Airflow connection of the Iceberg catalog.", form=_CATALOG)
