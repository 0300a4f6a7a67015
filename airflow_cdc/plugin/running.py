"""The runs that work on pipelines now, from Airflow's own database: at which step, since when, and until about when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.names import RECOVERY_DAG_ID, REPAIR_DAG_ID, SHARED_DAG_IDS, dag_id_for, nightly_dag_id
from airflow_cdc.reports.stored import RunSummary

APPROVE_TASK = "approve"
# a task's states during its run, the most informative first
_AT_WORK = ("running", "awaiting_input", "deferred", "queued", "scheduled", "up_for_retry", "restarting")
_ASKS = frozenset({"awaiting_input", "deferred"})


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A running run: its current step ("" between two), the step's state, and when the run began."""

    dag_id: str
    run_id: str
    began: datetime | None
    step: str = ""
    state: str = ""

    @property
    def asks(self) -> bool:
        """Whether the run waits for a person's answer."""
        return self.step == APPROVE_TASK and self.state in _ASKS

    def ends_about(self, runs: Sequence[RunSummary]) -> datetime | None:
        """The time at which it ends if it takes as long as its DAG's newest finished run; None if there is none."""
        if self.began is None or self.asks:
            return None
        last = next((run for run in runs if run.dag_id == self.dag_id and run.seconds), None)
        return self.began + timedelta(seconds=last.seconds) if last else None


def running_runs(pipelines: Iterable[Pipeline]) -> Mapping[str, RunningRun]:
    """Pipeline → the run that works on it now or is queued; two queries for any number of pipelines."""
    own = {dag_id: one.name for one in pipelines for dag_id in _own_dags(one)}
    dag_ids = [RECOVERY_DAG_ID, REPAIR_DAG_ID, *own]
    with create_session() as session:
        states = (DagRunState.RUNNING, DagRunState.QUEUED)
        query = select(DagRun.dag_id, DagRun.run_id, DagRun.conf, DagRun.start_date)
        query = query.where(DagRun.dag_id.in_(dag_ids), DagRun.state.in_(states)).order_by(DagRun.id)
        live = session.execute(query).all()
        steps = _steps(session, [run_id for _, run_id, *_ in live])
    return {
        name: RunningRun(dag_id, run_id, began, *steps.get((dag_id, run_id), ("", "")))
        for dag_id, run_id, conf, began in live
        if (name := own.get(dag_id) or str((conf or {}).get("pipeline") or ""))
    }


def _own_dags(pipeline: Pipeline) -> list[str]:
    """The DAGs of this pipeline alone whose runs work on it."""
    ids = {dag_id_for(pipeline, dag_id) for dag_id in (RECOVERY_DAG_ID, REPAIR_DAG_ID)} - SHARED_DAG_IDS
    return [nightly_dag_id(pipeline.name), *sorted(ids)]


def _steps(session: object, run_ids: Sequence[str]) -> dict[tuple[str, str], tuple[str, str]]:
    """(dag, run) → the step at work and its state."""
    if not run_ids:
        return {}
    columns = (TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.state)
    query = select(*columns).where(TaskInstance.run_id.in_(run_ids), TaskInstance.state.in_(_AT_WORK))
    rows = session.execute(query).all()  # type: ignore[attr-defined] # Airflow's session has no type of its own
    least_telling_first = sorted(rows, key=lambda row: -_AT_WORK.index(str(row[3])))
    return {(dag_id, run_id): (task_id, str(state)) for dag_id, run_id, task_id, state in least_telling_first}
