"""A driver that waits for what other tasks of its run do ends when one of them has failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_cdc.core.errors import CdcError
from airflow_cdc.operators.connector import ResumeConnectorOperator
from airflow_cdc.operators.offset import ResetOffsetOperator

log = logging.getLogger("airflow_cdc.operators")

# `verify` starts its session while the offset is written, and then waits until the connector streams
RESUMING: Final = (ResetOffsetOperator, ResumeConnectorOperator)
# states in which a task will not do by itself what is waited for; one that is retried or cleared will
ENDED: Final = frozenset({"failed", "upstream_failed", "skipped", "removed"})
LOOK_S: Final = 5.0


class Beside:
    """Calls `end` once, if one of the tasks that resume the connector has ended without success while the block runs.

    `failed` then names that task; it is looked for at the block's beginning, too. Without this a driver waits half an hour for a
    connector that nobody will start, and the run and its failure callbacks wait with it.
    """

    def __init__(self, context: Context, end: Callable[[], object]) -> None:
        self._ti: Any = context["ti"]
        self._run_id = str(context["run_id"])
        dag = context["task"].dag
        self._tasks = [task.task_id for task in (dag.tasks if dag else ()) if isinstance(task, RESUMING)]
        self._end = end
        self._over = threading.Event()
        self.failed = ""

    def __enter__(self) -> Self:
        if self._tasks:
            threading.Thread(target=self._keep_looking, name="beside", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def check(self) -> None:
        """Raise CdcError if one of the tasks has ended without success: nobody will do what is waited for."""
        self._look()
        if self.failed:
            raise self.error()

    def error(self) -> CdcError:
        """What to say of the task that failed."""
        return CdcError(
            f"the task {self.failed} did not succeed, so the connector is not resumed and nothing can be verified",
            where=f"run {self._run_id}",
            todo=f"Fix what {self.failed} reports, then clear it and all after it.",
        )

    def _keep_looking(self) -> None:
        while not self._over.wait(LOOK_S):
            if self._look():
                return
            if self.failed:
                log.error("the task %s did not succeed: what waits for it ends", self.failed)
                self._end()
                return

    def _look(self) -> bool:
        """Whether all tasks have succeeded; `failed` is set if one can't any more."""
        if not self._tasks:
            return True
        try:
            answer = self._ti.get_task_states(
                dag_id=self._ti.dag_id, task_ids=self._tasks, run_ids=[self._run_id], map_index=-1
            )
        except AirflowRuntimeError as error:  # asked again soon
            log.warning("Airflow could not be asked about %s: %s", ", ".join(self._tasks), error)
            return False
        states = {task: str(state) for task, state in (answer.get(self._run_id) or {}).items()}
        self.failed = next((task for task in self._tasks if states.get(task) in ENDED), "")
        return all(states.get(task) == "success" for task in self._tasks)
