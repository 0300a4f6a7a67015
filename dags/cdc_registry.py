"""No DAG: what is wrong with single pipelines in pipelines.yaml, as Airflow's import error of this file.

The DAGs of all other pipelines are there and run.
"""

from airflow_cdc.dags._factory import check_each

check_each()
