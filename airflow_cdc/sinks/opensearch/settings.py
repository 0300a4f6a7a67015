"""The settings of an OpenSearch sink in pipelines.yaml."""

from __future__ import annotations

from typing import Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class OpenSearchSettings(SinkSpec):
    """An OpenSearch cluster, and the first part of the names of the aliases in it."""

    writer: Literal["cdc_apply"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`.", default="cdc_apply", kw_only=True
    )
    conn_id: str = key("Airflow connection of the OpenSearch cluster.", form=CONNECTION)
