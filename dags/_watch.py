"""`cdc_watch__<pipeline>`: one outage, one recovery."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, chain

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.dags._factory import START, one_each, registered, tags_of, task_defaults
from airflow_cdc.names import RECOVERY_DAG_ID, dag_id_for, watch_dag_id
from airflow_cdc.operators.watch import WatchPipelineOperator, alias_of

WATCH_TASK = "watch"
# a watch that breaks starts again for an hour, and then the next run does: people are told twice an hour, not each time
RETRIES_OF_WATCH = 20
PAUSE_OF_WATCH = timedelta(minutes=3)


def watch_dag(pipeline: Pipeline) -> DAG:
    """`cdc_watch__<name>`: one deferred task per pipeline; an outage starts one `cdc_recovery`, if the policy says so."""
    recovery = f"{{{{ ti.xcom_pull(task_ids='{WATCH_TASK}')['recovery_run_id'] }}}}"
    with DAG(
        watch_dag_id(pipeline.name),
        schedule="@continuous",
        start_date=START,
        catchup=False,
        is_paused_upon_creation=True,  # the owner decides whether to switch on watching, and recovering at night
        max_active_runs=1,
        default_args=task_defaults(pipeline),
        tags=tags_of(pipeline),
        doc_md=f"Watches pipeline **{pipeline.name}**, reports each outage once, and recovers it if the policy allows.",
    ) as dag:
        watch = WatchPipelineOperator(
            task_id=WATCH_TASK,
            pipeline=pipeline.name,
            outlets=[alias_of(pipeline.name)],
            retries=RETRIES_OF_WATCH,
            retry_delay=PAUSE_OF_WATCH,
        )
        recover = TriggerDagRunOperator(
            task_id="recover",
            trigger_dag_id=dag_id_for(pipeline, RECOVERY_DAG_ID),
            trigger_run_id=recovery,
            conf={"pipeline": pipeline.name, "note": f"found by {watch_dag_id(pipeline.name)}"},
            skip_when_already_exists=True,
        )
        chain(watch, recover)
    return dag


def watch_dags() -> dict[str, DAG]:
    """One DAG per pipeline, by id. None for a bad registry: its error is shown once, by the apply DAGs' file."""
    try:
        declared = registered()
    except ConfigError:
        return {}
    return one_each(declared.values(), watch_dag)
