"""`airflow cdc dead-letters …`: events that could not be applied."""

from __future__ import annotations

from argparse import Namespace

from airflow_cdc.cli import trigger
from airflow_cdc.cli.run import command, emit, pipeline_of, run_of, tables_of
from airflow_cdc.names import apply_dag_id

SHOWN = ("table", "topic", "partition", "offset", "attempts", "reason")


@command
def list_letters(args: Namespace) -> int:
    """0 when there are none, 1 when there are: a table with unresolved dead letters can't be MATCH."""
    pipeline_of(args).check_applied("a dead letter")
    run = run_of(args)
    wanted = tables_of(args, run.pipeline)
    letters = [one.to_json() for one in run.clients.sink.unresolved_letters(run.pipeline.name)]
    mine = [one for one in letters if one["table"] in wanted]
    emit(args, mine, [{key: one[key] for key in SHOWN} for one in mine])
    return 1 if mine else 0


@command
def replay(args: Namespace) -> int:
    """Trigger the pipeline's apply DAG, which reads the keys of the dead letters again (never the old events)."""
    pipeline = pipeline_of(args)
    pipeline.check_applied("a dead letter")
    dag_id = apply_dag_id(pipeline.name)
    run_id = trigger.start(dag_id, {"replay": True, "tables": list(tables_of(args, pipeline))})
    emit(args, {"dag_id": dag_id, "run_id": run_id}, [{"dag_id": dag_id, "run_id": run_id}])
    return 0
