"""A comparison's result as a log line, as Great Expectations checks, and as its part of report.json."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from airflow_cdc.core.report import ComparedAt, NotCompared, TableReport, Verdict
from airflow_cdc.decisions.compare.canonical import not_compared
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.compare.expectations import Expected, Pinned, SuiteResult, run_suites
from airflow_cdc.spark_apps.compare.scan import Outcome


def summary(outcome: Outcome) -> str:
    """One line for the log."""
    tally = outcome.tally
    caveats = "".join(f"; {reason}" for reason in outcome.reasons)
    return (
        f"{outcome.subject.table.full_name}: {outcome.source_rows:,} source rows, {outcome.sink_rows:,} sink rows, "
        f"{tally.missing} missing, {tally.ghosts} ghosts, {tally.different} different, {tally.unsettled} unsettled, "
        f"{outcome.in_flight} in flight{caveats}"
    )


def check_expectations(folder: str, outcomes: Sequence[Outcome]) -> dict[str, SuiteResult]:
    """Great Expectations over the compared snapshots; Data Docs go to `folder` (a path or URL)."""
    checks = [
        Pinned(sink.frame, Expected.of(outcome), sink.small) for outcome in outcomes for sink in [outcome.subject.sink]
    ]
    if "://" not in folder:
        return {result.name: result for result in run_suites(checks, Path(folder))}
    with tempfile.TemporaryDirectory() as scratch:
        results = run_suites(checks, Path(scratch))
        ReportStore(folder).put(Path(scratch))
    return {result.name: result for result in results}


def make_report(outcome: Outcome, suite: SuiteResult) -> TableReport:
    """The table's part of report.json. A failed suite is a mismatch, because readers would see it."""
    verdict = outcome.verdict if suite.success else Verdict.MISMATCH
    failures = () if suite.success else suite.failures or ("an expectation of Great Expectations failed",)
    samples = [f"{kind}: {key}" for kind, keys in outcome.tally.samples.items() for key in keys]
    return TableReport(
        table=outcome.subject.table.full_name,
        source_rows=outcome.source_rows,
        sink_rows=outcome.sink_rows,
        missing=outcome.tally.missing,
        ghosts=outcome.tally.ghosts,
        different=outcome.tally.different,
        leaves=outcome.leaves,
        leaves_rechecked=outcome.leaves_rechecked,
        columns_not_compared=tuple(NotCompared(*pair) for pair in not_compared(outcome.subject.table)),
        compared_at=ComparedAt(outcome.subject.sink.version, str(outcome.subject.position)),
        verdict=verdict,
        samples=(*samples, *outcome.reasons, *failures)
        if outcome.tally.wrong
        else (*outcome.reasons, *samples, *failures),
        leaf_map=outcome.leaf_map,
        part="" if outcome.subject.part.whole else outcome.subject.part.name,
    )
