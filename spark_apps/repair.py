"""The application `repair` (strategy diff_repair): read the rows that differ from the source again, and no others.

Tables that the connector writes itself are only compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import CdcError, ConfigError, RecoveryOpenError, SinkError, UsageError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.report import Verdict, overall
from airflow_cdc.decisions.compare.repair import RepairPlan, needs_approval
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.checks import report_check
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.reports.stored import CHECK, REPAIR
from airflow_cdc.spark_apps.compare.differing_rows import keep_rows
from airflow_cdc.spark_apps.compare.in_place import compare_in_place
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.systems import row_reader
from airflow_cdc.spark_apps.stages.publish import report_of
from airflow_cdc.spark_apps.stages.repair import RepairOutcome, not_matching, tell, try_repair
from airflow_cdc.spark_apps.stages.work import Patience, open_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(settings: Mapping[str, Any]) -> Facts:
    """Repair tables, or report what a repair would do (option `dry_run`). `settings` was written by the operator."""
    with open_app(settings, "repair") as (run, spark):
        return repair(run, spark, settings)


@step("repair")
def repair(run: Run, spark: SparkSession, settings: Mapping[str, Any] | None = None) -> Facts:
    """Compare the tables of the run (option `tables`; default: all), and repair them unless `dry_run` is asked for.

    Raises VerificationError for a table that is not MATCH at the end, once all were tried.
    """
    dry, names = run.options.dry_run, list(run.tables)
    if run.pipeline.corrected is Corrected.BEFORE_START:
        return compare_only(run, spark, settings)
    try:
        work, tables = open_work(run, spark, settings), captured(run, names)
    except (ConfigError, UsageError, RecoveryOpenError):
        raise  # said once: it is no finding about each of the tables
    except CdcError as error:
        facts = report_check(run, {name: unproven(name, str(error)) for name in names}, evidence={})
        if not dry:
            raise
        return {**facts, "dry_run": True, **asked(run, [])}
    outcomes = [try_repair(work, table, dry=dry) for table in tables.values()]
    run.clients.control.compared(work.xa, {one.table.full_name: one.report.verdict for one in outcomes})
    verdict = overall(one.report.verdict for one in outcomes)
    facts = tell(run, outcomes, CHECK if dry else REPAIR)
    if verdict is not Verdict.MATCH and not dry:
        raise not_matching(run, outcomes)
    return {**facts, "verdict": str(verdict), "dry_run": dry, **asked(run, [one.plan for one in outcomes])}


def compare_only(run: Run, spark: SparkSession, settings: Mapping[str, Any] | None = None) -> Facts:
    """Compare tables that the connector writes itself; rows that differ are put right by a recovery, never from here."""
    if not run.options.dry_run:
        run.pipeline.check_applied("a repair")
    names, seconds = run.tables, Patience.of(run, settings).seconds
    try:
        xa = run.clients.source.xa()
        with explained(SinkError, "compare the tables", where=run.where, todo="Nothing was changed; run it again."):
            outcomes = compare_in_place(run, spark, names, run.clients.source.position(), seconds)
    except CdcError as error:
        facts = report_check(run, {name: unproven(name, str(error)) for name in names}, evidence={})
        return {**facts, "dry_run": True, **asked(run, [])}
    for outcome in outcomes:
        keep_rows(run, row_reader(run), spark, outcome)
    results = [_left_as_it_is(outcome) for outcome in outcomes]
    run.clients.control.compared(xa, {one.table.full_name: one.report.verdict for one in results})
    verdict = overall(one.report.verdict for one in results)
    return {**tell(run, results, CHECK), "verdict": str(verdict), "dry_run": True, **asked(run, [])}


def _left_as_it_is(outcome: Outcome) -> RepairOutcome:
    table = outcome.subject.table
    return RepairOutcome(table, RepairPlan.of(table, outcome.tally, outcome.sink_rows), report_of(outcome))


def asked(run: Run, plans: Sequence[RepairPlan]) -> Facts:
    """The question for a person, for XCom: `{"plans": {table: summary}, "needs_approval"}`."""
    differing = [plan for plan in plans if plan.keys]
    asks = needs_approval(run.pipeline.policy, [plan.deletions for plan in differing])
    return {"plans": {plan.table: plan.to_json() for plan in differing}, "needs_approval": asks}
