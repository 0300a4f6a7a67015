"""The DAG collection; see `airflow cdc init` for how Airflow finds it."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
