"""What the demo and the tests ask of Airflow's REST API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from stack import rest
from stack.errors import StackError
from stack.process import wait_until
from stack.rest import RestError

FINISHED = frozenset({"success", "failed"})


@dataclass(slots=True)
class AirflowClient:
    """Signed in on the first call, again when the token has run out."""

    url: str
    user: str
    password: str = field(repr=False)
    _token: str = field(default="", repr=False)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """One call below /api/v2; the decoded answer.

        One that failed in the database has changed nothing and is made again: on SQLite, requests of one process
        sometimes wait for each other's lock until its timeout.
        """
        try:
            return self._signed(method, path, body, query)
        except RestError as error:
            if error.status != 500 or "Database error" not in str(error):
                raise
        return self._signed(method, path, body, query)

    def _signed(self, method: str, path: str, body: Any, query: Mapping[str, Any]) -> Any:
        url = f"{self.url}/api/v2{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        try:
            return rest.call(method, url, body, headers={"Authorization": f"Bearer {self._token or self.token()}"})
        except RestError as error:
            if error.status != 401:
                raise
        return rest.call(method, url, body, headers={"Authorization": f"Bearer {self.token()}"})

    def health(self) -> dict[str, Any]:
        """State of every component (no token needed)."""
        return dict(rest.call("GET", f"{self.url}/api/v2/monitor/health", timeout=10))

    def import_errors(self) -> list[dict[str, Any]]:
        """Import errors of DAG files: filename, stack_trace."""
        return list(self.call("GET", "/importErrors")["import_errors"])

    def wait_dag(self, dag_id: str, *, timeout: float = 120.0) -> dict[str, Any]:
        """Wait until the dag processor has loaded a DAG; an import error ends the wait."""

        def probe() -> dict[str, Any] | None:
            try:
                return dict(self.call("GET", f"/dags/{quote(dag_id)}"))
            except RestError as error:
                if error.status != 404:
                    raise
            for import_error in self.import_errors():
                raise StackError(f"{import_error['filename']} does not import:\n{import_error['stack_trace']}")
            return None

        return wait_until(probe, timeout=timeout, what=f"DAG {dag_id}")

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self.call("PATCH", f"/dags/{quote(dag_id)}", {"is_paused": paused}, update_mask="is_paused")

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None, run_id: str | None = None) -> str:
        """Trigger a run; its run id."""
        body: dict[str, Any] = {"logical_date": datetime.now(UTC).isoformat(), "conf": conf or {}}
        if run_id:
            body["dag_run_id"] = run_id
        return str(self.call("POST", f"/dags/{quote(dag_id)}/dagRuns", body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One DAG run."""
        return dict(self.call("GET", _run_path(dag_id, run_id)))

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """The runs of a DAG, newest first."""
        runs = self.call("GET", f"/dags/{quote(dag_id)}/dagRuns", order_by="-run_after", limit=100)
        return list(runs["dag_runs"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """Task instances of a run by task id (mapped ones as `task[3]`)."""
        tasks = self.call("GET", f"{_run_path(dag_id, run_id)}/taskInstances", limit=1000)["task_instances"]
        return {_task_name(one): one for one in tasks}

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """State of every task of a run; "none" while it is not scheduled."""
        return {name: one["state"] or "none" for name, one in self.tasks(dag_id, run_id).items()}

    def wait_run(
        self,
        dag_id: str,
        run_id: str,
        *,
        timeout: float,
        watch: Callable[[dict[str, dict[str, Any]]], None] | None = None,
        interval: float = 1.0,
    ) -> str:
        """Wait until a run has ended; "success" or "failed". `watch` sees the task instances at every poll."""

        def probe() -> str | None:
            state = str(self.run(dag_id, run_id)["state"])
            if watch:
                watch(self.tasks(dag_id, run_id))
            return state if state in FINISHED else None

        return wait_until(probe, timeout=timeout, what=f"run {run_id} of {dag_id}", interval=interval)

    def wait_task(
        self, dag_id: str, run_id: str, task_id: str, states: Sequence[str], *, timeout: float, interval: float = 0.3
    ) -> dict[str, Any]:
        """Wait until a task is in one of the states; its task instance."""

        def probe() -> dict[str, Any] | None:
            one = self.tasks(dag_id, run_id).get(task_id)
            return one if one and (one["state"] or "none") in states else None

        return wait_until(
            probe, timeout=timeout, what=f"task {task_id} of {run_id} to be {' or '.join(states)}", interval=interval
        )

    def clear(
        self, dag_id: str, run_id: str, task_ids: Sequence[str], *, downstream: bool = True, only_failed: bool = False
    ) -> list[str]:
        """Clear tasks of a run, so that they run again; the ids of the cleared ones."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "include_downstream": downstream,
            "only_failed": only_failed,
            "reset_dag_runs": True,
        }
        answer = self.call("POST", f"/dags/{quote(dag_id)}/clearTaskInstances", body)
        return [_task_name(one) for one in answer["task_instances"]]

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try of a task, as lines of text."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}"
        content = self.call("GET", path, full_content="true")["content"]
        return "\n".join(line for one in content for line in _lines(one))

    def question(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """What a task asks a person: subject, body, options, params; and the response, if there is one."""
        return dict(self.call("GET", _question_path(dag_id, run_id, task_id)))

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str, **form: Any) -> None:
        """Answer it; `form` are the fields of its form."""
        body = {"chosen_options": [option], "params_input": form}
        self.call("PATCH", _question_path(dag_id, run_id, task_id), body)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """One XCom value of a task."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        return self.call("GET", path, deserialize="false")["value"]

    def rendered(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """The rendered template fields of a task, as the UI shows them."""
        return dict(self.tasks(dag_id, run_id)[task_id].get("rendered_fields") or {})

    def token(self) -> str:
        """Sign in; the token that proves it."""
        body = {"username": self.user, "password": self.password}
        self._token = str(rest.call("POST", f"{self.url}/auth/token", body)["access_token"])
        return self._token


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"


def _question_path(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/-1/hitlDetails"


def _lines(entry: str | dict[str, Any]) -> list[str]:
    """A log entry as text; an exception stands apart from its message."""
    if isinstance(entry, str):
        return [entry]
    errors = entry.get("error_detail") or []
    return [str(entry.get("event", entry)), *(f"{one.get('exc_type')}: {one.get('exc_value')}" for one in errors)]


def _task_name(one: dict[str, Any]) -> str:
    index = one.get("map_index", -1)
    return str(one["task_id"]) if index is None or index < 0 else f"{one['task_id']}[{index}]"
