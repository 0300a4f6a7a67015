"""Sensors that wait for a position on the source, deferrable or not."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
