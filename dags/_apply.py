"""`cdc_apply__<pipeline>`: change events to sink tables."""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_cdc.config import settings
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.dags._factory import START, one_each, tables_param, tags_of, task_defaults, with_our_writer
from airflow_cdc.names import apply_dag_id
from airflow_cdc.operators.spark import ApplyChangesOperator

# Airflow validates the form of a scheduled DAG at every parse, by default against the newest draft: with 200 pipelines
# 0.37 s. With this draft, which has everything that our forms use, 0.12 s.
PLAIN_SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#"}


def apply_params() -> dict[str, Param]:
    """A scheduled run uses the defaults; `airflow cdc dead-letters replay` sets them."""
    return {
        "replay": Param(
            False,
            title="Replay dead letters",
            type="boolean",
            description="Read the rows of all unresolved dead letters again, even those that were tried too often.",
            **PLAIN_SCHEMA,
        ),
        "tables": tables_param("Only these tables; empty: all.", **PLAIN_SCHEMA),
    }


def _schedule(pipeline: Pipeline) -> str | None:
    """A continuous pipeline's next run begins when its last one ends; `apply_schedule = none` leaves either to triggers."""
    schedule = settings.apply_schedule()
    return "@continuous" if pipeline.apply.continuous and schedule is not None else schedule


def apply_dag(pipeline: Pipeline) -> DAG:
    """`cdc_apply__<name>`: topics → sink tables, one run at a time."""
    with DAG(
        apply_dag_id(pipeline.name),
        schedule=_schedule(pipeline),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args=task_defaults(pipeline),
        params=apply_params(),
        tags=tags_of(pipeline),
        doc_md=f"Applies the change events of pipeline **{pipeline.name}** to `{pipeline.sink.namespace}`.",
    ) as dag:
        ApplyChangesOperator(task_id="apply", pipeline=pipeline.name)
    return dag


def apply_dags() -> dict[str, DAG]:
    """One DAG per pipeline whose sink we write, by id."""
    return one_each(with_our_writer(), apply_dag)
