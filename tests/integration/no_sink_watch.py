"""The DAG `cdc_watch__<pipeline>` as its processes run it, and the page; run by test_no_sink.py with imports blocked.

Prints one JSON object: what the trigger fired with, what the task returned, and what the page shows.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from airflow.sdk.exceptions import DownstreamTasksSkipped

from airflow_cdc.config import settings
from airflow_cdc.config.registry import load_registry
from airflow_cdc.dags._watch import WATCH_TASK, watch_dags
from airflow_cdc.operators.diagnose import CdcDiagnoseOperator
from airflow_cdc.plugin import app, view
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.triggers.watch import PipelineTrigger
from tests.integration.outlets import Outlets
from tests.unit.operator_support import TaskInstance


def watched(name: str) -> dict[str, Any]:
    """One look of the watch: the trigger until it fires, then the task that resumes."""
    task: Any = watch_dags()[f"cdc_watch__{name}"].get_task(WATCH_TASK)
    trigger = PipelineTrigger(
        pipeline=name,
        registry=str(settings.registry_path(None)),
        report_dir=settings.report_dir(None),
        poke_interval=0.3,
        timeout=3.0,
        outages=None,
    )

    async def first() -> Any:
        return (await anext(trigger.run())).payload

    event, ti = asyncio.run(first()), TaskInstance()
    context = {"run_id": "scheduled__1", "ti": ti, "task": task, "outlet_events": Outlets(), "params": {}}
    with suppress(DownstreamTasksSkipped):  # so Airflow ends a task that skips others; its result stands before that
        task.told(context, event)
    return {"event": event, "facts": ti.pushed["return_value"]}


def diagnosed(name: str) -> dict[str, Any]:
    """The first task of a recovery: what it decides, or why it refuses."""
    task = CdcDiagnoseOperator(task_id="diagnose", pipeline=name)
    try:
        return {"decision": task.execute({"run_id": "manual__1", "ti": TaskInstance(), "task": task, "params": {}})}  # type: ignore[typeddict-item]
    except Exception as error:
        return {"refused": str(error)}


def paged(name: str) -> dict[str, Any]:
    """What the page's row of the pipeline says; the application is built as the API server builds it."""
    app.page()
    declared = load_registry(settings.registry_path(None))[name]
    row = view.row(ReportStore(settings.report_dir(None)), name, datetime.now(UTC), declared)
    return {"code": row.code, "actions": [action.label for action in row.actions], "error": row.error}


if __name__ == "__main__":
    jobs = {"watch": watched, "diagnose": diagnosed, "page": paged}
    print(json.dumps({what: jobs[what](sys.argv[1]) for what in sys.argv[2:]}, default=str))
