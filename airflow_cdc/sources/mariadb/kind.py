"""What is known of MariaDB before a client is opened: its settings in pipelines.yaml, init's questions."""

from __future__ import annotations

from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.sources.mysql.kind import server


@settings
class MariaDbSettings(SourceSpec):
    """A MariaDB server."""

    conn_id: str = key(
        "Airflow connection (`cdc_mysql` or `mysql`) of the server that the connector reads.", form=CONNECTION
    )


SETUP = server("mariadb", "MariaDB")
