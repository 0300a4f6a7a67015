"""Step 10: close the recovery, let go of the lease, and say what happened: report.json and a page."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_cdc.core.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.core.errors import CdcError, VerificationError
from airflow_cdc.core.position import JsonObject
from airflow_cdc.core.report import RecoveryReport, Verdict
from airflow_cdc.flows import connector
from airflow_cdc.flows.decide import UNCHANGED
from airflow_cdc.flows.lease import kept
from airflow_cdc.flows.recovery import current
from airflow_cdc.flows.run import LEASE_SECONDS, Facts, Run, now_iso, step
from airflow_cdc.names import IN_ADVANCE, REPORT_PAGE
from airflow_cdc.reports.page import render_html
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import RECOVERY, RunSummary, tables_of

log = logging.getLogger("airflow_cdc.close")

CLOSED = "closed"
RECOVERY_FILE = "recovery.json"
# in the run's ledger: who agreed to its plan
APPROVED = "approved"

# among the run's options: the Airflow user who triggered it
STARTED_BY = "started_by"


@step("close")
def close(run: Run) -> Facts:
    """Close the published recovery: settings back, stages dropped, lease released. Safe to run again after a kill.

    Raises VerificationError when a table is not on main yet: an unfinished recovery must not look closed (INV 1).
    """
    control, ledger = run.clients.control, run.clients.control.ledger_get(run.run_id)
    if ledger.get("recovery") == CLOSED:  # killed after it was closed: only the lease may be left
        control.release(run.run_id)
        return {"closed": True, "epoch": ledger["epoch"]}
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
    connector.restore_settings(run)
    keep_document(run, recovery.to_json())
    drop_stages(run, recovery.tables)
    control.close_recovery(run.run_id, CLOSED)
    return {"closed": True, "epoch": recovery.epoch}


def report(run: Run) -> Facts:
    """Write `<report_dir>/<pipeline>/<run_id>/report.json` and `report.html` from what the ledger holds.

    Works for a run in any state; a run that did not reach its end is INCONCLUSIVE. The run joins its pipeline's list.
    """
    made = assemble(run)
    # until all of it is published, what was compared is not what readers see
    published = made.verdict is Verdict.MATCH
    return store(run, made, RECOVERY, frozenset(tables_of(made, Verdict.MATCH)) if published else frozenset())


def store(run: Run, made: RecoveryReport, kind: str, equal: frozenset[str]) -> Facts:
    """Write a report as report.json and as a page, and list the run, which proved the tables `equal`.

    Returns where they are, and the verdict.
    """
    kept, name = ReportStore(run.report_dir), run.pipeline.name
    written = kept.keep_report(made)
    page = kept.write(render_html(made, kept.rows(made)), name, safe(run.run_id), REPORT_PAGE)
    kept.keep_run(name, RunSummary.of(made, safe(run.run_id), now_iso(), kind, run.dag_id), equal)
    return {"report": written, "page": page, "verdict": str(made.verdict)}


def report_folder(run: Run) -> str:
    """The folder (path or URL) of this run's report; the run id is made safe for a path."""
    return ReportStore(run.report_dir).location(run.pipeline.name, safe(run.run_id))


def assemble(run: Run) -> RecoveryReport:
    """The report of this run, from its ledger and from the recovery while that is open."""
    state = run.clients.control.state()
    ledger, open_now = state["ledger"].get(run.run_id, {}), state["recovery"] or {}
    mine = open_now if open_now.get("run_id") == run.run_id else {}
    closed = ledger.get("document") or (kept_document(run) if ledger.get("recovery") == CLOSED else {})
    recovered = _compared(closed or mine, ledger.get("check") or {})
    decision = ledger.get("decision") or {}
    made = RecoveryReport.assemble(run.pipeline.name, run.run_id, decision, recovered, steps_of(ledger))
    made = told_of(run, made, str(ledger.get(APPROVED) or ""))
    told = _failed(ledger) or ledger.get(UNCHANGED)
    return replace(made, reason=told) if told else made


def told_of(run: Run, made: RecoveryReport, approved: str) -> RecoveryReport:
    """The report with who started the run, who `approved` it ("": nobody was asked), when it began, and now as its end."""
    begun = min((step.started for step in made.steps if step.started), default="")
    return replace(
        made,
        started_by=str(run.options.get(STARTED_BY) or "") or None,
        approved=approved or (IN_ADVANCE if run.options.get("approved") else None),
        began=begun or None,
        ended=now_iso(),
    )


def _failed(ledger: Mapping[str, Any]) -> str:
    """What the steps that failed said; a step that was cleared and then done is no longer among them."""
    steps = [(key[5:], entry) for key, entry in ledger.items() if key.startswith("step:")]
    return "; ".join(f"{name}: {e.get('error', 'ended abruptly')}" for name, e in steps if e.get("state") == "failed")


def _compared(recovered: Mapping[str, Any], check: Mapping[str, Any]) -> Mapping[str, Any]:
    """The recovery as its report has it: one that moved the position only has what was compared after it, on main."""
    if recovered.get("strategy") not in POSITION_ONLY:
        return recovered
    return {**recovered, "verified": check, "published": dict.fromkeys(check)}


def steps_of(ledger: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps in the order in which they started."""
    entries = [{"name": key[5:], **entry} for key, entry in ledger.items() if key.startswith("step:")]
    return sorted(entries, key=lambda entry: str(entry.get("started")))


def keep_document(run: Run, document: JsonObject) -> None:
    """Keep the closed recovery for its report, beside that: with thousands of tables it is too large for the ledger.

    Only where the folder can't be written it stays in the ledger: a recovery that is done must be able to close.
    """
    try:
        text = json.dumps(document, ensure_ascii=False)
        ReportStore(run.report_dir).write(text, run.pipeline.name, safe(run.run_id), RECOVERY_FILE)
    except CdcError as error:
        log.warning("the recovery's document was not kept beside its report: %s", error)
        run.clients.control.ledger_set(run.run_id, "document", document)


def kept_document(run: Run) -> Facts:
    """What `keep_document` kept of this run; {} if nothing."""
    text = ReportStore(run.report_dir).read(run.pipeline.name, safe(run.run_id), RECOVERY_FILE)
    return dict(json.loads(text)) if text else {}


def drop_stages(run: Run, tables: Sequence[str]) -> None:
    """Forget what recoveries of these tables staged: none of it will be published any more."""
    lake, namespace = run.clients.sink, run.pipeline.sink.namespace
    for table in tables:
        for stage in lake.stages(namespace, run.pipeline.sink_table(table)):
            if stage.label.startswith("recov_"):
                lake.drop_stage(stage)
