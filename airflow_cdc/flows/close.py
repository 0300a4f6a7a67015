"""Step 10: close the recovery, release the lease, and write report.json and a page."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from airflow_cdc.control.document import CLOSED
from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.errors import CdcError, VerificationError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.recovery import OpenRecovery, VerifiedTable
from airflow_cdc.core.report import RecoveryReport, Verdict
from airflow_cdc.decisions.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.flows import connector
from airflow_cdc.flows.lease import kept
from airflow_cdc.flows.recovery import current
from airflow_cdc.flows.run import Facts, Run, now_iso, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.kinds import read_position
from airflow_cdc.names import IN_ADVANCE, REPORT_PAGE
from airflow_cdc.reports.page import render_html
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import RECOVERY, RunSummary, tables_of

log = logging.getLogger("airflow_cdc.close")

RECOVERY_FILE = "recovery.json"
# in the run's ledger: who approved its plan
APPROVED = "approved"


@step("close")
def close(run: Run) -> Facts:
    """Close the published recovery: restore settings, drop stages, release the lease. Safe to run again after a kill.

    Raises VerificationError when a table is not on main yet: an unfinished recovery must not look closed (INV 1).
    """
    control, entry = run.clients.control, run.clients.control.entry(run.run_id)
    if entry.recovery == CLOSED:  # killed after closing: only the lease may be left
        control.release(run.run_id)
        return {"closed": True, "epoch": entry.epoch}
    with kept(control, run.run_id, LEASE_SECONDS):
        facts = _close(run)
    control.release(run.run_id)
    return facts


def _close(run: Run) -> Facts:
    control, recovery = run.clients.control, current(run)
    if missing := sorted(recovery.unpublished):
        raise VerificationError(
            f"the recovery cannot be closed: {', '.join(missing)} not published",
            where=run.where,
            todo="Clear the task publish.",
        )
    if run.pipeline.corrected is not Corrected.STAGED and recovery.unproven:
        raise VerificationError(
            f"the recovery cannot be closed: {', '.join(recovery.unproven)} not proven to equal the source",
            where=run.where,
            todo="Clear the task verify.",
        )
    connector.restore_settings(run)
    keep_document(run, recovery)
    drop_stages(run, recovery.tables)
    control.close_recovery(run.run_id)
    return {"closed": True, "epoch": recovery.epoch}


def report(run: Run) -> Facts:
    """Write `<report_dir>/<pipeline>/<run_id>/report.json` and `report.html` from the ledger.

    Works for a run in any state; an unfinished run is INCONCLUSIVE. The run is added to its pipeline's list.
    """
    recovery_report = assemble(run)
    # until all of it is published, readers do not see what was compared
    published = recovery_report.verdict is Verdict.MATCH
    return store(
        run,
        recovery_report,
        RECOVERY,
        frozenset(tables_of(recovery_report, Verdict.MATCH)) if published else frozenset(),
    )


def let_go(run: Run) -> None:
    """At the end of a run that did not close its recovery: others may finish it or give it up now, not only in two minutes.

    Where its recovery is open, the lease stays in its name, expired, so that a cleared task takes it again.
    """
    control, facts = run.clients.control, run.clients.control.facts()
    if facts.lease is None or facts.lease.owner != run.run_id:
        return
    if facts.recovery is not None and facts.recovery.run_id == run.run_id:
        control.renew(run.run_id, 0.0)
    else:
        control.release(run.run_id)


def store(run: Run, report: RecoveryReport, kind: str, equal: frozenset[str]) -> Facts:
    """Write a report as report.json and as a page, and list the run, which proved the tables `equal`.

    Returns the places of both, and the verdict.
    """
    reports, name = ReportStore(run.report_dir), run.pipeline.name
    written = reports.keep_report(report)
    page = reports.write(render_html(report, reports.rows(report)), name, safe(run.run_id), REPORT_PAGE)
    reports.keep_run(name, RunSummary.of(report, safe(run.run_id), now_iso(), kind, run.dag_id), equal)
    return {"report": written, "page": page, "verdict": str(report.verdict)}


def report_folder(run: Run) -> str:
    """The folder (path or URL) of this run's report; the run id is made safe for a path."""
    return ReportStore(run.report_dir).location(run.pipeline.name, safe(run.run_id))


def assemble(run: Run) -> RecoveryReport:
    """The report of this run, from its ledger and, while it is open, from the recovery."""
    control = run.clients.control
    entry, open_now = control.entry(run.run_id), control.recovery(read_position)
    recovery = _closed(run, entry) or (open_now if open_now and open_now.run_id == run.run_id else None)
    recovery = _compared(recovery or OpenRecovery(run.run_id), entry)
    steps = [step.report for step in entry.steps]
    report = recovery.report(run.pipeline.name, run.run_id, entry.decision, steps)
    report = told_of(run, report, entry.approved)
    reason = entry.failures or entry.unchanged
    return replace(report, reason=reason) if reason else report


def told_of(run: Run, report: RecoveryReport, approved: str) -> RecoveryReport:
    """The report with who started the run, who `approved` it ("": nobody was asked), its begin, and now as its end."""
    begun = min((step.started for step in report.steps if step.started), default="")
    return replace(
        report,
        started_by=run.options.started_by or None,
        approved=approved or (IN_ADVANCE if run.options.approved else None),
        began=begun or None,
        ended=now_iso(),
    )


def _closed(run: Run, entry: LedgerEntry) -> OpenRecovery | None:
    """The closed recovery of this run; None while it is open, or if the run had none."""
    document = entry.document or (kept_document(run) if entry.recovery == CLOSED else None)
    return OpenRecovery.from_json(document, read_position) if document else None


def _compared(recovery: OpenRecovery, entry: LedgerEntry) -> OpenRecovery:
    """The recovery for its report. If it only moved the position, its comparisons are those made afterwards on main."""
    if recovery.strategy not in POSITION_ONLY:
        return recovery
    checked = {name: VerifiedTable(table.report) for name, table in entry.checked.items()}
    return replace(recovery, verified=checked, published=dict.fromkeys(checked, 0))


def keep_document(run: Run, recovery: OpenRecovery) -> None:
    """Store the closed recovery beside its report: with thousands of tables it is too large for the ledger.

    If the folder cannot be written, the document stays in the ledger: a finished recovery must be able to close.
    """
    try:
        text = json.dumps(recovery.to_json(), ensure_ascii=False)
        ReportStore(run.report_dir).write(text, run.pipeline.name, safe(run.run_id), RECOVERY_FILE)
    except CdcError as error:
        log.warning("the recovery's document was not kept beside its report: %s", error)
        run.clients.control.ledger_set(run.run_id, "document", recovery.to_json())


def kept_document(run: Run) -> Facts:
    """The document that `keep_document` stored for this run; {} if none."""
    text = ReportStore(run.report_dir).read(run.pipeline.name, safe(run.run_id), RECOVERY_FILE)
    return dict(json.loads(text)) if text else {}


def drop_stages(run: Run, tables: Sequence[str]) -> None:
    """Drop the stages of these tables' recoveries: none of them will be published."""
    if not tables or (lake := run.clients.sink.staging) is None:
        return
    namespace = run.pipeline.sink.namespace
    stages = lake.stages(namespace, *map(run.pipeline.sink_table, tables))
    for_each(lake.drop_stage, [stage for stage in stages if stage.label.startswith("recov_")])
