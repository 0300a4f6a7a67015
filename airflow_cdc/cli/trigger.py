"""Trigger a DAG from the command line, and wait for its end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from airflow_cdc.cli.run import shell_user
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.report import RecoveryReport, Verdict
from airflow_cdc.names import ASK_AGAIN_TASK, REASON, RECOVERY_DAG_ID

DONE = frozenset({"success", "failed"})
QUIET = frozenset({"scheduled", "queued", "none"})
# a task that the plan does not need
IDLE = frozenset({"skipped", "removed"})
# a recovery in which none of these ran left the problem as it was: nobody agreed to the plan
ACTS = ("open_recovery", "restart_connector")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its state and those of its tasks, how long it took, and the reasons that tasks left (by task)."""

    state: str
    tasks: Mapping[str, str]
    seconds: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def planned(self) -> dict[str, str]:
        """The tasks of the run's plan; Airflow skips the others."""
        return {task: state for task, state in self.tasks.items() if state not in IDLE}

    @property
    def failures(self) -> dict[str, str]:
        """Each task that failed by itself → why, in the order in which they started."""
        unsaid = "it left no error: it was killed, or its machine was; see its log"
        return {task: self.reasons.get(task, unsaid) for task, state in self.tasks.items() if state == "failed"}

    def to_json(self) -> dict[str, object]:
        value: dict[str, object] = {"state": self.state, "seconds": self.seconds, "tasks": self.planned}
        return {**value, "failures": self.failures} if self.failures else value

    def rows(self) -> list[dict[str, str]]:
        return [{"task": task, "state": state} for task, state in self.planned.items()]

    def exit_status(self, report: RecoveryReport | None) -> int:
        """Of a recovery: 0 done or nothing to do (then there is no report), 1 rejected or failed, 3 inconclusive."""
        if self.state == "success":
            return int(report is not None and not any(self.tasks.get(task) == "success" for task in ACTS))
        return failed_status(report)


def failed_status(report: RecoveryReport | None) -> int:
    """Of a run that failed: 3 if a comparison came to no conclusion and none found a difference, else 1.

    A run that ended before it compared anything has failed, and is not inconclusive.
    """
    verdicts = {table.verdict for table in report.tables} if report else set()
    return 3 if Verdict.INCONCLUSIVE in verdicts and Verdict.MISMATCH not in verdicts else 1


class Teller(Protocol):
    """Who is told how a run goes on."""

    def seen(self, now: Ended) -> None:
        """The states of the run and its tasks now."""
        ...

    def say(self, text: str) -> None:
        """Something that a person should know, on one line."""
        ...


def start(dag_id: str, conf: Mapping[str, object]) -> str:
    """Trigger a DAG with the form's fields → run id. Raises UsageError for a DAG whose runs would wait: see refuse_waiting()."""
    from airflow.api.client import get_current_api_client
    from airflow.sdk.exceptions import AirflowException

    refuse_waiting(dag_id)
    try:
        answer = get_current_api_client().trigger_dag(dag_id=dag_id, conf=dict(conf), triggering_user_name=shell_user())
    except AirflowException as error:
        raise UsageError(
            f"the run was not triggered: {error}",
            where=f"DAG {dag_id}",
            todo="Check the scheduler's log, and that Airflow loads the DAGs (`airflow cdc init` shows how).",
        ) from error
    if answer is None:
        raise UsageError("the run was not triggered", where=f"DAG {dag_id}", todo="See the scheduler's log.")
    return str(answer["dag_run_id"])


def refuse_waiting(dag_id: str) -> None:
    """Raise UsageError for a DAG that is paused, or of which Airflow knows only that it was there: its runs stay queued for ever."""
    state = paused(dag_id)
    if state is None:
        raise UsageError(
            f"the run was not triggered: Airflow has not loaded {dag_id}, or loads it no more, so the run would wait",
            where=f"DAG {dag_id}",
            todo="See whether its file fails to import (airflow dags list-import-errors), and that Airflow loads the DAG files"
            " (`airflow cdc init` shows how).",
        )
    if state:
        raise UsageError(
            f"the run was not triggered: {dag_id} is paused, so the run would wait",
            where=f"DAG {dag_id}",
            todo=f"Run: airflow dags unpause {dag_id}",
        )


def paused(dag_id: str) -> bool | None:
    """Whether the runs of a DAG wait until somebody unpauses it; None for a DAG that Airflow does not know."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        dag = session.get(DagModel, dag_id)
        return None if dag is None or dag.is_stale else bool(dag.is_paused)


def wait(
    run_id: str,
    timeout: float,
    *,
    teller: Teller,
    interval: float = 1.0,
    dag_id: str = RECOVERY_DAG_ID,
) -> Ended:
    """Wait until the run has ended, telling how it goes on. Raises DeadlineError."""

    def probe() -> Ended | None:
        now = look(run_id, dag_id)
        teller.seen(now)
        return now if now.state in DONE else None

    return poll_until(probe, timeout=timeout, interval=interval, what=f"the end of run {run_id}")


def follow(run_id: str, timeout: float, *, teller: Teller, dag_id: str = RECOVERY_DAG_ID) -> tuple[str, Ended]:
    """Wait for a recovery, and for the run that asks again if its plan changed; returns the last run and its end."""
    deadline = time.monotonic() + timeout
    while True:
        ended = wait(run_id, deadline - time.monotonic(), teller=teller, dag_id=dag_id)
        successor = asks_again(run_id, dag_id) if ended.tasks.get(ASK_AGAIN_TASK) == "success" else None
        if successor is None:
            return run_id, ended
        teller.say(f"the plan changed, and a person is asked again: run {successor}")
        run_id = successor


def asks_again(run_id: str, dag_id: str = RECOVERY_DAG_ID) -> str | None:
    """The run of the same DAG that asks about the plan which that of `run_id` became; None if there is none."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    noted = XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=ASK_AGAIN_TASK, key="trigger_run_id")
    with create_session() as session:
        successor = session.scalars(noted).first()
        return None if successor is None else str(XComModel.deserialize_value(successor))


def look(run_id: str, dag_id: str = RECOVERY_DAG_ID) -> Ended:
    """The states of the run and its tasks now, in the order in which the tasks started."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None:
            raise UsageError(
                f"there is no run {run_id}",
                where=f"DAG {dag_id}",
                todo="Take the id of a run that Airflow shows for this DAG.",
            )
        tasks = sorted(
            run.get_task_instances(session=session), key=lambda ti: (ti.start_date is None, str(ti.start_date))
        )
        seconds = (run.end_date - run.start_date).total_seconds() if run.end_date and run.start_date else None
        ended = Ended(
            str(run.state), {ti.task_id: str(ti.state or "none") for ti in tasks}, seconds and round(seconds, 1)
        )
    return replace(ended, reasons=left(run_id, dag_id, REASON)) if ended.state in DONE else ended


def left(run_id: str, dag_id: str, key: str) -> dict[str, Any]:
    """What the tasks of a run left under `key`, by task."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        rows: Iterable[Any] = session.scalars(XComModel.get_many(run_id=run_id, dag_ids=dag_id, key=key)).all()
        return {row.task_id: XComModel.deserialize_value(row) for row in rows}
