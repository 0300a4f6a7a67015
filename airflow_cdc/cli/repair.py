"""`airflow cdc repair`: name the rows that differ from the source, and have them rewritten."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from airflow_cdc.cli import reports, trigger
from airflow_cdc.cli.outcome import refuse_while_open, show
from airflow_cdc.cli.progress import telling
from airflow_cdc.cli.run import command, emit, pipeline_of, run_of, tables_of
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.decisions.compare.repair import check_repaired
from airflow_cdc.names import REPAIR_DAG_ID, dag_id_for

KEYS = "repair.json"


@command
def repair(args: Namespace) -> int:
    """Trigger cdc_repair.

    With --dry-run it waits and shows every key: 0 nothing differs, 1 rows differ, 3 inconclusive. With --wait: 0 equal
    now, 1 not equal or failed, 3 inconclusive. Without: 0 triggered.
    """
    pipeline = pipeline_of(args)
    check_repaired(pipeline, dry=args.dry_run)
    tables_of(args, pipeline)
    refuse_while_open(run_of(args))
    conf = {
        "pipeline": pipeline.name,
        "tables": args.table or [],
        "dry_run": args.dry_run,
        "approved": args.yes,
        "note": args.note,
    }
    dag_id = dag_id_for(pipeline, REPAIR_DAG_ID)
    run_id = trigger.start(dag_id, conf)
    if not (args.wait or args.dry_run):
        emit(args, {"dag_id": dag_id, "run_id": run_id}, [{"dag_id": dag_id, "run_id": run_id}])
        return 0
    with telling() as teller:
        ended = trigger.wait(run_id, args.timeout, teller=teller, dag_id=dag_id)
    report = reports.load(pipeline.name, run_id)
    keys = reports.load_json(pipeline.name, run_id, KEYS) or {}
    show(args, run_id, ended, report, rows=rows_of(keys) or _nothing(report), keys=keys)
    return report.exit_status if report and ended.state == "success" else trigger.failed_status(report)


def rows_of(keys: dict[str, list[dict[str, Any]]]) -> list[dict[str, str]]:
    """One table row per key: what is done to it, and why."""
    return [
        {
            "table": table,
            "action": str(one["action"]),
            "why": str(one["why"]),
            "key": ", ".join(str(value) for value in one["key"]),
        }
        for table, differing in keys.items()
        for one in differing
    ]


def _nothing(report: RecoveryReport | None) -> list[dict[str, str]]:
    return [
        {
            "table": table.table,
            "action": "none",
            "why": str(table.verdict),
            "key": "; ".join((*table.samples, *([str(table.caught_up)] if table.caught_up else []))),
        }
        for table in (report.tables if report else ())
    ]
