"""Step 10: close the recovery, let go of the lease, and say what happened: report.json and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import fsspec

from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.flows import connector, document
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.reporting import render_html


@step("close", leased=True)
def close(run: Run) -> Facts:
    """Close the published recovery: settings back, stages dropped, lease released, report written.

    Raises VerificationError when a table is not on main yet: an unfinished recovery must not look closed (INV 1).
    """
    open_doc = document.recovery(run)
    if missing := sorted(set(open_doc["tables"]) - set(open_doc.get("published") or {})):
        raise VerificationError(
            f"the recovery cannot be closed: {', '.join(missing)} not published",
            where=run.where,
            todo="Clear the task publish.",
        )
    connector.settle(run)
    run.clients.control.ledger_set(run.run_id, "document", open_doc)
    _drop_stages(run, open_doc)
    run.clients.control.close_recovery(run.run_id)
    run.clients.control.release(run.run_id)
    return {"closed": True, "epoch": open_doc["epoch"]}


def report(run: Run) -> Facts:
    """Write `<report_dir>/<pipeline>/<run_id>/report.json` and `report.html` from what the ledger holds.

    Works for a run in any state; a run that did not reach its end is INCONCLUSIVE.
    """
    return store(run, assemble(run))


def store(run: Run, made: RecoveryReport) -> Facts:
    """Write a report as report.json and as a page; returns where they are, and the verdict."""
    folder = report_folder(run)
    files = fsspec.filesystem(folder.split("://", 1)[0] if "://" in folder else "file")
    files.makedirs(folder, exist_ok=True)
    with files.open(f"{folder}/report.json", "w") as out:
        json.dump(made.to_json(), out, indent=2)
    with files.open(f"{folder}/report.html", "w") as out:
        out.write(render_html(made))
    return {"report": f"{folder}/report.json", "page": f"{folder}/report.html", "verdict": str(made.verdict)}


def report_folder(run: Run) -> str:
    """The folder (path or URL) of this run's report; the run id is made safe for a path."""
    safe = run.run_id.replace(":", "_").replace("+", "_").replace("/", "_")
    return f"{run.report_dir.rstrip('/')}/{run.pipeline.name}/{safe}"


def assemble(run: Run) -> RecoveryReport:
    """The report of this run, from its ledger and from the recovery while that is open."""
    state = run.clients.control.state()
    ledger, open_now = state["ledger"].get(run.run_id, {}), state["recovery"] or {}
    mine = open_now if open_now.get("run_id") == run.run_id else {}
    made = RecoveryReport.assemble(
        run.pipeline.name, run.run_id, ledger.get("decision") or {}, ledger.get("document") or mine, steps_of(ledger)
    )
    failed = _failed(ledger)
    return replace(made, reason=failed) if failed else made


def _failed(ledger: Mapping[str, Any]) -> str:
    """What the steps that failed said; a step that was cleared and then done is no longer among them."""
    steps = [(key[5:], entry) for key, entry in ledger.items() if key.startswith("step:")]
    return "; ".join(f"{name}: {e.get('error', 'ended abruptly')}" for name, e in steps if e.get("state") == "failed")


def steps_of(ledger: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps in the order in which they started."""
    entries = [{"name": key[5:], **entry} for key, entry in ledger.items() if key.startswith("step:")]
    return sorted(entries, key=lambda entry: str(entry.get("started")))


def _drop_stages(run: Run, open_doc: Facts) -> None:
    lake, namespace = run.clients.lake, run.pipeline.sink.namespace
    for table in open_doc["tables"]:
        for stage in lake.stages(namespace, run.pipeline.sink_table(table)):
            if stage.label.startswith("recov_"):
                lake.drop_stage(stage)
