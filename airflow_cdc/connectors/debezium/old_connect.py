"""A Debezium connector on a Kafka Connect that changes no offsets by REST (before 3.6): its offsets topic is written.

Such a Connect has no STOPPED either (before 3.5). A connector is at rest here when it is PAUSED and its tasks were
restarted meanwhile: a task that starts while its connector is paused reads nothing and commits nothing until it is
resumed, and the old one has made its last commit of offsets before the new one starts (seen on 3.4.1). Paused alone is
not enough: the task that was paused commits once more when it ends, over whatever was written to the topic meanwhile.
Connect answers before it restarts, and on its REST interface the restart is over in some 50 ms; the topic of its
statuses keeps every one, so that is where the restart is looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Self

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.kafka_connect.client import Json
from airflow_cdc.connectors.kafka_connect.http import SERVES_ALL, ConnectEndpoint, release_of
from airflow_cdc.connectors.kafka_connect.offsets_topic import WritableTopics, read_raw_offsets, write_raw_offset
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import MALFORMED, ConfigError, OffsetRejectedError, TransportError
from airflow_cdc.core.observation import ConnectorState
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.text import read_json

_PAUSED: Final = "PAUSED"


def with_topic(client: DebeziumConnector, pipeline: Pipeline, transport: WritableTopics) -> DebeziumConnector:
    """The client as the pipeline's settings want it: one that keeps to the offsets topic if they name that."""
    settings = pipeline.connector
    if not isinstance(settings, DebeziumSettings) or not (settings.offsets_topic or settings.status_topic):
        return client
    if not (settings.offsets_topic and settings.status_topic):
        raise ConfigError(
            "connector.offsets_topic and connector.status_topic belong together",
            where=f"pipeline {pipeline.name}, key connector",
            todo="Name both: the worker's offset.storage.topic and its status.storage.topic.",
        )
    return OldConnectDebezium(client.endpoint, client.codec, transport, settings.offsets_topic, settings.status_topic)


class OldConnectDebezium(DebeziumConnector):
    """The Debezium connectors of a Connect before 3.6, whose offsets stand in `topic` and whose states in `statuses`."""

    def __init__(
        self, endpoint: ConnectEndpoint, codec: OffsetCodec, topics: WritableTopics, topic: str, statuses: str
    ) -> None:
        super().__init__(endpoint, codec)
        self._topics, self._topic, self._statuses, self._checked = topics, topic, statuses, False

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        topics = self._topics.limited(limits)
        return type(self)(self.endpoint.limited(limits), self._codec, topics, self._topic, self._statuses)

    def state(self, name: str) -> ConnectorState:
        """The current state. At rest is STOPPED, as newer ones call it; Connect's own page says PAUSED."""
        state = super().state(name)
        return replace(state, state="STOPPED") if _rests(state) else state

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Pause the connector, and restart its tasks while it is paused. Safe to run again. Raises DeadlineError."""
        self._check_release()
        self._http.call("PUT", ("connectors", name, "pause"))
        self._wait(name, timeout, _still, "to pause")
        since = self._ends()
        self.restart(name, only_failed=False)
        self._wait(name, timeout, lambda state: self._restarted(name, state, since), "to restart and pause")

    def _wait(self, name: str, timeout: float, wanted: Callable[[ConnectorState], bool], what: str) -> None:
        def reached() -> bool:
            state = DebeziumConnector.state(self, name)
            if not wanted(state):
                raise NotYet(", ".join((state.state, *(task.state for task in state.tasks))))
            return True

        poll_until(reached, timeout=timeout, interval=0.2, what=f"connector {name} {what}")

    def _ends(self) -> dict[int, int]:
        """The end of each partition of the topic of statuses. Raises TransportError if there is no such topic."""
        state = self._topics.topic_states([self._statuses]).get(self._statuses)
        if state is None:
            raise TransportError(
                f"there is no topic {self._statuses}",
                where=f"{self._topics.where}, key connector.status_topic",
                todo="Name the status.storage.topic of the Connect worker, in the broker of this transport.",
            )
        return {partition: end for partition, (_, end) in state.partitions.items()}

    def _restarted(self, name: str, state: ConnectorState, since: Mapping[int, int]) -> bool:
        """Whether it rests, each task under a status that it got after it had another one than PAUSED."""
        if not _rests(state):
            return False
        ranges = {partition: (since.get(partition, 0), end) for partition, end in self._ends().items()}
        ended = {
            record.key
            for record in self._topics.records(self._statuses, ranges)
            if record.value and _status(record.value) not in {_PAUSED, ""}
        }
        return all(f"status-task-{name}-{task.id}".encode() in ended for task in state.tasks)

    def offsets(self, name: str) -> list[Json]:
        """The stored offsets: [{"partition": {...}, "offset": {...}}], read from the topic. Raises TransportError."""
        self._check_release()
        self.raw_config(name)  # a connector that does not exist has no offsets, whatever the topic holds
        stored = read_raw_offsets(self._topics, self._topic, name).values()
        return [
            {"partition": dict(one.partition), "offset": dict(one.value)} for one in stored if one.value is not None
        ]

    def alter_offsets(self, name: str, partition: Mapping[str, object], value: Mapping[str, object] | None) -> str:
        """Write the offset of `partition` (None: a tombstone), of a connector at rest. Raises OffsetRejectedError."""
        self._at_rest(name)
        known = read_raw_offsets(self._topics, self._topic, name)
        at = write_raw_offset(self._topics, self._topic, name, partition, value, create=not known)
        return f"written to {self._topic}, partition {at.kafka_partition}, offset {at.kafka_offset}"

    def delete_offsets(self, name: str) -> str:
        """Remove all offsets of a connector at rest. Raises OffsetRejectedError."""
        done = [self.alter_offsets(name, entry["partition"], None) for entry in self.offsets(name)]
        return "; ".join(done)

    def _at_rest(self, name: str) -> None:
        """Somebody may have resumed and paused it since it was stopped: its tasks are restarted once more."""
        state = self.state(name).state
        if state != "STOPPED":
            raise OffsetRejectedError(
                f"the connector is {state}: its own commit would overwrite the offset",
                where=self.endpoint.where,
                todo="Stop it first.",
                reasons=(state,),
            )
        self.stop(name)

    def _check_release(self) -> None:
        """Raises ConfigError for a Connect that does all this by REST, where STOPPED is sure."""
        if self._checked:
            return
        root = self.root()
        if release_of(root) >= SERVES_ALL:
            raise ConfigError(
                f"Kafka Connect {root.get('version')} changes offsets by its REST interface",
                where=f"{self.endpoint.where}, key connector.offsets_topic",
                todo="Remove connector.offsets_topic and connector.status_topic from pipelines.yaml: they are for Kafka Connect before 3.6.",
            )
        self._checked = True


def _rests(state: ConnectorState) -> bool:
    return state.state == _PAUSED and all(task.state == _PAUSED for task in state.tasks)


def _status(value: bytes) -> str:
    """The state in a record of Connect's topic of statuses; "" for another record: somebody else writes there, too."""
    try:
        return str(read_json(value)["state"])
    except MALFORMED:
        return ""


def _still(state: ConnectorState) -> bool:
    return state.state in {_PAUSED, "FAILED"} and not any(task.state == "RUNNING" for task in state.tasks)
