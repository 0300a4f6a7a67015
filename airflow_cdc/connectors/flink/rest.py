"""The REST interfaces of Flink's JobManager and of its SQL gateway."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import httpx

from airflow_cdc.answers import ask, explained, parsed
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.job import Details
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.text import root_cause, shown

_OTHER_IDS: Final = "Cannot map checkpoint/savepoint state for operator"
_ENDED: Final = frozenset({"FINISHED", "ERROR", "CANCELED", "CLOSED", "TIMEOUT"})
_CAUSE: Final = re.compile(r"Caused by: ((?:(?!Caused by: |\\n).)*)", re.DOTALL)
_NOT_FOUND: Final = 404


class CheckpointSettings(TypedDict, total=False):
    """How often a job stores its state, in milliseconds, and where."""

    interval: int
    externalization: Mapping[str, bool]


_Savepoint = TypedDict("_Savepoint", {"location": str, "failure-cause": Mapping[str, str]}, total=False)


@explained(ConnectorError, "Flink")
@dataclass(frozen=True, slots=True)
class FlinkRest:
    """JSON requests to one cluster. Every method raises ConnectorError."""

    endpoint: FlinkEndpoint

    @property
    def where(self) -> str:
        """How messages name the cluster."""
        return self.endpoint.where

    # ---- the JobManager

    def job_manager(self, method: str, path: str, body: object = None) -> Any:
        """One request to the JobManager: the parsed answer, or None without content."""
        return self._call(method, self.endpoint.url + path, body)

    def overview(self) -> list[Details]:
        """All jobs that the cluster knows, ended ones too."""
        return list(self.job_manager("GET", "/jobs/overview")["jobs"])

    def of_job(self, job: str, what: str = "") -> Any:
        """What the JobManager says of a job: `what` is "", "exceptions", "checkpoints", …"""
        return self.job_manager("GET", f"/jobs/{job}{'/' if what else ''}{what}")

    def checkpoint_settings(self, job: str) -> CheckpointSettings | None:
        """How often a job stores its state, and where; None if it never does."""
        try:
            settings: CheckpointSettings = self.of_job(job, "checkpoints/config")
        except ConnectorError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return settings

    def stop_with_savepoint(self, job: str, timeout: float) -> str:
        """Stop a job that runs and return the savepoint's path."""
        where = {"targetDirectory": self.endpoint.savepoints} if self.endpoint.savepoints else {}
        request = self.job_manager("POST", f"/jobs/{job}/stop", {**where, "drain": False})["request-id"]

        def done() -> _Savepoint | None:
            answer = self.of_job(job, f"savepoints/{request}")
            return answer["operation"] if answer["status"]["id"] == "COMPLETED" else None

        operation = poll_until(done, timeout=timeout, interval=0.2, what="Flink to write a savepoint")
        if cause := operation.get("failure-cause"):
            text = shown(root_cause(str(cause.get("stack-trace") or cause.get("class"))))
            raise ConnectorError(
                f"the savepoint failed: {text}",
                where=self.endpoint.where,
                todo="See the JobManager's log; the job runs on.",
            )
        return str(operation["location"])

    def cancel(self, job: str) -> None:
        """Cancel a job; it may still be ending."""
        self.job_manager("PATCH", f"/jobs/{job}?mode=cancel")

    # ---- the SQL gateway

    def execute_plan(self, path: str, properties: Mapping[str, str], timeout: float) -> str:
        """Start the job of a compiled plan, in a session with these properties; its id."""
        if not self.endpoint.gateway:
            raise ConnectorError(
                "no SQL gateway is known, so the job cannot be started",
                where=self.endpoint.where,
                todo="Add the extra field `gateway` to the connection.",
            )
        base = f"{self.endpoint.gateway}/v1/sessions"
        session = f"{base}/{self._call('POST', base, {'properties': dict(properties)})['sessionHandle']}"
        try:
            text = path.replace("'", "''")
            started = self._call("POST", f"{session}/statements", {"statement": f"EXECUTE PLAN '{text}'"})
            at = f"{session}/operations/{started['operationHandle']}"

            def ended() -> str:
                status = str(self._call("GET", f"{at}/status")["status"])
                if status not in _ENDED:
                    raise NotYet(status)
                return status

            poll_until(ended, timeout=timeout, interval=0.2, what="the SQL gateway to start the job")
            answer = self._call("GET", f"{at}/result/0?rowFormat=JSON")
        except ConnectorError as error:
            raise advised(error) from None
        finally:
            self._call("DELETE", session)
        return str(answer["results"]["data"][0]["fields"][0])

    # ---- inside

    def _call(self, method: str, url: str, body: object = None) -> Any:
        end, where = self.endpoint, f"{self.endpoint.where}, {method} {url}"
        try:
            with httpx.Client(
                auth=(end.user, end.password) if end.user else None,
                verify=end.verify,
                timeout=httpx.Timeout(end.timeout, connect=min(end.timeout, 10.0)),
                headers={"Accept": "application/json"},
                trust_env=False,
            ) as client:
                answer = ask(client, method, url, within=end.timeout, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ConnectorError(
                f"Flink could not be asked: {error or type(error).__name__}",
                where=where,
                todo="Check the connection's URL, and that Flink answers there.",
            ) from None
        return _content(answer, where)


def advised(error: ConnectorError) -> ConnectorError:
    """What a start ended with, with what to do if its state does not fit."""
    if _OTHER_IDS in error.what:
        error.todo = (
            "The operators of a sink have other ids than in the state: Hudi numbers them again in each job that one SQL"
            " gateway starts. Restart the SQL gateway, then run this again."
        )
    return error


def _content(answer: httpx.Response, where: str) -> object:
    if not answer.is_success:
        raise ConnectorError(
            f"HTTP {answer.status_code}: {_message(answer.text)}",
            where=where,
            todo="See the log of the JobManager or of the SQL gateway.",
            status=answer.status_code,
        )
    try:
        return parsed(answer) if answer.content else None
    except ValueError:
        raise ConnectorError(
            "the answer is not JSON",
            where=where,
            todo="Something else answers there, such as a proxy: check the URL.",
            status=answer.status_code,
        ) from None


def _message(body: str) -> str:
    """The last cause in an answer that holds whole stack traces, without secrets."""
    causes = [cause.strip() for cause in _CAUSE.findall(body)]
    return shown(causes[-1] if causes else body.partition("\\n\\tat ")[0], 600)
