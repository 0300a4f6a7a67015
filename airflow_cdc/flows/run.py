"""What every step is given: one pipeline, its clients, and the run in whose name it acts."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, cast

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.flows.lease import Lives, kept
from airflow_cdc.parts import Endpoints, Parts, open_parts

log = logging.getLogger("airflow_cdc.steps")

P = ParamSpec("P")
Facts = dict[str, Any]

LEASE_SECONDS = 900.0  # renewed for as long as a step runs; a dead run frees the pipeline after this long


@dataclass(frozen=True, slots=True)
class Run:
    """One run over one pipeline.

    Attributes:
        run_id: names the run in the lease, the ledger and the report folder; a cleared task keeps it.
        report_dir: folder or object-storage URL under which `<pipeline>/<run_id>/report.json` is written.
        dag_id: the DAG whose run this is; empty for a command.
        lives: asks Airflow whether a run (dag_id, run_id) still goes on; None from it: it could not be asked. None: there
            is no way of asking, as in a Spark driver.
    """

    pipeline: Pipeline
    clients: Parts
    run_id: str
    report_dir: str
    options: Mapping[str, Any] = field(default_factory=dict)
    dag_id: str = ""
    lives: Lives | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        return f"pipeline {self.pipeline.name}, run {self.run_id}"


def make_run(
    pipeline: Pipeline,
    endpoints: Endpoints,
    run_id: str,
    report_dir: str,
    options: Mapping[str, Any] | None = None,
    *,
    dag_id: str = "",
    lives: Lives | None = None,
) -> Run:
    """Open the clients of `pipeline` (lazily: nothing is connected yet) for the run `run_id`."""
    return Run(pipeline, open_parts(pipeline, endpoints), run_id, report_dir, dict(options or {}), dag_id, lives)


def now_iso() -> str:
    """The current time in UTC, ISO-8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def step(
    name: str, *, leased: bool = False
) -> Callable[[Callable[Concatenate[Run, P], Facts]], Callable[Concatenate[Run, P], Facts]]:
    """Time a step, log one structured line about it, and keep its time and state in the run's ledger.

    The ledger line is written whether the step fails or not, so that a report can be made of a failed run.
    `leased`: the step changes the pipeline, so its run must hold the lease; it is renewed first and for as long as the step
    runs (INV 37), LeaseHeldError if lost.
    """

    def decorate(function: Callable[Concatenate[Run, P], Facts]) -> Callable[Concatenate[Run, P], Facts]:
        @functools.wraps(function)
        def timed(run: Run, *args: P.args, **kwargs: P.kwargs) -> Facts:
            started, began = now_iso(), time.monotonic()
            state = "failed"
            try:
                with kept(run.clients.control, run.run_id, LEASE_SECONDS) if leased else nullcontext():
                    facts = function(run, *args, **kwargs)
                state = "done"
            except CdcError as error:
                told = {"error": str(error), "type": type(error).__name__}
                _note(run, name, {"started": started, "seconds": _since(began), "state": state, **told})
                raise
            except BaseException:
                _note(run, name, {"started": started, "seconds": _since(began), "state": state})
                raise
            _note(run, name, {"started": started, "seconds": _since(began), "state": state})
            return facts

        return cast("Callable[Concatenate[Run, P], Facts]", timed)

    return decorate


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def _note(run: Run, name: str, entry: Facts) -> None:
    """Write a step's line to the log and to the ledger; a ledger that can't be reached must not hide the step's own error."""
    log.info("cdc_step %s", json.dumps({"pipeline": run.pipeline.name, "run_id": run.run_id, "step": name, **entry}))
    try:
        run.clients.control.ledger_set(run.run_id, f"step:{name}", entry)
    except CdcError as error:
        log.warning("the time of step %s could not be kept: %s", name, error)
