"""Repair tables that others write: the rows that differ are written into their topics while the connector rests for it.

They are found while everything runs. Then the connector is stopped, and each such key is written as the source has it now, or
deleted, as a recovery does (snapshot/corrections.py, INV 23, 47). The connector continues from its own offset: rows that are newer
than that are sent again, in the order of the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, SourceError
from airflow_cdc.core.report import TableReport
from airflow_cdc.core.timeline import timed
from airflow_cdc.decisions.compare.repair import RepairPlan, refusal
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.carried import odd_values_named
from airflow_cdc.flows.checks import report_check
from airflow_cdc.flows.corrections import InLedger
from airflow_cdc.flows.resting import resting, started_again
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.stored import REPAIR
from airflow_cdc.spark_apps.compare.caveats import check_no_xa
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import VISIBLE_SECONDS
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.systems import open_topics
from airflow_cdc.spark_apps.snapshot.corrections import Correcting, standing
from airflow_cdc.spark_apps.stages.compare_only import compared_now
from airflow_cdc.spark_apps.stages.publish import LEASE_WAIT_SECONDS
from airflow_cdc.spark_apps.stages.repair import RepairOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.position import Position

log = logging.getLogger("airflow_cdc.repair")

RUNS_AGAIN = (
    "The connector runs again. Fix the cause named above, then run the repair again: it writes what still differs."
)


def repair_topics(run: Run, spark: SparkSession, seconds: float) -> list[RepairOutcome]:
    """Compare the run's tables, write what differs into their topics, and compare these tables again.

    `seconds`: how long a connector may stand still meanwhile.
    """
    try:
        started_again(run)  # after a try that was killed, or nothing could be compared
        outcomes = {one.table.full_name: one for one in compared_now(run, spark, run.tables, seconds)}
        refusals = {name: _refusal(run, one.plan) for name, one in outcomes.items() if one.wrong}
        plans = {name: outcomes[name].plan for name, why in refusals.items() if not why}
        failures = _written(run, spark, plans, seconds)
    except CdcError as error:
        report_check(run, {name: unproven(name, str(error)) for name in run.tables}, evidence={}, kind=REPAIR)
        raise
    again = [name for name in plans if name not in failures]
    refused = {name: _with_reason(outcomes[name].report, why) for name, why in refusals.items() if why}
    reports = refused | failures | _compared_again(run, spark, again, seconds)
    return [
        replace(one, report=reports.get(name, one.report), rewritten=name in again) for name, one in outcomes.items()
    ]


def _refusal(run: Run, plan: RepairPlan) -> str:
    return refusal(run.pipeline.policy, plan, run.options.deletes)


def _with_reason(report: TableReport, why: str) -> TableReport:
    """The report, with the reason why its rows must not be written before its samples."""
    return replace(report, samples=(why, *report.samples))


def _compared_again(run: Run, spark: SparkSession, names: Sequence[str], seconds: float) -> dict[str, TableReport]:
    """The reports of the tables that were written. What is written stays, also where the comparison fails."""
    try:
        again = compared_now(run, spark, names, seconds) if names else []
    except CdcError as error:
        return {name: unproven(name, str(error)) for name in names}
    return {one.table.full_name: one.report for one in again}


def _written(run: Run, spark: SparkSession, plans: Mapping[str, RepairPlan], seconds: float) -> dict[str, TableReport]:
    """Write the plans' rows while the connector rests; returns the reports of the tables for which that failed."""
    failures = dict[str, TableReport]()
    if not plans:
        return failures
    with leased(run, LEASE_WAIT_SECONDS):
        check_no_xa(run)
        with timed("the connector rests"), resting(run) as position:
            correcting = _correcting(run, spark, position, plans, seconds)
            for name, table in captured(run, list(plans)).items():
                try:
                    with (
                        odd_values_named(run, [name], "repair"),
                        explained(SourceError, "repair the rows", where=run.where, todo=RUNS_AGAIN),
                    ):
                        correcting.table(table)
                except CdcError as error:
                    log.warning("%s: %s", name, error)
                    failures[name] = unproven(name, str(error))
    return failures


def _correcting(
    run: Run, spark: SparkSession, position: Position, plans: Mapping[str, RepairPlan], seconds: float
) -> Correcting:
    """What is written is placed where the connector continues: what it sends then comes behind it (INV 23)."""
    now = run.clients.source.position()
    run.clients.source.wait_visible(now, VISIBLE_SECONDS)
    # how many may be deleted was asked of the plan
    deletes = {name: len(plan.keys) for name, plan in plans.items()}
    place = standing(run, position, now.taken_at)
    return Correcting(run, spark, open_topics(run), now, place, deletes, seconds, plans, InLedger())
