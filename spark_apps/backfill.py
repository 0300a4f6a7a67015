"""The application `backfill`: make the rows of one interval equal to the source's current rows.

An interval is compared and repaired like a whole table (stages/repair.py). So it may be done any number of times, at the same
time as other intervals and as the live apply: it reads the source's current rows, publishes with every change that the
topics had by then, and whoever publishes second starts again from the new head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.report import Verdict, overall
from airflow_cdc.decisions.compare.part import interval_part
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.reports.stored import BACKFILL
from airflow_cdc.spark_apps.driver.app import open_app
from airflow_cdc.spark_apps.stages.repair import RepairOutcome, not_matching, tell, try_repair
from airflow_cdc.spark_apps.stages.work import open_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.table import Table


def main(settings: Mapping[str, object]) -> Facts:
    """Backfill one interval. `settings`: the operator's file, whose options `from` and `to` are the interval."""
    with open_app(settings, "backfill") as (run, spark):
        return backfill(run, spark, settings)


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open interval, in UTC."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, run: Run) -> Interval:
        """The interval of the run's options. Raises UsageError if it is missing or ends before it starts."""
        try:
            start, end = (datetime.fromisoformat(end).astimezone(UTC) for end in run.options.interval or ())
        except ValueError as error:  # also if the interval is missing
            raise UsageError("the run has no interval", where=run.where, todo="Use airflow backfill create.") from error
        if end <= start:
            raise UsageError(f"the interval {start} to {end} is empty", where=run.where, todo="Use a 24 h interval.")
        return cls(start, end)


@step("backfill")
def backfill(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Facts:
    """Make every table under `backfill` in the registry equal to the source, within the run's interval.

    Returns `{"verdict", "tables": {table: {"writes", "deletes", "published"}}}`. Raises VerificationError for rows that
    are not equal afterwards, or a backfill that deletes too much; ConfigError for a table that cannot be divided.
    """
    interval = Interval.of(run)
    if not run.pipeline.backfill:
        raise ConfigError(
            "pipelines.yaml does not say how its tables are divided into days",
            where=run.where,
            todo="Add `backfill: {table: …, by: …}` to the pipeline.",
        )
    work = open_work(run, spark, settings)
    tables = captured(run, [spec.table for spec in run.pipeline.backfill])
    outcomes: list[RepairOutcome] = []
    for spec in run.pipeline.backfill:
        table = _with_key(tables[spec.table])
        outcomes.append(try_repair(work, table, interval_part(table, spec, interval.start, interval.end)))
    facts = tell(run, outcomes, BACKFILL)
    verdict = overall(one.report.verdict for one in outcomes)
    if verdict is not Verdict.MATCH:
        raise not_matching(run, outcomes)
    return {**facts, "verdict": str(verdict), "tables": {one.table.full_name: one.to_json() for one in outcomes}}


def _with_key(table: Table) -> Table:
    if table.keyless:
        raise ConfigError(
            f"{table.full_name} has no key, so parts of it cannot be replaced",
            where="backfill",
            todo="Remove it from `backfill`; airflow cdc repair replaces the whole table.",
        )
    return table
