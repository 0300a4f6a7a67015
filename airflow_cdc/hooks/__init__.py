"""Airflow connections turned into the endpoints that the systems' clients take."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
