"""The step `publish`, killed by SIGKILL on its way and run again."""

from __future__ import annotations

import os
import signal
from typing import Any

from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.core.poll import poll_until
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.run import Run
from airflow_cdc.sinks.iceberg.client import Lake

SECONDS = 120.0


def killed_and_again(run: Run) -> Any:
    """Killed at the first table's commit before the catalog has it, then after; readers see the one or the other."""
    lake: Any = run.clients.sink
    before = states(lake, run)
    _apart(lake, run)
    killed_at_commit(lake, run, lands=False)
    if states(lake, run) != before:
        raise AssertionError("a publish that was killed before its commit changed a table")
    killed_at_commit(lake, run, lands=True)
    moved = [name for name, state in states(lake, run).items() if state != before[name]]
    if len(moved) != 1:
        raise AssertionError(f"killed after the first table's commit, but {moved} were published")
    return publish(run)


def names(run: Run) -> list[str]:
    return [sink_name(table.split(".")[-1]) for table in run.pipeline.source.tables]


def states(lake: Lake, run: Run) -> dict[str, tuple[Any, ...]]:
    """What a reader of each table finds: its snapshot, columns and number of rows."""
    namespace = run.pipeline.sink.namespace
    read = {name: lake.read_arrow(namespace, name) for name in names(run)}
    return {name: (lake.head(namespace, name), rows.column_names, rows.num_rows) for name, rows in read.items()}


def _apart(lake: Lake, run: Run) -> None:
    """Each stage has a location of its own."""
    stages = lake.stages(run.pipeline.sink.namespace)
    shared = [
        one.name for one in stages if _location(lake, one.identifier) == _location(lake, (one.namespace, one.table))
    ]
    if shared or not stages:
        raise AssertionError(f"stages at their tables' own locations: {shared or 'none at all'}")


def _location(lake: Lake, identifier: tuple[str, str]) -> str:
    return lake.table(*identifier).metadata.location


def killed_at_commit(lake: Lake, run: Run, *, lands: bool) -> None:
    """Run `publish` in a process of its own, which ends at its first commit to a table of the pipeline."""
    child = os.fork()
    if child == 0:
        try:
            _die_at_commit(lake, run, lands=lands)
            publish(run)
        finally:
            os._exit(1)  # it came to its end, or failed
    _, status = poll_until(lambda: _ended(child), timeout=SECONDS, what="the publish to be killed")
    if not os.WIFSIGNALED(status):
        raise AssertionError("the publish was not killed")


def _ended(child: int) -> tuple[int, int] | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    return (pid, status) if pid else None


def _die_at_commit(lake: Lake, run: Run, *, lands: bool) -> None:
    catalog: Any = lake.catalog  # a forked process opens its own
    real, targets = catalog.commit_table, {(run.pipeline.sink.namespace, name) for name in names(run)}

    def commit(table: Any, *change: Any) -> Any:
        if tuple(table.name()) not in targets:
            return real(table, *change)
        if lands:
            real(table, *change)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    catalog.commit_table = commit
