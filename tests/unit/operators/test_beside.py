"""A driver that waits for tasks beside it ends when one of them failed: nobody does any more what it waits for."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_cdc.core.errors import CdcError
from airflow_cdc.operators import beside
from airflow_cdc.operators.beside import Beside
from airflow_cdc.operators.connector import ResumeConnectorOperator
from airflow_cdc.operators.offset import ResetOffsetOperator
from airflow_cdc.operators.spark import CdcSparkOperator

WAITS_S = 20.0


class Airflow:
    """The states that Airflow answers with, one answer after the other; the last stays."""

    def __init__(self, *answers: tuple[str | None, str | None]) -> None:
        self.answers = list(answers)
        self.dag_id = "cdc_recovery"

    def get_task_states(self, *, dag_id: str, task_ids: list[str], run_ids: list[str], map_index: int) -> Any:
        assert (dag_id, run_ids, map_index) == ("cdc_recovery", ["r"], -1)
        now = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {"r": dict(zip(task_ids, now, strict=True))}


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Beside, threading.Event]]:
    """`looking(*answers)`: what looks beside a task `verify` of a DAG, and whether it ended it."""
    monkeypatch.setattr(beside, "LOOK_S", 0.01)
    with DAG("cdc_recovery", schedule=None) as dag:
        ResetOffsetOperator(task_id="reset_offset", pipeline="shop")
        ResumeConnectorOperator(task_id="resume_connector", pipeline="shop")
        verify = CdcSparkOperator(task_id="verify", app="verify", pipeline="shop")

    def make(*answers: tuple[str | None, str | None]) -> tuple[Beside, threading.Event]:
        ended, context = threading.Event(), {"ti": Airflow(*answers), "run_id": "r", "task": verify}
        assert verify.dag is dag
        return Beside(context, ended.set), ended  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize(
    ("states", "failed"),
    [
        (("failed", None), "reset_offset"),
        (("success", "failed"), "resume_connector"),
        (("success", "upstream_failed"), "resume_connector"),
        (("skipped", None), "reset_offset"),
    ],
)
def test_a_driver_that_waits_ends_when_a_task_that_it_waits_for_fails(
    looking: Any, states: tuple[str | None, str | None], failed: str
) -> None:
    looks, ended = looking(("running", None), states)
    with looks:
        assert ended.wait(WAITS_S)
    assert looks.failed == failed
    assert re.search(f"the task {failed} did not succeed.*Fix what {failed} reports, then clear it", str(looks.error()))


@pytest.mark.parametrize("states", [("running", None), ("up_for_retry", None), ("success", "running")])
def test_a_driver_waits_for_tasks_that_may_still_succeed(looking: Any, states: tuple[str | None, str | None]) -> None:
    looks, ended = looking(states, states, states, ("success", "success"))
    with looks:
        while len(looks._ti.answers) > 1:
            assert not ended.wait(0.01)
    assert (ended.is_set(), looks.failed) == (False, "")


def test_a_driver_is_not_started_to_wait_for_a_task_that_has_failed(looking: Any) -> None:
    looks, _ = looking(("failed", "upstream_failed"))
    with pytest.raises(CdcError, match="the task reset_offset did not succeed"):
        looks.check()
