"""The Airflow DAG `cdc_repair`, and those of single pipelines (`own_dags`)."""

from airflow_cdc.dags._checks import repair_dags

globals().update(repair_dags())
