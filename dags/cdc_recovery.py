"""The Airflow DAG `cdc_recovery`."""

from airflow_cdc.dags._recovery import recovery_dag

cdc_recovery = recovery_dag()
