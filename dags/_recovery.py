"""`cdc_recovery`: detect, stop, snapshot, write the offset, restart, verify, publish, report."""

from __future__ import annotations

from airflow.sdk import DAG, Param, chain

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
from airflow_cdc.decisions.diagnosis.strategy import AUTO, STRATEGIES
from airflow_cdc.names import ASK_AGAIN_TASK, RECOVERY_DAG_ID
from airflow_cdc.operators.approval import ApproveRecoveryOperator
from airflow_cdc.operators.ask_again import AskAgainOperator
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
from airflow_cdc.operators.proven import PUBLISH_TASK, VERDICT_TASK
from airflow_cdc.operators.publish import PublishOperator
from airflow_cdc.operators.repair import COMPARE_TASK, CompareTablesOperator, ConcludeOperator
from airflow_cdc.operators.report import CloseRecoveryOperator, ReportOperator
from airflow_cdc.operators.spark import CdcSparkOperator
from airflow_cdc.operators.watermark import CaptureWatermarkOperator

RECOVERY_DOC = """
### Recover a pipeline whose position was lost

Diagnoses the pipeline, chooses the cheapest safe strategy, carries it out, proves every row, and only
then shows the result to readers. A healthy pipeline is not touched. A run that fails leaves the connector stopped and the
tables as they were: fix what the failed task reports, then clear that task and all tasks after it.
"""


def recovery_params(pipeline: Pipeline | None) -> dict[str, Param]:
    """The form."""
    return {
        "pipeline": pipeline_param(pipeline),
        "strategy": Param(
            AUTO, title="Strategy", type="string", enum=[AUTO, *STRATEGIES], description_md=_strategies_explained()
        ),
        "tables": tables_param(
            "Recover only these (schema.table, one per line); empty: all tables of the pipeline. The others "
            "keep their rows, so name every table that may have lost changes."
        ),
        "approved": Param(
            False,
            title="Approved",
            type="boolean",
            description="Do not ask for approval, even if the plan loses or removes rows. Off: the pipeline's policy "
            "decides whether a person is asked, with the plan.",
        ),
        "note": Param(
            "", title="Note", type=["string", "null"], description="Why you start this; stored in the report."
        ),
    }


def _strategies_explained() -> str:
    rows = "\n".join(f"- **{row.code}**: {row.when} Loses: {row.data_loss}." for row in STRATEGIES.values())
    return f"- **{AUTO}**: the cheapest safe one.\n{rows}\n\nA strategy that does not fit the problem is refused, with the reason."


def recovery_dag(pipeline: Pipeline | None = None) -> DAG:
    """`cdc_recovery`, for all pipelines; or `cdc_recovery__<name>`, for one that has DAGs of its own."""
    with DAG(
        dag_name(pipeline, RECOVERY_DAG_ID),
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        default_args=step_defaults(pipeline),
        params=recovery_params(pipeline),
        tags=tags_of(pipeline),
        doc_md=RECOVERY_DOC,
    ) as dag:
        diagnose = CdcDiagnoseOperator(task_id="diagnose", strategy="{{ params.strategy }}")
        approve = ApproveRecoveryOperator(task_id="approve")
        again = AskAgainOperator(task_id=ASK_AGAIN_TASK, trigger_rule="all_skipped")
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
        publish = PublishOperator(task_id=PUBLISH_TASK)
        close = CloseRecoveryOperator(task_id="close")
        detour = DetourConnectorOperator(task_id="detour_connector")
        back = ReturnConnectorOperator(task_id="return_connector", trigger_rule="none_failed")
        compare = CompareTablesOperator(task_id=COMPARE_TASK)
        verdict = ConcludeOperator(task_id=VERDICT_TASK)
        report = ReportOperator(task_id="report").as_teardown(on_failure_fail_dagrun=False)
        chain(diagnose, approve, [restart, opened], again, report)
        chain(opened, [stop, detour])
        chain(opened, back)  # so that it is also skipped in a run without a recovery
        chain(detour, back, compare, verdict, report)
        chain(stop, [hold, watermark])
        chain(watermark, recover, offset, resume, publish)
        chain(recover, verify, publish, close, report)
        chain(resume, release)
    return dag


def recovery_dags() -> dict[str, DAG]:
    """The DAG for all pipelines and those of single ones, by id."""
    return own_and_shared(recovery_dag)
