"""The commands `airflow cdc …`; nothing heavy is imported until one runs."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
