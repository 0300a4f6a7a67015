"""The settings of an Iceberg sink in pipelines.yaml."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import NAME, key, settings

# the names of Spark's settings and of the control table contain the catalog's name
_CATALOG = replace(NAME, names_connection=True)


@settings
class IcebergSettings(SinkSpec):
    """An Iceberg catalog, and the namespace of the tables in it."""

    writer: Literal["cdc_apply", "connector"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`, or the connector itself (with `transport.kind` direct).",
        default="cdc_apply",
        kw_only=True,
    )
    catalog: str = key(
        "Name of the Iceberg catalog, which is also the id of the Airflow connection that describes it.", form=_CATALOG
    )
    staging: Literal["auto", "registered", "beside"] = key(
        "How stages are made: `registered` on the tables' own files, or `beside` them, in tables of their own. `auto` "
        "registers them if the catalog allows it.",
        default="auto",
        kw_only=True,
    )

    def at(self, endpoint: Any) -> Any:
        """The catalog with this pipeline's way of staging."""
        return endpoint if self.staging == "auto" else endpoint.staged(self.staging)
