"""Triggers: declarations over one base that owns serialization, the poll loop and the event's shape."""

from airflow_cdc.airflow_version import check_airflow

check_airflow()
