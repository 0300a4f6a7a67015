"""Builds the DAGs that compare and repair without a recovery: nightly, on request, and by interval."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, chain

from airflow_cdc.config import settings
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.dags._factory import (
    START,
    compared_at_night,
    dag_name,
    one_each,
    own_and_shared,
    pipeline_param,
    step_defaults,
    tables_param,
    tags_of,
    task_defaults,
    with_our_writer,
)
from airflow_cdc.names import REPAIR_DAG_ID, nightly_dag_id
from airflow_cdc.operators.proven import VERDICT_TASK, AnnounceOperator
from airflow_cdc.operators.repair import (
    COMPARE_TASK,
    ApproveRepairOperator,
    BackfillOperator,
    CompareTablesOperator,
    ConcludeOperator,
    NightlyCheckOperator,
    RepairOperator,
)

# parts of a table may run in parallel; each needs a Spark driver
BACKFILLS_AT_ONCE = 4
MIDNIGHT = "0 0 * * *"

REPAIR_DOC = """
### Compare tables with their source, and rewrite the rows that differ

Lists every key that differs, asks a person if the policy requires it, rewrites only those rows, compares again
and publishes only tables that are equal. With *Dry run* it stops after listing the keys. Where others write the tables
from the topics, the connector rests for a moment while what differs is written there.
"""
NIGHTLY_DOC = """
Compares **{name}** with its source: everything that changed since the last night, and a seventh of the rest. Red means that
rows differ (MISMATCH) or that something could not be read (INCONCLUSIVE); the report of the task `compare` lists the keys.
"""
BACKFILL_DOC = """
Brings the rows of past days of **{name}** up to what its source holds now:
`airflow backfill create --dag-id {dag_id} --from-date 2026-01-01 --to-date 2026-01-31`. Scheduled runs do nothing.
"""


def _mend(dag: DAG, **common: Any) -> None:
    """Approve → repair, and the verdict in any case: a Reject leaves the rows wrong, so the run fails."""
    approve = ApproveRepairOperator(task_id="approve", **common)
    repair = RepairOperator(task_id="repair", **common)
    verdict = ConcludeOperator(task_id=VERDICT_TASK, **common).as_teardown(on_failure_fail_dagrun=True)
    announce = AnnounceOperator(task_id="announce", **common).as_teardown(on_failure_fail_dagrun=False)
    chain(dag.get_task(COMPARE_TASK), approve, repair, verdict, announce)


def repair_params(pipeline: Pipeline | None) -> dict[str, Param]:
    """The form of `cdc_repair`."""
    return {
        "pipeline": pipeline_param(pipeline),
        "tables": tables_param("Only these tables (schema.table, one per line); empty: all tables of the pipeline."),
        "dry_run": Param(False, title="Dry run", type="boolean", description="Only list the rows that differ."),
        "approved": Param(
            False,
            title="Approved",
            type="boolean",
            description="Do not ask for approval, however many rows are deleted.",
        ),
        "note": Param("", title="Note", type=["string", "null"], description="Why."),
    }


def repair_dag(pipeline: Pipeline | None = None) -> DAG:
    """`cdc_repair`, for all pipelines; or `cdc_repair__<name>`, for one that has DAGs of its own."""
    with DAG(
        dag_name(pipeline, REPAIR_DAG_ID),
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        default_args=step_defaults(pipeline),
        params=repair_params(pipeline),
        tags=tags_of(pipeline),
        doc_md=REPAIR_DOC,
    ) as dag:
        CompareTablesOperator(task_id=COMPARE_TASK)
        _mend(dag)
    return dag


def repair_dags() -> dict[str, DAG]:
    """The DAG for all pipelines and those of single ones, by id."""
    return own_and_shared(repair_dag)


def nightly_dag(pipeline: Pipeline) -> DAG:
    """`cdc_nightly_consistency__<name>`: compare, and repair if the policy allows it."""
    with DAG(
        nightly_dag_id(pipeline.name),
        schedule=settings.nightly_schedule(),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args=task_defaults(pipeline),
        tags=tags_of(pipeline),
        doc_md=NIGHTLY_DOC.format(name=pipeline.name),
    ) as dag:
        NightlyCheckOperator(task_id=COMPARE_TASK, pipeline=pipeline.name)
        _mend(dag, pipeline=pipeline.name)
    return dag


def backfill_dag_id(name: str) -> str:
    """The id of the DAG that backfills pipeline `name`."""
    return f"cdc_backfill__{name}"


def backfill_dag(pipeline: Pipeline) -> DAG:
    """`cdc_backfill__<name>`: one run per day, for `airflow backfill create`."""
    dag_id = backfill_dag_id(pipeline.name)
    with DAG(
        dag_id,
        schedule=CronDataIntervalTimetable(MIDNIGHT, timezone="UTC"),
        start_date=START,
        catchup=False,
        max_active_tasks=BACKFILLS_AT_ONCE,
        default_args=task_defaults(pipeline),
        tags=tags_of(pipeline),
        doc_md=BACKFILL_DOC.format(name=pipeline.name, dag_id=dag_id),
    ) as dag:
        BackfillOperator(task_id="backfill", pipeline=pipeline.name)
    return dag


def nightly_dags() -> dict[str, DAG]:
    """One DAG per pipeline whose sink we write, or a sink connector, by id."""
    return one_each(compared_at_night(), nightly_dag)


def backfill_dags() -> dict[str, DAG]:
    """One DAG per pipeline whose registry entry says how its tables are divided, by id."""
    return one_each((pipeline for pipeline in with_our_writer() if pipeline.backfill), backfill_dag)
