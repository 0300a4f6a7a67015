"""The Airflow DAGs `cdc_apply__<pipeline>`, one per pipeline of the registry."""

from airflow_cdc.dags._apply import apply_dags

globals().update(apply_dags())
