"""The Airflow DAGs `cdc_maintain__<pipeline>`, one per pipeline of the registry."""

from airflow_cdc.dags._maintain import maintain_dags

globals().update(maintain_dags())
