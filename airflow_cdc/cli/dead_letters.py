"""`airflow cdc dead-letters …`: events that could not be applied."""

from __future__ import annotations

import base64
from argparse import Namespace
from dataclasses import fields
from datetime import datetime

from airflow_cdc.cli import trigger
from airflow_cdc.cli.run import command, emit, pipeline_of, run_of, tables_of
from airflow_cdc.core.dead_letter import DeadLetter
from airflow_cdc.flows.stages import letters_of
from airflow_cdc.names import apply_dag_id

SHOWN = ("table", "topic", "partition", "offset", "attempts", "reason")


@command
def list_letters(args: Namespace) -> int:
    """0 when there are none, 1 when there are: a table with unresolved dead letters can't be MATCH."""
    pipeline_of(args).check_applied("a dead letter")
    run = run_of(args)
    wanted = tables_of(args, run.pipeline)
    letters = [as_json(one) for one in letters_of(run).unresolved_letters(run.pipeline.name)]
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


def as_json(letter: DeadLetter) -> dict[str, object]:
    """Plain JSON: bytes as text where they are UTF-8, else base64 behind "base64:"."""
    plain = {one.name: getattr(letter, one.name) for one in fields(letter)}
    times = {name: value.isoformat() for name, value in plain.items() if isinstance(value, datetime)}
    headers = [[name, _shown(data)] for name, data in letter.headers]
    return plain | {"key": _shown(letter.key), "value": _shown(letter.value), "headers": headers} | times


def _shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"
