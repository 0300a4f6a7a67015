"""The argument of every step: one pipeline, its clients, and the run in whose name the step acts."""

from __future__ import annotations

import functools
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeAlias, cast

from airflow_cdc.control.ledger import DONE, FAILED, STEP, StepEntry
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.ports import Replication, Source
from airflow_cdc.core.report import StepPart
from airflow_cdc.core.timeline import THIS_PROCESS
from airflow_cdc.flows.lease import Lives, kept
from airflow_cdc.kinds import SOURCES
from airflow_cdc.parts import Endpoints, Parts, open_parts

log = logging.getLogger("airflow_cdc.steps")

P = ParamSpec("P")
Facts = dict[str, Any]  # what a step returns to XCom
Step: TypeAlias = Callable[Concatenate["Run", P], Facts]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options with which a run was triggered.

    Attributes:
        tables: full names; () for all of the pipeline's.
        strategy: the strategy that a person chose; "" to let the plan choose.
        note: a person's comment, for the report.
        approved: a person allows every deletion of the run. deletes: table → how many rows a repair may delete.
        replay: apply tries all dead letters again. dry_run: a repair only compares.
        interval: the ends of a backfill's interval, ISO times. started_by: who triggered the run, for the report.
    """

    tables: tuple[str, ...] = ()
    strategy: str = ""
    note: str = ""
    approved: bool = False
    deletes: Mapping[str, int] = field(default_factory=dict)
    replay: bool = False
    dry_run: bool = False
    interval: tuple[str, str] | None = None
    started_by: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> RunOptions:
        """Read the options of a DAG run or of a Spark driver's settings; unknown options are ignored."""
        options = value or {}
        return cls(
            tables=tuple(options.get("tables") or ()),
            strategy=str(options.get("strategy") or ""),
            note=str(options.get("note") or ""),
            approved=bool(options.get("approved")),
            deletes={str(table): int(rows) for table, rows in (options.get("deletes") or {}).items()},
            replay=bool(options.get("replay")),
            dry_run=bool(options.get("dry_run")),
            interval=(str(options["from"]), str(options["to"])) if "from" in options and "to" in options else None,
            started_by=str(options.get("started_by") or ""),
        )


NO_OPTIONS = RunOptions()


@dataclass(frozen=True, slots=True)
class Run:
    """One run over one pipeline.

    Attributes:
        run_id: names the run in the lease, the ledger and the report folder; a cleared task keeps it.
        report_dir: folder or object-storage URL under which `<pipeline>/<run_id>/report.json` is written.
        dag_id: the DAG whose run this is; empty for a command.
        lives: asks Airflow whether a run (dag_id, run_id) is still active; it returns None if Airflow could not be
            asked. None: there is no way of asking, as in a Spark driver.
    """

    pipeline: Pipeline
    clients: Parts
    run_id: str
    report_dir: str
    options: RunOptions = NO_OPTIONS
    dag_id: str = ""
    lives: Lives | None = field(default=None, compare=False, repr=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of this run: those that were requested, or all."""
        return self.options.tables or tuple(self.pipeline.source.tables)

    @property
    def where(self) -> str:
        return f"pipeline {self.pipeline.name}, run {self.run_id}"


def make_run(
    pipeline: Pipeline,
    endpoints: Endpoints,
    run_id: str,
    report_dir: str,
    options: RunOptions = NO_OPTIONS,
    *,
    dag_id: str = "",
    lives: Lives | None = None,
) -> Run:
    """Open the clients of `pipeline` (lazily: nothing is connected yet) for the run `run_id`."""
    return Run(pipeline, open_parts(pipeline, endpoints), run_id, report_dir, options, dag_id, lives)


def now_iso() -> str:
    """The current time in UTC, ISO-8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def step(name: str, *, leased: bool = False) -> Callable[[Step[P]], Step[P]]:
    """Time a step, log one structured line about it, and store its time and state in the run's ledger.

    The ledger line is written even if the step fails, so that a failed run can have a report. `leased`: the step
    changes the pipeline, so its run must hold the lease. The lease is renewed first and for as long as the step runs
    (INV 37); raises LeaseHeldError if it is lost.
    """

    def decorate(function: Step[P]) -> Step[P]:
        @functools.wraps(function)
        def timed(run: Run, *args: P.args, **kwargs: P.kwargs) -> Facts:
            began, entry = time.monotonic(), StepEntry(name, now_iso(), state=FAILED)
            THIS_PROCESS.first_step()
            try:
                with kept(run.clients.control, run.run_id, LEASE_SECONDS) if leased else nullcontext():
                    facts = function(run, *args, **kwargs)
                entry = replace(entry, state=DONE)
            except CdcError as error:
                entry = replace(entry, error=str(error), error_type=type(error).__name__)
                raise
            finally:
                seconds = round(time.monotonic() - began, 3)
                _note(run, replace(entry, seconds=seconds, parts=_parts(entry.started)))
            return facts

        return cast("Step[P]", timed)

    return decorate


def _parts(started: str) -> tuple[StepPart, ...]:
    """What this process did since its last step, in seconds from the beginning of this one."""
    at = datetime.fromisoformat(started).timestamp()
    return tuple(StepPart(span.name, round(span.began - at, 3), round(span.seconds, 3)) for span in THIS_PROCESS.take())


def _note(run: Run, entry: StepEntry) -> None:
    """Write a step's line to the log and to the ledger. An unreachable ledger must not hide the step's own error."""
    log.info(
        "cdc_step %s",
        json.dumps(
            {"pipeline": run.pipeline.name, "run_id": run.run_id, "step": entry.name}
            | replace(entry, parts=()).to_json()
        ),
    )
    try:
        run.clients.control.ledger_set(run.run_id, STEP + entry.name, entry.to_json())
    except CdcError as error:
        log.warning("the time of step %s could not be kept: %s", entry.name, error)


def replication(run: Run) -> Replication:
    """The source. Raises ConfigError for a kind whose transactions have different names on other servers."""
    return _offered(run, run.clients.source)


def named_replicas(run: Run) -> Mapping[str, Replication]:
    """The replicas that the pipeline names, by connection. Raises ConfigError as `replication` does."""
    return {conn_id: _offered(run, replica) for conn_id, replica in run.clients.replicas.items()}


def _offered(run: Run, source: Source) -> Replication:
    if source.replication is None:
        title = SOURCES[run.pipeline.source.kind].title
        raise ConfigError(
            f"what a replica of a {title} source logs cannot be compared with its source",
            where=run.where,
            todo="Trigger cdc_recovery with the strategy full_snapshot.",
        )
    return source.replication
