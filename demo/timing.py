"""How long a run of a DAG took, and for how much of that no task of it ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds from the trigger to the run's end; `no_task_ran` of them belong to the scheduler."""

    seconds: float
    no_task_ran: float


def taken(run: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]]) -> Taken:
    """Of a run and its task instances as Airflow's API gives them."""
    begin, end = (_moment(run[key]) for key in ("queued_at", "end_date"))
    seconds = end - begin
    spans = [span(task) for task in tasks if task.get("start_date") and task.get("end_date")]
    return Taken(round(seconds, 1), round(seconds - covered(spans), 1))


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that at least one of the spans covers."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def span(task: Mapping[str, Any]) -> tuple[float, float]:
    """When a task instance began and ended, in seconds since 1970."""
    return _moment(task["start_date"]), _moment(task["end_date"])


def _moment(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()
