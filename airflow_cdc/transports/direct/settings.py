"""`kind: direct` in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import key, settings


@settings
class DirectSettings(TransportSpec):
    """Nothing in between: the connector writes the sink itself, and events cannot be read again."""

    conn_id: str = key("Not used: there is nothing to connect to.", default="")
