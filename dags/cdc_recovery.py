"""The Airflow DAGs `cdc_recovery` and `cdc_abandon`, which gives up a recovery; both also of single pipelines (`own_dags`)."""

from airflow_cdc.dags._abandon import abandon_dags
from airflow_cdc.dags._recovery import recovery_dags

globals().update({**recovery_dags(), **abandon_dags()})
