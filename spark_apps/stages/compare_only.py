"""Tables that others write: compared as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, SinkError
from airflow_cdc.core.pipeline import Corrected, Writer
from airflow_cdc.core.report import overall
from airflow_cdc.decisions.compare.repair import RepairPlan, needs_approval
from airflow_cdc.flows.checks import report_check
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.reports.stored import CHECK
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.in_place import compare_in_place
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.systems import open_topics, row_reader
from airflow_cdc.spark_apps.snapshot.folded import Terms, compare_topics
from airflow_cdc.spark_apps.stages.publish import report_of
from airflow_cdc.spark_apps.stages.repair import RepairOutcome, tell
from airflow_cdc.spark_apps.stages.work import Patience

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compare_only(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Facts:
    """Compare tables that others write, and say what a repair would write into their topics; nothing is written."""
    names = run.tables
    try:
        results = compared_now(run, spark, names, Patience.of(run, settings).seconds)
    except CdcError as error:
        facts = report_check(run, {name: unproven(name, str(error)) for name in names}, evidence={})
        return {**facts, "dry_run": True, **asked(run, [])}
    verdict = overall(one.report.verdict for one in results)
    repairable = run.pipeline.corrected is Corrected.THROUGH_TOPICS
    plans = [one.plan for one in results if repairable and one.wrong]
    return {**tell(run, results, CHECK), "verdict": str(verdict), "dry_run": True, **asked(run, plans)}


def compared_now(run: Run, spark: SparkSession, names: Sequence[str], seconds: float) -> list[RepairOutcome]:
    """Compare tables as they are, while others write them. `seconds`: how long a connector may stand still meanwhile."""
    xa = run.clients.source.xa()
    with explained(SinkError, "compare the tables", where=run.where, todo="Nothing was changed; run it again."):
        here = run.clients.source.position()
        if run.pipeline.sink.writer == Writer.CONSUMERS:
            outcomes = compare_topics(run, spark, open_topics(run), names, Terms(here, seconds))
        else:
            outcomes = compare_in_place(run, spark, names, here, seconds)
    for outcome in outcomes:
        keep_rows(run, row_reader(run), spark, outcome)
    results = [_as_it_is(outcome) for outcome in outcomes]
    run.clients.control.compared(xa, {one.table.full_name: one.report.verdict for one in results})
    return results


def _as_it_is(outcome: Outcome) -> RepairOutcome:
    table = outcome.subject.table
    return RepairOutcome(table, RepairPlan.of(table, outcome.tally, outcome.sink_rows), report_of(outcome))


def asked(run: Run, plans: Sequence[RepairPlan]) -> Facts:
    """The question for a person, for XCom: `{"plans": {table: summary}, "needs_approval"}`."""
    differing = [plan for plan in plans if plan.keys]
    asks = needs_approval(run.pipeline.policy, [plan.deletions for plan in differing])
    return {"plans": {plan.table: plan.to_json() for plan in differing}, "needs_approval": asks}
