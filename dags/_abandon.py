"""Builds the DAG `cdc_abandon`: the form by which a person gives up an open recovery."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.dags._factory import (
    START,
    dag_name,
    own_and_shared,
    pipeline_param,
    step_defaults,
    tables_param,
    tags_of,
)
from airflow_cdc.names import ABANDON_DAG_ID
from airflow_cdc.operators.abandon import AbandonRecoveryOperator

ABANDON_DOC = """
### Give up an open recovery, or some of its tables

For a recovery that cannot finish because a table was dropped at the source or cannot be made equal. Readers keep seeing the
abandoned tables as they were before the recovery; apply refuses them, and the diagnosis names them until another recovery
publishes them. The other tables continue. **The connector is not touched**; the task's log says in which state it is.
"""


def abandon_dag(pipeline: Pipeline | None = None) -> DAG:
    """`cdc_abandon`, for all pipelines; or `cdc_abandon__<name>`, for one that has DAGs of its own."""
    with DAG(
        dag_name(pipeline, ABANDON_DAG_ID),
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        default_args=step_defaults(pipeline),
        params={
            "pipeline": pipeline_param(pipeline),
            "tables": tables_param(
                "Only these tables (schema.table, one per line); empty: all that are not published yet."
            ),
            "reason": Param(title="Reason", type="string", minLength=1, description="Why; stored in the audit."),
        },
        tags=tags_of(pipeline),
        doc_md=ABANDON_DOC,
    ) as dag:
        AbandonRecoveryOperator(task_id="abandon")
    return dag


def abandon_dags() -> dict[str, DAG]:
    """The DAG for all pipelines and those of single ones, by id."""
    return own_and_shared(abandon_dag)
