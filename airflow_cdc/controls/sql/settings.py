"""The settings of a control store in a SQL database in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.pipeline import ControlSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class SqlControlSettings(ControlSpec):
    """`kind: sql`."""

    conn_id: str = key(
        "Airflow connection of the database (`cdc_sql_control`, `postgres`, `mysql` or `sqlite`).", form=CONNECTION
    )
