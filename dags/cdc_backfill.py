"""The Airflow DAGs `cdc_backfill__<pipeline>`, one per pipeline that says how its tables are divided."""

from airflow_cdc.dags._checks import backfill_dags

globals().update(backfill_dags())
