"""Builds the DAGs of the registry. Reading pipelines.yaml is the only I/O while a DAG file is parsed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Param, chain

from airflow_cdc import settings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.strategy import STRATEGIES
from airflow_cdc.flows.decide import AUTO
from airflow_cdc.names import RECOVERY_DAG_ID, apply_dag_id
from airflow_cdc.operators.approval import ApproveRecoveryOperator
from airflow_cdc.operators.connector import (
    DetourConnectorOperator,
    RestartConnectorOperator,
    ResumeConnectorOperator,
    ReturnConnectorOperator,
    StopConnectorOperator,
)
from airflow_cdc.operators.diagnose import CdcDiagnoseOperator
from airflow_cdc.operators.hold import HoldBinlogOperator, ReleaseHold
from airflow_cdc.operators.offset import ResetOffsetOperator
from airflow_cdc.operators.open import OpenRecoveryOperator
from airflow_cdc.operators.publish import PublishOperator
from airflow_cdc.operators.repair import COMPARE_TASK, CompareTablesOperator, ConcludeOperator
from airflow_cdc.operators.report import CloseRecoveryOperator, ReportOperator
from airflow_cdc.operators.spark import ApplyChangesOperator, CdcSparkOperator
from airflow_cdc.operators.watch import WatchPipelineOperator, alias_of
from airflow_cdc.operators.watermark import CaptureWatermarkOperator
from airflow_cdc.registry import load_unchanged

START = datetime(2024, 1, 1, tzinfo=UTC)
OUR_WRITER = "cdc_apply"
WATCH_TASK = "watch"
RETRIES_OF_WATCH = 3
# Airflow validates the form of a scheduled DAG whenever it parses it, against the newest draft unless told otherwise:
# with 200 pipelines 0.37 s, and 0.12 s with this one, which has all that our forms use.
PLAIN_SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#"}

RECOVERY_DOC = """
### Recover a pipeline whose position was lost

