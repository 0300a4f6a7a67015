"""A MySQL server for Spark."""

from __future__ import annotations

from airflow_cdc.spark_apps.adapters.mysql_rows import MySqlRows


class MySqlReader(MySqlRows):
    """A MySQL server for Spark, as ports.RowReader."""
