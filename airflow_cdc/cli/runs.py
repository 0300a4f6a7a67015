"""`airflow cdc verify`, `check` and `apply`: what the schedule does, done now."""

from __future__ import annotations

from argparse import Namespace

from airflow_cdc.cli import reports, trigger
from airflow_cdc.cli.outcome import applied_rows, refuse_while_open, show
from airflow_cdc.cli.progress import telling
from airflow_cdc.cli.run import command, emit, pipeline_of, run_of, tables_of
from airflow_cdc.cli.trigger import Ended
from airflow_cdc.core.pipeline import Corrected, Pipeline
from airflow_cdc.names import REPAIR_DAG_ID, apply_dag_id, dag_id_for, nightly_dag_id

APPLY_TASK = "apply"
RESULT = "return_value"
NOTHING = "nothing to apply"


@command
def verify(args: Namespace) -> int:
    """Compare with the source now, changing nothing, and wait: 0 MATCH, 1 MISMATCH or failed, 3 INCONCLUSIVE."""
    pipeline = pipeline_of(args)
    if pipeline.corrected is Corrected.STAGED:
        pipeline.check_applied("a verification")
    tables_of(args, pipeline)
    refuse_while_open(run_of(args))
    conf = {"pipeline": pipeline.name, "tables": args.table or [], "dry_run": True}
    dag_id = dag_id_for(pipeline, REPAIR_DAG_ID)
    run_id = trigger.start(dag_id, conf)
    return _compared(args, pipeline, run_id, _waited(args, run_id, dag_id))


@command
def check(args: Namespace) -> int:
    """Trigger the nightly check. With --wait: 0 MATCH, 1 MISMATCH or failed, 3 INCONCLUSIVE; without: 0 triggered."""
    pipeline = pipeline_of(args)
    pipeline.check_sink("a check")
    refuse_while_open(run_of(args))
    dag_id = nightly_dag_id(pipeline.name)
    run_id = trigger.start(dag_id, {})
    if not args.wait:
        return _triggered(args, dag_id, run_id)
    return _compared(args, pipeline, run_id, _waited(args, run_id, dag_id))


@command
def apply(args: Namespace) -> int:
    """Trigger an apply. With --wait: 0 applied, or nothing to apply; 1 a table stopped, or failed; without: 0 triggered."""
    pipeline = pipeline_of(args)
    pipeline.check_applied("an apply")
    tables_of(args, pipeline)
    dag_id = apply_dag_id(pipeline.name)
    run_id = trigger.start(dag_id, {"tables": args.table or []})
    if not args.wait:
        return _triggered(args, dag_id, run_id)
    ended = _waited(args, run_id, dag_id)
    result = trigger.left(run_id, dag_id, RESULT).get(APPLY_TASK) or {}
    idle = ended.tasks.get(APPLY_TASK) == "skipped"
    rows = [{"outcome": ended.reasons.get(APPLY_TASK, NOTHING)}] if idle else applied_rows(result)
    show(args, run_id, ended, None, rows=rows, **({"outcome": rows[0]["outcome"]} if idle else result))
    return int(ended.state != "success")


def _triggered(args: Namespace, dag_id: str, run_id: str) -> int:
    facts: dict[str, object] = {"dag_id": dag_id, "run_id": run_id}
    emit(args, facts, [facts])
    return 0


def _waited(args: Namespace, run_id: str, dag_id: str) -> Ended:
    with telling() as teller:
        return trigger.wait(run_id, args.timeout, teller=teller, dag_id=dag_id)


def _compared(args: Namespace, pipeline: Pipeline, run_id: str, ended: Ended) -> int:
    report = reports.load(pipeline.name, run_id)
    show(args, run_id, ended, report)
    return report.exit_status if report else ended.exit_status(None) or 1
