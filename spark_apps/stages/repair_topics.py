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

from airflow_cdc.core.errors import CdcError, SourceError, VerificationError
from airflow_cdc.core.report import TableReport, Verdict
from airflow_cdc.core.timeline import timed
from airflow_cdc.decisions.compare.repair import RepairPlan, refusal
from airflow_cdc.events.frame import Standing
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.carried import odd_values_named
from airflow_cdc.flows.checks import report_check
from airflow_cdc.flows.corrections import InLedger
from airflow_cdc.flows.resting import resting, started_again
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.stored import REPAIR
from airflow_cdc.spark_apps.compare.caveats import xa_open
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import VISIBLE_SECONDS
from airflow_cdc.spark_apps.driver.app import explained
from airflow_cdc.spark_apps.driver.lease import leased
from airflow_cdc.spark_apps.driver.systems import open_topics
from airflow_cdc.spark_apps.snapshot.corrections import Corrected, Correcting
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
        outcomes = {one.table.full_name: _refused(run, one) for one in compared_now(run, spark, run.tables, seconds)}
        plans = {name: one.plan for name, one in outcomes.items() if one.wrong and not one.why}
        failures = _written(run, spark, plans, seconds)
    except CdcError as error:
        report_check(run, {name: unproven(name, str(error)) for name in run.tables}, evidence={}, kind=REPAIR)
        raise
    again = [name for name in plans if name not in failures]
    reports = failures | _compared_again(run, spark, again, seconds)
    return [
        replace(one, report=reports.get(name, one.report), rewritten=name in again) for name, one in outcomes.items()
    ]


def _refused(run: Run, one: RepairOutcome) -> RepairOutcome:
    """The outcome with the reason why its rows must not be written, if there is one."""
    why = refusal(run.pipeline.policy, one.plan, run.options.deletes) if one.wrong else ""
    return replace(one, why=why, report=replace(one.report, samples=(why, *one.report.samples))) if why else one


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
        if xa_open(run):
            raise VerificationError(
                "prepared XA transactions are open on the source, so its visible rows do not match its log",
                where=run.where,
                todo="Wait until they end (XA RECOVER shows them), then run the repair again.",
                verdict=str(Verdict.INCONCLUSIVE),
            )
        with timed("the connector rests"), resting(run) as position:
            correcting = _correcting(run, spark, position, plans, seconds)
            for name, table in captured(run, list(plans)).items():
                try:
                    with (
                        odd_values_named(run, [name], "repair"),
                        explained(SourceError, "repair the rows", where=run.where, todo=RUNS_AGAIN),
                    ):
                        _log(correcting.table(table))
                except CdcError as error:
                    log.warning("%s: %s", name, error)
                    failures[name] = unproven(name, str(error))
    return failures


def _log(one: Corrected) -> None:
    log.info("%s: %d rows and %d deletes were written into its topic", one.table, one.rows, one.deletes)


def _correcting(
    run: Run, spark: SparkSession, position: Position, plans: Mapping[str, RepairPlan], seconds: float
) -> Correcting:
    """What is written is placed where the connector continues: what it sends then comes behind it (INV 23)."""
    now = run.clients.source.position()
    run.clients.source.wait_visible(now, VISIBLE_SECONDS)
    codec, taken_at = run.clients.connector.codec, now.taken_at.timestamp()
    place = Standing(codec.at(position, int(taken_at)), int(taken_at * 1_000_000), position)
    only = {name: frozenset(plan.keys) for name, plan in plans.items()}
    # how many may be deleted was asked of the plan
    deletes = {name: len(keys) for name, keys in only.items()}
    return Correcting(run, spark, open_topics(run), now, place, deletes, seconds, only, InLedger())
