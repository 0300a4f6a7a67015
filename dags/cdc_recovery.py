"""The Airflow DAGs `cdc_recovery` and `cdc_abandon`, which gives up a recovery."""

from airflow_cdc.dags._abandon import abandon_dag
from airflow_cdc.dags._recovery import recovery_dag

cdc_recovery = recovery_dag()
cdc_abandon = abandon_dag()
