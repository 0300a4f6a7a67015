"""Connectors on Kafka Connect: stop, offsets, resume, over REST (KIP-875).

Values for display (config, status) hold no secrets; `raw_config` does, for writing it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self, TypeVar

from airflow_cdc.answers import explained
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint, ConnectHttp, ConnectorMissingError
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.secrets import mask_config, mask_text, secrets_of
from airflow_cdc.core.text import root_cause

__all__ = ["ConnectEndpoint", "KafkaConnect"]

T = TypeVar("T")

Json = dict[str, Any]
_NEVER: Final = ("FAILED", "DESTROYED")


@explained(ConnectorError, "Kafka Connect")
class KafkaConnect:
    """One Connect cluster. May be shared by threads; `close()` gives back its sockets."""

    def __init__(self, endpoint: ConnectEndpoint) -> None:
        self.endpoint = endpoint
        self._http = ConnectHttp(endpoint)

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    def close(self) -> None:
        """Give back the sockets."""
        self._http.close()

    def root(self) -> Json:
        """version, commit and kafka_cluster_id of the worker."""
        return self._object("GET", ())

    def names(self) -> tuple[str, ...]:
        """The connectors that exist, sorted."""
        names = self._http.call("GET", ("connectors",))
        return tuple(sorted(self._shaped(names, isinstance(names, list) and all(isinstance(n, str) for n in names))))

    def status(self, name: str) -> Json:
        """State of the connector and its tasks as Connect reports it; traces without secrets.

        A connector that was just made has no status yet; it is UNASSIGNED, as Connect calls one that no worker has.
        """
        try:
            status = self._object("GET", ("connectors", name, "status"))
        except ConnectorMissingError:
            self.raw_config(name)  # raises where there is no such connector at all
            return {"name": name, "connector": {"state": "UNASSIGNED"}, "tasks": []}
        self._shaped(status, _is_status(status))
        for part in (status["connector"], *status["tasks"]):
            if part.get("trace"):
                part["trace"] = mask_text(part["trace"])
        return status

    def reported(self, name: str) -> ConnectorState:
        """The states of the connector and its tasks."""
        status = self.status(name)
        own = status["connector"]
        tasks = tuple(TaskState(t["id"], t["state"], t.get("trace", "")) for t in status["tasks"])
        return ConnectorState(own["state"], tasks, own.get("trace", ""))

    def config(self, name: str) -> dict[str, str]:
        """The config for display: secret values are ***. Not for writing back."""
        return mask_config(self.raw_config(name))

    def raw_config(self, name: str) -> dict[str, str]:
        """The config with its secrets: only for change_config, never for a log, XCom or report."""
        config = self._object("GET", ("connectors", name, "config"))
        self._shaped(config, all(isinstance(v, str | None) for v in config.values()))
        return {str(k): str(v) for k, v in config.items()}

    def create(self, name: str, config: Mapping[str, str], *, initial_state: str | None = None) -> None:
        """Create a connector; `initial_state` RUNNING, PAUSED or STOPPED (Connect 3.7+).

        If it exists already with exactly this config (an answer was lost), that is success.
        """
        body: Json = {"name": name, "config": dict(config)}
        if initial_state:
            body["initial_state"] = initial_state
        try:
            self._http.call("POST", ("connectors",), body=body, secrets=secrets_of(config))
        except ConnectorError as error:
            if error.status != 409 or self.raw_config(name) != {"name": name, **config}:
                raise self._explained(error, config) from None

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Replace the config (or create the connector). Its tasks restart. Raises ConnectorError."""
        try:
            self._http.call("PUT", ("connectors", name, "config"), body=dict(config), secrets=secrets_of(config))
        except ConnectorError as error:
            raise self._explained(error, config) from None

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Replace the config `before` by `after`, and read it back. Raises ConnectorError, with `before` put back."""
        self.put_config(name, after)
        if self.raw_config(name) == after:
            return
        self.put_config(name, before)
        raise ConnectorError(  # without the values: they may be secret
            f"the configuration of connector {name} read back differs from what was written; the old offset was restored",
            where=self.endpoint.where,
            todo="Look for another writer of this connector's configuration, then do this again.",
        )

    def plugins(self) -> dict[str, str]:
        """The class of each connector that the worker can run → its version; "" for one that does not say."""
        listed = self._http.call("GET", ("connector-plugins",))
        self._shaped(listed, isinstance(listed, list) and all(isinstance(one, dict) for one in listed))
        return {str(one.get("class", "")): str(one.get("version") or "") for one in listed}

    def validate(self, config: Mapping[str, str]) -> tuple[str, ...]:
        """What is wrong with a config, as "setting: fault" without secrets; () when it is valid."""
        plugin = config.get("connector.class", "")
        secrets = secrets_of(config)
        path = ("connector-plugins", plugin, "config", "validate")
        answer = self._http.call("PUT", path, body=dict(config), secrets=secrets)
        self._shaped(answer, isinstance(answer, dict))
        values = [entry["value"] for entry in answer.get("configs") or () if entry.get("value")]
        faults = [f"{value['name']}: {text}" for value in values for text in value.get("errors") or ()]
        return tuple(mask_text(fault, secrets) for fault in faults)

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets stay in the topic. No error if it is already gone."""
        try:
            self._http.call("DELETE", ("connectors", name))
        except ConnectorMissingError:
            return

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop the connector and wait until it is STOPPED with zero tasks (see wait_stopped)."""
        self._http.call("PUT", ("connectors", name, "stop"))
        self.wait_stopped(name, timeout=timeout)

    def wait_stopped(self, name: str, *, timeout: float = 60.0) -> None:
        """Wait for STOPPED with zero tasks: only then does it certainly produce nothing more. Raises DeadlineError."""

        def stopped() -> bool:
            status = self.status(name)
            state, tasks = status["connector"]["state"], status["tasks"]
            if state != "STOPPED" or tasks:
                raise NotYet(f"{state} with {len(tasks)} tasks")
            return True

        poll_until(stopped, timeout=timeout, interval=0.2, what=f"connector {name} is STOPPED with zero tasks")

    def resume(self, name: str) -> None:
        """Ask a stopped or paused connector to run. It answers before it runs: see wait_running."""
        self._http.call("PUT", ("connectors", name, "resume"))

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Wait until the connector and at least one task are RUNNING.

        Raises ConnectorError with the trace's first line when the connector or a task FAILED,
        DeadlineError when it takes too long.
        """

        def running() -> bool:
            status = self.status(name)
            for part in (status["connector"], *status["tasks"]):
                if part["state"] in _NEVER:
                    raise self._failed(name, part)
            states = [task["state"] for task in status["tasks"]]
            if status["connector"]["state"] != "RUNNING" or not states or set(states) != {"RUNNING"}:
                raise NotYet(f"{status['connector']['state']} with tasks {states}")
            return True

        poll_until(running, timeout=timeout, interval=0.3, what=f"connector {name} runs")

    def restart(self, name: str, *, only_failed: bool = True) -> None:
        """Restart the connector and its tasks, by default only those that FAILED."""
        params = {"includeTasks": "true", "onlyFailed": str(only_failed).lower()}
        self._http.call("POST", ("connectors", name, "restart"), params=params)

    def offsets(self, name: str) -> list[Json]:
        """The stored offsets: [{"partition": {...}, "offset": {...}}]. Connect 3.5+.

        Connect lists the partitions that its reader has met, then reads their offsets up to the topic's end: one that was
        removed between the two comes as null. It has no offset.
        """
        entries = self._object("GET", ("connectors", name, "offsets")).get("offsets") or []
        shaped = self._shaped(entries, isinstance(entries, list) and all(map(_is_offset, entries)))
        return [entry for entry in shaped if entry["offset"] is not None]

    def committed_offset(self, name: str, server: str) -> Json | None:
        """The offset value stored for the partition {"server": server} (the topic.prefix), or None."""
        entry = entry_of(self.offsets(name), server)
        return None if entry is None else entry["offset"]

    def alter_offsets(self, name: str, partition: Mapping[str, object], value: Mapping[str, object] | None) -> str:
        """Replace the offset of `partition` (None removes it) and return Connect's own message.

        Connect checks nothing but the state: read it back and compare. Raises OffsetRejectedError on
        400 (not STOPPED, or malformed), ConnectorMissingError on 404, RebalancingError when 409 lasts.
        """
        body = {"offsets": [{"partition": dict(partition), "offset": None if value is None else dict(value)}]}
        return self._change_offsets("PATCH", name, body)

    def delete_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector and return Connect's own message."""
        return self._change_offsets("DELETE", name, None)

    def _change_offsets(self, method: str, name: str, body: Json | None) -> str:
        try:
            answer = self._http.call(method, ("connectors", name, "offsets"), body=body)
        except ConnectorError as error:
            if error.status == 400:
                raise OffsetRejectedError(
                    f"Connect refused to change the offsets: {error.what}",
                    where=error.where,
                    todo="The connector must be STOPPED with zero tasks; stop it first.",
                    reasons=(error.what,),
                ) from None
            raise
        self._shaped(answer, isinstance(answer, dict | None))
        return str((answer or {}).get("message", ""))

    def _explained(self, error: ConnectorError, config: Mapping[str, str]) -> ConnectorError:
        """Connect 4.3 answers an invalid config with a bare 500: ask it what is wrong, and report that instead."""
        if error.status != 500:
            return error
        try:
            faults = self.validate(config)
        except ConnectorError:
            return error
        if not faults:
            return error
        return ConnectorError(
            f"the connector's config is invalid: {'; '.join(faults)}",
            where=error.where,
            todo="Correct these settings.",
            status=400,
        )

    def _failed(self, name: str, part: Json) -> ConnectorError:
        what = f"task {part['id']} of connector {name}" if "id" in part else f"connector {name}"
        return ConnectorError(
            f"{what} is {part['state']}: {root_cause(part.get('trace', ''))}",
            where=self.endpoint.where,
            todo="See the trace in the connector's status; fix what it names, then clear the failed task.",
        )

    def _object(self, method: str, path: tuple[str, ...]) -> Json:
        answer = self._http.call(method, path)
        if not isinstance(answer, dict):
            raise ConnectorError(
                f"expected a JSON object but got {type(answer).__name__}",
                where=f"{self.endpoint.where}, {method} /{'/'.join(path)}",
                todo="Something else answers there: check the URL.",
            )
        return answer

    def _shaped(self, answer: T, fits: bool) -> T:
        if not fits:
            raise ConnectorError(
                "the answer is not what Kafka Connect sends there",
                where=self.endpoint.where,
                todo="Something else answers there, or a newer Connect: check the URL.",
            )
        return answer


def _is_status(answer: Json) -> bool:
    parts = (answer.get("connector"), *(answer["tasks"] if isinstance(answer.get("tasks"), list) else [None]))
    return all(isinstance(part, dict) and isinstance(part.get("state"), str) for part in parts) and all(
        isinstance(part.get("id"), int) for part in parts[1:]
    )


def _is_offset(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("partition"), dict):
        return False
    return "offset" in entry and isinstance(entry["offset"], dict | None)


def entry_of(offsets: list[Json], server: str) -> Json | None:
    """The entry of this server; without a name, the only entry there is."""
    if not server:
        return offsets[0] if len(offsets) == 1 else None
    return next((entry for entry in offsets if entry["partition"].get("server") == server), None)
