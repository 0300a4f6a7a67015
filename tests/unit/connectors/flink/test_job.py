"""What a job's state means, as the JobManager of Flink 1.20.3 tells of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.flink.job import Checkpoints, Details, Failure, Job, job_state

NOW = 1_795_509_300_000
TRACE = "java.lang.RuntimeException: One or more fetchers have encountered exception"


def job(state: str, *, failures: int = 0, ran: int = 0, latest: dict[str, Any] | None = None) -> Job:
    """A job that has been RUNNING for `ran` milliseconds."""
    entries: list[Failure] = [{"timestamp": NOW - ran - 1, "stacktrace": TRACE}] * failures
    times = {"RUNNING": NOW - ran}
    said: Details = {
        "jid": "j",
        "state": state,
        "now": NOW,
        "start-time": 1,
        "timestamps": times,
        "vertices": [{"status": "RUNNING"}],
    }
    return Job(said, {"exceptionHistory": {"entries": entries}}, Checkpoints({"latest": latest or {}}))


def states(one: Job | None, *, moved: bool = False) -> tuple[str, ...]:
    state = job_state(one, moved=lambda: moved)
    return (state.state, *(task.state for task in state.tasks))


@pytest.mark.parametrize(
    ("one", "seen"),
    [
        (None, ("STOPPED",)),
        (job("FINISHED"), ("STOPPED",)),
        (job("CANCELED", failures=3), ("STOPPED",)),
        (job("FAILED", failures=3), ("FAILED", "FAILED")),
        (job("RUNNING"), ("RUNNING", "RUNNING")),
        (job("CREATED"), ("CREATED", "CREATED")),
        (job("RESTARTING", failures=1), ("RUNNING", "FAILED")),
        (job("RUNNING", failures=1, ran=3_000), ("RUNNING", "FAILED")),
        (job("RUNNING", failures=1, ran=59_000), ("RUNNING", "FAILED")),
        (job("RUNNING", failures=1, ran=61_000), ("RUNNING", "RUNNING")),
    ],
)
def test_it_fails_by_its_exceptions_and_not_by_what_it_is_called(one: Job | None, seen: tuple[str, ...]) -> None:
    assert states(one) == seen


def test_a_job_that_moved_on_after_a_failure_runs_at_once() -> None:
    assert states(job("RUNNING", failures=1, ran=3_000), moved=True) == ("RUNNING", "RUNNING")
    # while it is between two tries it has not
    assert states(job("RESTARTING", failures=1), moved=True) == ("RUNNING", "FAILED")


def test_the_newest_state_is_its_own_before_what_it_was_restored_from() -> None:
    restored = {"restored": {"id": 48, "external_path": "file:/s/savepoint-1"}}
    assert job("RUNNING", latest=restored).checkpoints.newest == "file:/s/savepoint-1"
    own = {**restored, "completed": {"id": 50, "external_path": "file:/c/chk-50"}}
    assert job("RUNNING", latest=own).checkpoints.newest == "file:/c/chk-50"
    both = {**own, "savepoint": {"id": 51, "external_path": "file:/s/savepoint-2"}}
    assert job("FINISHED", latest=both).checkpoints.newest == "file:/s/savepoint-2"
    assert job("RUNNING").checkpoints.newest == ""


@pytest.mark.parametrize(
    ("name", "by_yaml"),
    [
        ("Source: Flink CDC Event Source: mysql -> PrePartition", True),
        ("SchemaOperator -> Sink Writer: Iceberg", True),
        ("Source: orders[1] -> IcebergStreamWriter", False),
    ],
)
def test_a_job_from_a_pipeline_yaml_is_told_by_its_operators(name: str, *, by_yaml: bool) -> None:
    one = job("RUNNING")
    assert replace(one, said={**one.said, "vertices": [{"status": "RUNNING", "name": name}]}).by_yaml is by_yaml
