"""A MariaDB source's settings in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class MariaDbSettings(SourceSpec):
    """A MariaDB server."""

    conn_id: str = key(
        "Airflow connection (`cdc_mysql` or `mysql`) of the server that the connector reads.", form=CONNECTION
    )
