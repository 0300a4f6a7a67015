"""Operators: each resolves its pipeline, calls one step of `flows`, and returns the step's plain dict."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
