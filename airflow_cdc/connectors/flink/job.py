"""What the JobManager says of one job, and what that means: a job that fails over and over is mostly not called FAILED."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from airflow_cdc.core.observation import ConnectorState, TaskState

RUNNING: Final = "RUNNING"
STOPPED: Final = "STOPPED"
FAILED: Final = "FAILED"
_ENDED: Final = frozenset({"FINISHED", "CANCELED", FAILED})
_FAILING: Final = frozenset({"RESTARTING", "FAILING", FAILED})
# how Flink CDC names operators of a job that it makes from a pipeline YAML
_BY_YAML: Final = re.compile(r"Flink CDC Event Source|\b(SchemaOperator|PrePartition|PostPartition)\b")
_CALM_MS: Final = 60_000


# As the JobManager writes them, as far as they are read here
class _State(TypedDict, total=False):
    id: int
    external_path: str | None


class StoredStates(TypedDict, total=False):
    latest: Mapping[str, _State]


class Failure(TypedDict, total=False):
    stacktrace: str | None
    timestamp: int


class Failures(TypedDict, total=False):
    exceptionHistory: Mapping[str, list[Failure]]


Details = TypedDict(
    "Details",
    {
        "jid": str,
        "name": str,
        "state": str,
        "now": int,
        "start-time": int,
        "end-time": int,
        "timestamps": Mapping[str, int],
        "vertices": list[Mapping[str, object]],
    },
    total=False,
)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """GET /jobs/ID/checkpoints."""

    said: StoredStates

    @property
    def completed(self) -> str:
        """The path of the newest checkpoint of its own; "": none yet."""
        return self._path("completed")

    @property
    def restored(self) -> str:
        """The path of what it was started, or restarted, from; "": without state."""
        return self._path("restored")

    @property
    def newest_own(self) -> str:
        """The path of the newest checkpoint or savepoint of its own; "": none."""
        kinds = [kind for kind in ("completed", "savepoint") if self._path(kind)]
        return self._path(max(kinds, key=lambda kind: self.said["latest"][kind]["id"])) if kinds else ""

    @property
    def newest(self) -> str:
        """The path of the newest state; "": there is none."""
        return self.newest_own or self.restored

    def _path(self, kind: str) -> str:
        one = self.said.get("latest", {}).get(kind)
        return str(one.get("external_path") or "") if one else ""


@dataclass(frozen=True, slots=True)
class Job:
    """GET /jobs/ID, its exceptions and its checkpoints."""

    said: Details
    exceptions: Failures
    checkpoints: Checkpoints

    @staticmethod
    def has_ended(status: str) -> bool:
        """Whether a job of this status will never run again."""
        return status in _ENDED

    @property
    def id(self) -> str:
        return str(self.said["jid"])

    @property
    def status(self) -> str:
        """Flink's word for it."""
        return str(self.said["state"])

    @property
    def now(self) -> int:
        """The JobManager's clock, in milliseconds."""
        return int(self.said["now"])

    @property
    def began(self) -> int:
        """When it was submitted."""
        return int(self.said["start-time"])

    @property
    def by_yaml(self) -> bool:
        """Whether Flink CDC made it from a pipeline YAML, and not Flink from a statement."""
        return any(_BY_YAML.search(str(vertex.get("name", ""))) for vertex in self.said.get("vertices", ()))

    @property
    def ended(self) -> int:
        """When it ended; -1: it has not."""
        return int(self.said["end-time"])

    @property
    def restarts(self) -> int:
        """How many failures Flink remembers."""
        return len(self._failures)

    @property
    def failure(self) -> str:
        """The trace of its last failure, while it is failing by Flink's word; else ""."""
        return self.last_trace if self.status in _FAILING else ""

    @property
    def last_trace(self) -> str:
        """The trace of its last failure; "": it had none."""
        return str(self._failures[0].get("stacktrace") or "") if self._failures else ""

    @property
    def failed_at(self) -> int:
        """When it failed last, by the JobManager's clock; -1: it never did."""
        return int(self._failures[0]["timestamp"]) if self._failures else -1

    def runs_for(self, milliseconds: int) -> bool:
        """Whether it has been running, with all its tasks, for this long."""
        running = all(vertex["status"] == RUNNING for vertex in self.said.get("vertices", ()))
        return self.status == RUNNING and running and self.now - int(self.said["timestamps"][RUNNING]) >= milliseconds

    @property
    def _failures(self) -> list[Failure]:
        return list(self.exceptions.get("exceptionHistory", {}).get("entries", ()))


def job_state(job: Job | None, *, moved: Callable[[], bool]) -> ConnectorState:
    """The job's state. `moved`: whether it stored another offset than the one that it was restored from.

    After a failure the job counts as FAILED until it shows that it reads: by its offset, or by a minute without failing.
    """
    if job is None or job.status in ("FINISHED", "CANCELED"):
        return ConnectorState(STOPPED)
    if job.status == FAILED:
        return ConnectorState(FAILED, (TaskState(0, FAILED, job.last_trace),))
    if job.failure or (job.status == RUNNING and job.last_trace and not job.runs_for(_CALM_MS) and not moved()):
        return ConnectorState(RUNNING, (TaskState(0, FAILED, job.last_trace),))
    if job.status == RUNNING:
        return ConnectorState(RUNNING, (TaskState(0, RUNNING),))
    return ConnectorState(job.status, (TaskState(0, job.status),))
