"""The application `repair` (strategy diff_repair): read the rows that differ from the source again, and no others.

Tables that others write from the topics are put right through these; tables that the connector writes itself are only compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, ConfigError, RecoveryOpenError, UsageError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.report import Verdict, overall
from airflow_cdc.decisions.compare.repair import check_repaired
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.checks import report_check
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.reports.stored import CHECK, REPAIR
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.driver.app import open_app
from airflow_cdc.spark_apps.stages.compare_only import asked, compare_only
from airflow_cdc.spark_apps.stages.repair import UNCHANGED, not_matching, tell, try_repair
from airflow_cdc.spark_apps.stages.repair_topics import RUNS_AGAIN, repair_topics
from airflow_cdc.spark_apps.stages.work import Patience, open_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(settings: Mapping[str, object]) -> Facts:
    """Repair tables, or report what a repair would do (option `dry_run`). `settings` was written by the operator."""
    with open_app(settings, "repair") as (run, spark):
        return repair(run, spark, settings)


@step("repair")
def repair(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Facts:
    """Compare the tables of the run (option `tables`; default: all), and repair them unless `dry_run` is asked for.

    Raises VerificationError for a table that is not MATCH at the end, once all were tried.
    """
    dry, names = run.options.dry_run, list(run.tables)
    check_repaired(run.pipeline, dry=dry)
    todo = UNCHANGED
    if run.pipeline.corrected is not Corrected.STAGED:
        if dry:
            return compare_only(run, spark, settings)
        outcomes, todo = repair_topics(run, spark, Patience.of(run, settings).seconds), RUNS_AGAIN
    else:
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
        raise not_matching(run, outcomes, todo)
    return {**facts, "verdict": str(verdict), "dry_run": dry, **asked(run, [one.plan for one in outcomes])}
