"""`cdc_maintain__<pipeline>`: what is small, old or deleted in the sink tables."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_cdc.config import settings
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.dags._factory import START, one_each, tags_of, task_defaults, with_our_writer
from airflow_cdc.names import maintain_dag_id
from airflow_cdc.operators.spark import MaintainOperator

DOC = """
Maintains the tables of `{namespace}`: compacts small files and drops what is older than `maintenance.expire_after`.
It changes no rows; applies, recoveries and comparisons may run at the same time.
"""


def maintain_dag(pipeline: Pipeline) -> DAG:
    """`cdc_maintain__<name>`: one task, one run at a time."""
    with DAG(
        maintain_dag_id(pipeline.name),
        schedule=settings.maintain_schedule(),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args=task_defaults(pipeline),
        tags=tags_of(pipeline),
        doc_md=DOC.format(namespace=pipeline.sink.namespace),
    ) as dag:
        MaintainOperator(task_id="maintain", pipeline=pipeline.name)
    return dag


def maintain_dags() -> dict[str, DAG]:
    """One DAG per pipeline whose sink we write, by id."""
    return one_each(with_our_writer(), maintain_dag)
