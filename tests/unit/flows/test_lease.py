"""Whether a run that holds a lease still goes on, as Airflow says it: to a task, and to a command (INV 37)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_cdc.cli import run as command
from airflow_cdc.core.lease import Lease
from airflow_cdc.flows.lease import ended_by
from airflow_cdc.operators import base

LEASE = Lease("manual__1", "2026-01-01T00:00:00+00:00", "cdc_recovery")


@pytest.mark.parametrize(("count", "lives"), [(1, True), (0, False)])
def test_a_task_asks_how_many_such_runs_are_queued_or_running(count: int, lives: bool) -> None:
    ti = create_autospec(RuntimeTaskInstance, instance=True)
    ti.get_dr_count.return_value = count
    assert base.lives(cast("Any", {"ti": ti}), "cdc_recovery", "manual__1") is lives
    ti.get_dr_count.assert_called_once_with(dag_id="cdc_recovery", run_ids=["manual__1"], states=["queued", "running"])


def test_an_airflow_that_does_not_answer_leaves_it_open_and_the_lease_held() -> None:
    ti = create_autospec(RuntimeTaskInstance, instance=True)
    ti.get_dr_count.side_effect = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
    context = cast("Any", {"ti": ti})
    assert base.lives(context, "cdc_recovery", "manual__1") is None
    assert not ended_by(lambda dag_id, run_id: base.lives(context, dag_id, run_id))(LEASE)


def test_a_command_asks_airflows_database(airflow_db: Path) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    now = datetime.now(UTC)
    with create_session() as session:
        for run_id, state in (
            ("goes-on", DagRunState.RUNNING),
            ("waits", DagRunState.QUEUED),
            ("ended", DagRunState.FAILED),
        ):
            session.add(DagRun(dag_id="lives", run_id=run_id, run_type=DagRunType.MANUAL, state=state, run_after=now))
    answers = {run_id: command.lives("lives", run_id) for run_id in ("goes-on", "waits", "ended", "was deleted")}
    assert answers == {"goes-on": True, "waits": True, "ended": False, "was deleted": False}


def test_inv_37_whoever_cannot_ask_airflow_takes_only_leases_that_no_run_of_a_dag_holds() -> None:
    assert ended_by(lambda *_: True)(Lease("apply", LEASE.expires_at))
    assert ended_by(None)(Lease("apply", LEASE.expires_at))
    assert not ended_by(None)(LEASE)
    assert not ended_by(lambda *_: True)(LEASE)
    assert ended_by(lambda *_: False)(LEASE)
