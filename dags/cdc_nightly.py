"""The Airflow DAGs `cdc_nightly_consistency__<pipeline>`, one per pipeline of the registry."""

from airflow_cdc.dags._checks import nightly_dags

globals().update(nightly_dags())
