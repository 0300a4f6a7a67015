"""The report of a run that compared tables, and perhaps repaired them, without a recovery."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.report import IF_KNOWN, RecoveryReport, TableReport, Verdict, overall
from airflow_cdc.decisions.diagnosis.strategy import DIFF_REPAIR
from airflow_cdc.flows.close import report_folder, store, told_of
from airflow_cdc.flows.resting import started_again
from airflow_cdc.flows.run import Facts, Run
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import BACKFILL, CHECK, REPAIR

# Verdict → the problem code in the report; see docs/problems.md.
PROBLEMS = {Verdict.MATCH: "HEALTHY", Verdict.MISMATCH: "SINK_DIFFERS", Verdict.INCONCLUSIVE: "UNKNOWN"}


def report_check(
    run: Run, reports: Mapping[str, TableReport], *, evidence: Mapping[str, str], kind: str = CHECK
) -> Facts:
    """Write report.json and its page: the tables as they are now, and the findings (`evidence`: table → text).

    `reports` holds the tables that this task compared; those that an earlier task of the run compared are added. `kind` is
    the kind of run (`core.stored`). Stores the verdict in the run's ledger. Returns `{"report", "page", "verdict"}`.
    """
    control = run.clients.control
    entry, check = control.entry(run.run_id), control.ledger_get(run.run_id).get("check", {})
    tables = {name: table.report for name, table in entry.checked.items()} | dict(reports)
    report = _report(run, list(tables.values()), evidence, entry, repaired=kind != CHECK)
    # what an earlier task alone knew of a table, such as the copy that it compared, is not true of it any more
    before = {name: {k: v for k, v in one.items() if k not in IF_KNOWN} for name, one in check.items()}
    control.ledger_set(run.run_id, "check", {n: {**before.get(n, {}), **sparse(one)} for n, one in tables.items()})
    return store(run, report, kind, _equal(tables, frozenset(reports), entry, kind))


def _equal(
    tables: Mapping[str, TableReport], equal_tables: frozenset[str], entry: LedgerEntry, kind: str
) -> frozenset[str]:
    """The tables that were compared whole and are equal: repairs compare whole tables, nights and backfills parts."""
    if kind == BACKFILL:
        return frozenset()
    parts = {name for name, table in entry.checked.items() if not table.whole}
    doubted = parts - equal_tables if kind == REPAIR else parts
    return frozenset(name for name, one in tables.items() if one.verdict is Verdict.MATCH) - doubted


def _report(
    run: Run, tables: list[TableReport], evidence: Mapping[str, str], entry: LedgerEntry, *, repaired: bool
) -> RecoveryReport:
    report = RecoveryReport(
        pipeline=run.pipeline.name,
        run_id=run.run_id,
        problem="UNKNOWN",
        evidence=evidence,
        strategy=DIFF_REPAIR if repaired else "none",
        data_loss="nothing",
        watermark=None,
        epoch=run.clients.control.facts().epoch,
        offset_before=None,
        offset_after=None,
        tables=tuple(sorted(tables, key=lambda table: table.table)),
        steps=tuple(step.report for step in entry.steps),
    )
    verdict = Verdict(report.verdict or Verdict.INCONCLUSIVE)
    problem = PROBLEMS[Verdict.MISMATCH] if repaired else PROBLEMS[verdict]
    return told_of(run, replace(report, problem=problem), entry.approved)


def store_json(run: Run, name: str, value: object) -> str:
    """Write `value` as JSON beside the run's report; returns where."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return ReportStore(report_folder(run)).write(text, *name.split("/"))


def conclude(run: Run) -> Facts:
    """The verdict of the run, from its ledger. Raises VerificationError unless it is MATCH, or nothing was compared.

    Before that, a connector is started that still rests for this run: its repair was killed (INV 47).
    """
    started_again(run)
    tables = {name: table.report for name, table in run.clients.control.entry(run.run_id).checked.items()}
    bad = {name: report for name, report in tables.items() if report.verdict is not Verdict.MATCH}
    if tables and not bad:
        return {"verdict": str(Verdict.MATCH), "tables": len(tables)}
    verdict = overall(report.verdict for report in tables.values())
    text = "; ".join(f"{name} is {report.verdict}: {_first(report)}" for name, report in sorted(bad.items()))
    raise VerificationError(
        f"{verdict}: {text or 'nothing was compared'}",
        where=run.where,
        todo=_IN_PLACE
        if verdict is Verdict.MISMATCH and run.pipeline.corrected is Corrected.BEFORE_START
        else _TODO[verdict],
        verdict=str(verdict),
    )


def _first(report: TableReport) -> str:
    return ", ".join((report.samples or ("see the report",))[:3])


_IN_PLACE = (
    "Rows differ; others write the tables, not we. To put them right:"
    " airflow cdc recover PIPELINE --strategy full_snapshot."
)
_TODO = {
    Verdict.MISMATCH: "Rows differ; the sink was not changed. Run: airflow cdc repair PIPELINE --table TABLE.",
    Verdict.INCONCLUSIVE: "No conclusion was possible and nothing was changed: fix the parts listed above, then clear the task compare.",
}
