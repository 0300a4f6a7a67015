"""The Airflow DAG `cdc_recovery`."""

from airflow_cdc.dags._factory import recovery_dag

cdc_recovery = recovery_dag()
