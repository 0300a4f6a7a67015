"""The Airflow DAG `cdc_repair`."""

from airflow_cdc.dags._checks import repair_dag

cdc_repair = repair_dag()
