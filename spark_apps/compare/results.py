"""A comparison's result: as a log line, as its part of report.json, and kept for publish."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.recovery import VerifiedTable
from airflow_cdc.core.report import ComparedAt, NotCompared, TableReport, Verdict, overall
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.compare.canonical import not_compared
from airflow_cdc.decisions.compare.expectations import Judged
from airflow_cdc.flows.close import report_folder
from airflow_cdc.flows.recovery import change, verify_again
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.reports import data_docs
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.compare.scan import Outcome


def summary(outcome: Outcome) -> str:
    """One line for the log."""
    tally = outcome.tally
    caveats = "".join(f"; {reason}" for reason in outcome.reasons)
    return (
        f"{outcome.subject.table.full_name}: {outcome.source_rows:,} source rows, {outcome.sink_rows:,} compared with them, "
        f"{tally.missing} missing, {tally.ghosts} ghosts, {tally.different} different, {tally.unsettled} unsettled, "
        f"{outcome.in_flight} in flight{caveats}"
    )


def make_report(outcome: Outcome, suite: Judged) -> TableReport:
    """The table's part of report.json. A failed suite is a mismatch, because readers would see it."""
    verdict = outcome.verdict if suite.success else Verdict.MISMATCH
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
        columns_not_compared=tuple(
            NotCompared(*pair) for pair in (*not_compared(outcome.subject.table), *outcome.losses)
        ),
        compared_at=ComparedAt(outcome.subject.sink.version or None, str(outcome.subject.position)),
        verdict=verdict,
        samples=(*samples, *outcome.reasons, *suite.failures)
        if outcome.tally.wrong
        else (*outcome.reasons, *samples, *suite.failures),
        leaf_map=outcome.leaf_map,
        part="" if outcome.subject.part.whole else outcome.subject.part.name,
    )


def unproven(table: str, why: str) -> TableReport:
    """The report of a table that could not be compared or repaired."""
    return TableReport(
        table=table,
        source_rows=0,
        sink_rows=0,
        missing=0,
        ghosts=0,
        different=0,
        leaves=0,
        leaves_rechecked=0,
        columns_not_compared=(),
        compared_at=ComparedAt(None, ""),
        verdict=Verdict.INCONCLUSIVE,
        samples=(why,),
    )


def keep(
    run: Run,
    reports: Sequence[TableReport],
    suites: Sequence[Judged],
    labels: Mapping[str, str],
    seconds: float,
    *,
    xa: XaState | None,
) -> Facts:
    """Write the result to the control table and to verify.json; returns the task's result.

    `labels`: table → the stage that was compared, which is the one to publish. `xa`: the source's XA state before that.
    """
    folder = report_folder(run)
    facts = {
        "verdict": str(overall(report.verdict for report in reports)),
        "tables": {report.table: str(report.verdict) for report in reports},
        "expectations": {suite.name: {"checks": suite.checks, "failures": list(suite.failures)} for suite in suites},
        data_docs.FOLDER: f"{folder}/{data_docs.FOLDER}/index.html",
        "seconds": seconds,
    }
    document = {**facts, "run_id": run.run_id, "reports": [sparse(report) for report in reports]}
    ReportStore(folder).write(json.dumps(document, indent=2), "verify.json")
    tables = {one.table: VerifiedTable(one, labels.get(one.table, ""), xa) for one in reports}
    change(run, lambda now: now.compared(tables))
    run.clients.control.ledger_set(run.run_id, "verify", facts)
    return facts


def refuse(run: Run, reports: Sequence[TableReport]) -> None:
    """Fail the task where the policy allows nothing to be published."""
    bad = {report.table: report for report in reports if report.verdict is not Verdict.MATCH}
    if not bad or (run.pipeline.policy.publish == "each" and len(bad) < len(reports)):
        return
    texts = (
        f"{t} is {r.verdict} ({r.missing} missing, {r.ghosts} ghosts, {r.different} different)" for t, r in bad.items()
    )
    first = next(("; ".join(report.samples[:2]) for report in bad.values() if report.samples), "")
    raise VerificationError(
        f"{'; '.join(texts)}{f'; first: {first}' if first else ''}",
        where=run.where,
        todo="Read the report for the keys that differ. "
        + (
            "Main is as it was."
            if run.pipeline.corrected is Corrected.STAGED
            else "Readers see them, and the connector writes on."
        )
        + f" {verify_again(run, [str(report.verdict) for report in bad.values()])}",
        verdict=str(overall(report.verdict for report in reports)),
    )
