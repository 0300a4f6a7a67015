"""Compare and repair without a recovery: the nightly check, the repair on request, and the backfill of an interval."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from airflow_cdc import metrics
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.report import Verdict
from airflow_cdc.names import IN_ADVANCE, NOT_NEEDED
from airflow_cdc.operators.base import CdcOperator, asked_for, decision_of
from airflow_cdc.operators.policy_approval import PolicyApprovalOperator, answered_by
from airflow_cdc.operators.spark import CdcSparkOperator

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Facts, Run

COMPARE_TASK = "compare"
SCHEDULED = "scheduled"


class NightlyCheckOperator(CdcSparkOperator):
    """Compare the rows changed since the last night, and a share of the rest; changes nothing."""

    app = "nightly"


class CompareTablesOperator(CdcSparkOperator):
    """Compare whole tables and report which rows a repair would write and delete; changes nothing."""

    app = "repair"

    def driver_options(self, context: Context, pipeline: Pipeline) -> dict[str, object]:
        return {**super().driver_options(context, pipeline), "dry_run": True}


class ApproveRepairOperator(PolicyApprovalOperator):
    """Waits for Approve or Reject if `compare` says that a person must be asked; otherwise succeeds at once.

    Skipped if there is nothing to repair, or if this is a dry run (`dry_run`).

    :param compare_task: the task whose findings need approval.
    """

    def __init__(self, *, pipeline: str, compare_task: str = COMPARE_TASK, **kwargs: Any) -> None:
        kwargs.setdefault("subject", f"Repair rows of pipeline {pipeline}?")
        super().__init__(pipeline=pipeline, **kwargs)
        self.compare_task = compare_task

    def execute(self, context: Context) -> Facts:
        decision, params = decision_of(context, self.compare_task), context.get("params") or {}
        if params.get("dry_run") or not decision.get("plans"):
            raise AirflowSkipException("nothing to repair (or this is a dry run)")
        if not decision["needs_approval"]:
            return {"approved": NOT_NEEDED}
        if params.get("approved"):
            return {"approved": IN_ADVANCE}
        return self.ask(context, question(decision), self._headline(decision))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Facts:
        if event.get("chosen_options") == [self.APPROVE]:
            self.note_approved(context, f"by {answered_by(event)}")
        answer: Facts = super().execute_complete(context, event)
        return answer

    def _headline(self, decision: Facts) -> str:
        tables = "; ".join(
            f"{plan['table']}: {plan['writes']} to write, {plan['deletes']} to delete"
            for plan in decision["plans"].values()
        )
        return f"{self.pipeline}: rows of the sink differ from the source. A person is asked to approve a repair of {tables}."


def question(decision: Facts) -> str:
    """The question in Markdown: how many rows of which table, the first keys, and where all of them are."""
    tables = "\n".join(_about(plan) for plan in decision["plans"].values())
    return (
        f"Rows of the sink differ from the source:\n\n{tables}\n\nAll keys: `{decision.get('keys', '')}`\n\n"
        "After the answer the tables are compared again; nothing is deleted beyond what you approve here or "
        "`max_deletes` allows, and only tables that equal the source are published."
    )


def _about(plan: Mapping[str, Any]) -> str:
    how = "re-read whole (it has no key)" if plan["replaces"] else f"{plan['writes']} rows written"
    first = ", ".join(f"`{key}`" for key in plan["first"])
    return f"- **{plan['table']}** ({plan['rows']} rows): {how}, **{plan['deletes']} deleted**. First: {first}"


class RepairOperator(CdcSparkOperator):
    """Rewrite the rows that `compare` found wrong; skipped if it found none.

    :param compare_task: the task whose findings are repaired.
    """

    app = "repair"

    def __init__(self, *, compare_task: str = COMPARE_TASK, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compare_task = compare_task

    def execute(self, context: Context) -> Facts:
        if not decision_of(context, self.compare_task).get("plans"):
            raise AirflowSkipException("there is nothing to repair")
        return super().execute(context)

    def driver_options(self, context: Context, pipeline: Pipeline) -> dict[str, object]:
        """The tables that differ, and how many deletes were approved, by a person or in advance."""
        options, decision = super().driver_options(context, pipeline), decision_of(context, self.compare_task)
        agreed = bool(decision["needs_approval"] or options.get("approved"))
        deletes = {table: plan["deletes"] for table, plan in decision["plans"].items()} if agreed else {}
        return {**options, "tables": list(decision["plans"]), "deletes": deletes, "dry_run": False}


class ConcludeOperator(CdcOperator):
    """The run's verdict: fails unless every table is MATCH. Use with `.as_teardown()`, so that a Reject fails too.

    Skipped in a dry run (`dry_run`). Its result names the tables that are MATCH, for `AnnounceOperator`.
    """

    def execute(self, context: Context) -> Facts:
        if (context.get("params") or {}).get("dry_run"):
            raise AirflowSkipException("there was nothing to repair")
        return super().execute(context)

    def step(self, run: Run) -> Facts:
        from airflow_cdc.flows.checks import conclude
        from airflow_cdc.reports.store import ReportStore

        proven: list[str] = []
        if report := ReportStore(run.report_dir).report(run.pipeline.name, run.run_id):
            metrics.of_report(report)
            proven = [one.table for one in report.tables if one.verdict is Verdict.MATCH]
        return {**conclude(run), "proven": proven}


class BackfillOperator(CdcSparkOperator):
    """Make the run's data interval equal to the source. Scheduled runs are skipped: they only mark the intervals."""

    app = "backfill"

    def execute(self, context: Context) -> Facts:
        if str(context["dag_run"].run_type).rpartition(".")[2].lower() == SCHEDULED:
            raise AirflowSkipException("scheduled runs do nothing: use airflow backfill create")
        return super().execute(context)

    def driver_options(self, context: Context, pipeline: Pipeline) -> dict[str, object]:
        start, end = context.get("data_interval_start"), context.get("data_interval_end")
        if not isinstance(start, datetime) or not isinstance(end, datetime):
            raise UsageError(
                "the run has no data interval", where=f"pipeline {pipeline.name}", todo="Use airflow backfill create."
            )
        return {**asked_for(context, pipeline), "from": start.isoformat(), "to": end.isoformat()}
