"""What a run that a command waited for came to: first why it failed, then its tables, then its tasks."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from airflow_cdc.cli import reports
from airflow_cdc.cli.reading import read_soon
from airflow_cdc.cli.run import Rows, complain, emit
from airflow_cdc.cli.trigger import Ended
from airflow_cdc.core.codec import sparse
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.flows.recovery import open_error
from airflow_cdc.flows.run import Run

# of a table's report
SHOWN = ("table", "source_rows", "sink_rows", "missing", "ghosts", "different", "verdict")
# up to which time of the source main itself is proven equal
THROUGH = "verified_through"
# what main lacks of what was compared
BEHIND = "waiting"


def show(
    args: Namespace,
    run_id: str,
    ended: Ended,
    report: RecoveryReport | None,
    *,
    rows: Rows = (),
    **more: object,
) -> None:
    """Print the run: `rows` as its tables (default: those of the report), and its tasks; in JSON with `more`."""
    reason = report.reason if report and ended.state != "success" else None
    for task, why in ended.failures.items():
        complain(f"{task}: {why}", 1)
    if reason and not ended.failures:
        complain(reason, 1)
    verdict = f"{report.verdict}, " if report else ""
    took = f" after {ended.seconds:.0f} s" if ended.seconds is not None else ""
    print(f"{verdict}run {run_id}: {ended.state}{took}", file=sys.stderr)
    data = {"run_id": run_id, **ended.to_json(), **more, "report": report and report.to_json()}
    tables = rows or (report_rows(report) if report and report.tables else ())
    if args.output == "table" and tables:
        emit(args, data, tables)
    emit(args, data, ended.rows())


def report_rows(report: RecoveryReport) -> list[dict[str, object]]:
    """The tables of a report as table rows."""
    through = reports.verified(report.pipeline)
    behind = any(table.caught_up for table in report.tables)
    rows = [
        {
            **{key: sparse(table)[key] for key in SHOWN},
            THROUGH: table.verified_through or through.get(table.table, "-"),
            **({BEHIND: str(table.caught_up or "-")} if behind else {}),
        }
        for table in report.tables
    ]
    return rows or [{"run_id": report.run_id, "verdict": str(report.verdict), "tables": "none compared"}]


def applied_rows(result: Mapping[str, Any]) -> list[dict[str, object]]:
    """The tables of an apply's result as table rows."""
    return [
        {
            "table": table,
            "records": one.get("records", 0),
            "published": bool(one.get("published")),
            "read_again": bool(one.get("reread")),
        }
        for table, one in (result.get("tables") or {}).items()
    ]


def refuse_while_open(run: Run) -> None:
    """Raise RecoveryOpenError if a recovery is open, which compares and publishes by itself.

    A control table that can't be read now is left to the run, which says so.
    """
    try:
        recovery = read_soon(lambda: run.clients.control.facts().recovery, where=run.where)
    except CdcError:
        return
    if recovery is not None:
        raise open_error(run, recovery.run_id)
