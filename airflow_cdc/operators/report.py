"""Close a published recovery, and report on any run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc import metrics
from airflow_cdc.links import ReportLink
from airflow_cdc.operators.base import DIAGNOSE_TASK, CdcOperator, decision_of
from airflow_cdc.operators.proven import announce, with_outlet

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run


class CloseRecoveryOperator(CdcOperator):
    """Restore settings, drop stages, close the recovery, release the lease; refused while a table is unpublished."""

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.close import close

        return close(run)


class ReportOperator(CdcOperator):
    """Write report.json and the page, whether or not the run succeeded. Use with `.as_teardown(on_failure_fail_dagrun=False)`.

    Each table that the run has proven is an asset event (`proven.proven_asset`).

    :param decision_task: a run in which this task decided nothing (an unknown pipeline) gets no report.
    """

    operator_extra_links = (ReportLink(),)

    def __init__(self, *, decision_task: str = DIAGNOSE_TASK, **kwargs: Any) -> None:
        super().__init__(**with_outlet(kwargs))
        self.decision_task = decision_task

    def execute(self, context: Context) -> Facts:
        if not decision_of(context, self.decision_task):
            raise AirflowSkipException("no decision was made in this run, so there is nothing to report")
        facts = super().execute(context)
        announce(context, self.pipeline)
        return facts

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.close import let_go, report
        from airflow_cdc.reports.data_docs import make_page
        from airflow_cdc.reports.store import ReportStore

        facts, reports = report(run), ReportStore(run.report_dir)
        if stored := reports.report(run.pipeline.name, run.run_id):
            metrics.of_report(stored)
        if run.clients.control.facts().recovery is not None:
            self.log.error(
                "the recovery of %s is still open: connector %s stays as it is (stopped, unless resume_connector ran) and "
                "apply waits; fix what the failed task reports and clear it, or trigger cdc_recovery again",
                run.pipeline.name,
                run.pipeline.connector.name,
            )
        let_go(run)
        make_page(reports, run.pipeline.name, run.run_id)
        return facts