Observes the pipeline, names the problem, chooses the cheapest safe strategy, carries it out, proves every row, and only
then lets readers see the result. A healthy pipeline is left alone. A run that fails leaves the connector stopped and the
tables as they were: mend what the failed task says and clear that task with everything after it.
"""


def registered() -> dict[str, Pipeline]:
    """The pipelines of the registry; none where there is no registry yet. Raises ConfigError for a bad one."""
    return load_unchanged(settings.registry_path())


def registered_names() -> list[str]:
    """Their names for the form. A bad registry empties the list; the first task of a run then says what is wrong."""
    try:
        return sorted(registered())
    except ConfigError:
        return []


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage within: thousands of objects are made and none goes, and looking for some takes a sixth of
    the time in which 200 pipelines are parsed.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def one_each(pipelines: Iterable[Pipeline], make: Callable[[Pipeline], DAG]) -> dict[str, DAG]:
    """A DAG per pipeline, by id."""
    with uncollected():
        return {dag.dag_id: dag for dag in map(make, pipelines)}


def recovery_params(names: list[str]) -> dict[str, Param]:
    """The form. Names are suggestions, not an enum: each change of an enum would make a new version of the DAG."""
    return {
        "pipeline": Param(
            title="Pipeline",
            type="string",
            minLength=1,
            examples=names,
            description="A name from pipelines.yaml; the list offers those that were there when the DAG was parsed.",
        ),
        "strategy": Param(
            AUTO, title="Strategy", type="string", enum=[AUTO, *STRATEGIES], description_md=_strategies_explained()
        ),
        "tables": Param(
            [],
            title="Tables",
            type=["array", "null"],
            items={"type": "string"},
            description="Recover only these (schema.table, one per line); empty: all tables of the pipeline. The others "
            "keep what they have, so name all that may have lost changes.",
        ),
        "approved": Param(
            False,
            title="Approved",
            type="boolean",
            description="Do not ask a person, even if the plan loses or removes rows. Off: the pipeline's policy says "
            "when one is asked, and the plan is shown then.",
        ),
        "note": Param("", title="Note", type=["string", "null"], description="Why you start this; kept in the report."),
    }


def _strategies_explained() -> str:
    rows = "\n".join(f"- **{row.code}**: {row.when} Loses: {row.data_loss}." for row in STRATEGIES.values())
    return f"- **{AUTO}**: the cheapest that is safe.\n{rows}\n\nOne that does not fit the problem is refused with the reason."


def recovery_dag() -> DAG:
    """`cdc_recovery`: one DAG for all pipelines, triggered with a form."""
    pipeline: dict[str, Any] = {"pipeline": "{{ params.pipeline }}"}
    with DAG(
        RECOVERY_DAG_ID,
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        default_args={"retries": 0, **pipeline},
        params=recovery_params(registered_names()),
        tags=["cdc"],
        doc_md=RECOVERY_DOC,
    ) as dag:
        diagnose = CdcDiagnoseOperator(task_id="diagnose", strategy="{{ params.strategy }}")
        approve = ApproveRecoveryOperator(task_id="approve")
        restart = RestartConnectorOperator(task_id="restart_connector")
        opened = OpenRecoveryOperator(task_id="open_recovery")
        stop = StopConnectorOperator(task_id="stop_connector")
        hold = HoldBinlogOperator(task_id="hold_binlog")
        watermark = CaptureWatermarkOperator(task_id="fence_and_watermark")
        recover = CdcSparkOperator(task_id="recover", app="recover")
        offset = ResetOffsetOperator(task_id="reset_offset")
        resume = ResumeConnectorOperator(task_id="resume_connector")
        release = ReleaseHold(task_id="release_hold").as_teardown(on_failure_fail_dagrun=False)
        verify = CdcSparkOperator(task_id="verify", app="verify")
        publish = PublishOperator(task_id="publish")
        close = CloseRecoveryOperator(task_id="close")
        detour = DetourConnectorOperator(task_id="detour_connector")
        back = ReturnConnectorOperator(task_id="return_connector", trigger_rule="none_failed")
        compare = CompareTablesOperator(task_id=COMPARE_TASK)
        verdict = ConcludeOperator(task_id="verdict")
        report = ReportOperator(task_id="report").as_teardown(on_failure_fail_dagrun=False)
        chain(diagnose, approve, [restart, opened])
        chain(opened, [stop, detour])
        chain(opened, back)  # so that a run without a recovery skips it, too
        chain(detour, back, compare, verdict, report)
        chain(stop, [hold, watermark])
        chain(watermark, recover, offset, resume, publish)
        chain(recover, verify, publish, close, report)
        chain(resume, release)
        chain(restart, report)
    return dag


def apply_params() -> dict[str, Param]:
    """A scheduled run leaves them as they are; `airflow cdc dead-letters replay` does not."""
    return {
        "replay": Param(
            False,
            title="Replay dead letters",
            type="boolean",
            description="Read the rows of all unresolved dead letters again, also of those tried too often.",
            **PLAIN_SCHEMA,
        ),
        "tables": Param(
            [],
            title="Tables",
            type=["array", "null"],
            items={"type": "string"},
            description="Only these; empty: all.",
            **PLAIN_SCHEMA,
        ),
    }


def apply_dag(pipeline: Pipeline) -> DAG:
    """`cdc_apply__<name>`: topics → sink tables, one run at a time."""
    with DAG(
        apply_dag_id(pipeline.name),
        schedule=settings.apply_schedule(),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 0},
        params=apply_params(),
        tags=["cdc", pipeline.name],
        doc_md=f"Applies the change events of pipeline **{pipeline.name}** to `{pipeline.sink.namespace}`.",
    ) as dag:
        ApplyChangesOperator(task_id="apply", pipeline=pipeline.name)
    return dag


def watch_dag_id(name: str) -> str:
    """The id of the DAG that watches pipeline `name`."""
    return f"cdc_watch__{name}"


def watch_dag(pipeline: Pipeline) -> DAG:
    """`cdc_watch__<name>`: one deferred task per pipeline; one outage makes one run of `cdc_recovery`, if the policy says so."""
    outage = f"{{{{ ti.xcom_pull(task_ids='{WATCH_TASK}')['outage'] }}}}"
    with DAG(
        watch_dag_id(pipeline.name),
        schedule="@continuous",
        start_date=START,
        catchup=False,
        is_paused_upon_creation=True,  # watching, and recovering at night, is for the owner to switch on
        max_active_runs=1,
        default_args={"retries": 0},
        tags=["cdc", pipeline.name],
        doc_md=f"Watches pipeline **{pipeline.name}**, tells of each outage once, and recovers it where its policy allows.",
    ) as dag:
        watch = WatchPipelineOperator(
            task_id=WATCH_TASK,
            pipeline=pipeline.name,
            outlets=[alias_of(pipeline.name)],
            retries=RETRIES_OF_WATCH,
            retry_delay=timedelta(minutes=1),
        )
        recover = TriggerDagRunOperator(
            task_id="recover",
            trigger_dag_id=RECOVERY_DAG_ID,
            trigger_run_id=f"watch__{pipeline.name}__{outage}",
            conf={"pipeline": pipeline.name, "strategy": AUTO, "note": f"found by {watch_dag_id(pipeline.name)}"},
            skip_when_already_exists=True,
        )
        chain(watch, recover)
    return dag


def watch_dags() -> dict[str, DAG]:
    """One DAG per pipeline, by id. A bad registry makes none: the apply DAGs' file says what is wrong with it, once."""
    try:
        declared = registered()
    except ConfigError:
        return {}
    return one_each(declared.values(), watch_dag)


def apply_dags() -> dict[str, DAG]:
    """One DAG per pipeline whose sink we write, by id."""
    ours = (pipeline for pipeline in registered().values() if pipeline.sink.writer == OUR_WRITER)
    return one_each(ours, apply_dag)
