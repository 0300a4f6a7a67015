"""A recovery of one pipeline with a check of one's own between the verification and the publication."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Param, chain, task

from airflow_cdc.operators.approval import ApproveRecoveryOperator
from airflow_cdc.operators.ask_again import AskAgainOperator
from airflow_cdc.operators.connector import RestartConnectorOperator, ResumeConnectorOperator, StopConnectorOperator
from airflow_cdc.operators.diagnose import CdcDiagnoseOperator
from airflow_cdc.operators.hold import HoldBinlogOperator, ReleaseHold
from airflow_cdc.operators.offset import ResetOffsetOperator
from airflow_cdc.operators.open import OpenRecoveryOperator
from airflow_cdc.operators.publish import PublishOperator
from airflow_cdc.operators.report import CloseRecoveryOperator, ReportOperator
from airflow_cdc.operators.spark import CdcSparkOperator
from airflow_cdc.operators.watermark import CaptureWatermarkOperator

with DAG(
    "recover_shop",
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"pipeline": "shop", "retries": 0},
    params={"strategy": Param("auto", type="string", enum=["auto", "full_snapshot", "diff_repair", "restart"])},
):
    # --8<-- [start:decide]
    diagnose = CdcDiagnoseOperator(task_id="diagnose", strategy="{{ params.strategy }}")
    approve = ApproveRecoveryOperator(task_id="approve")
    restart = RestartConnectorOperator(task_id="restart_connector")
    opened = OpenRecoveryOperator(task_id="open_recovery")
    again = AskAgainOperator(task_id="ask_again", trigger_rule="all_skipped")
    # --8<-- [end:decide]
    # --8<-- [start:read]
    stop = StopConnectorOperator(task_id="stop_connector")
    hold = HoldBinlogOperator(task_id="hold_binlog")
    watermark = CaptureWatermarkOperator(task_id="fence_and_watermark")
    recover = CdcSparkOperator(task_id="recover", app="recover", conf={"spark.executor.memory": "4g"})
    # --8<-- [end:read]
    # --8<-- [start:resume]
    offset = ResetOffsetOperator(task_id="reset_offset")
    resume = ResumeConnectorOperator(task_id="resume_connector")
    release = ReleaseHold(task_id="release_hold").as_teardown(on_failure_fail_dagrun=False)
    # --8<-- [end:resume]
    # --8<-- [start:prove]
    verify = CdcSparkOperator(task_id="verify", app="verify")

    @task(task_id="enough_orders")
    def enough_orders(verified: dict[str, Any]) -> None:
        """Fails, and with it the publication, unless every table was proven equal."""
        if set(verified["tables"].values()) != {"MATCH"}:
            raise RuntimeError(f"not published: {verified['tables']}")

    checked = enough_orders(verify.output)
    publish = PublishOperator(task_id="publish")
    close = CloseRecoveryOperator(task_id="close")
    report = ReportOperator(task_id="report").as_teardown(on_failure_fail_dagrun=False)
    # --8<-- [end:prove]
    # --8<-- [start:order]
    chain(diagnose, approve, [restart, opened], again, report)
    chain(opened, stop, [hold, watermark])
    chain(watermark, recover, offset, resume, release)
    chain(recover, verify, checked, publish, close, report)
    chain(resume, publish)
    # --8<-- [end:order]
