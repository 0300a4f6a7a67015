"""The RabbitMQ transport: a topic is a queue. Only a stream queue has offsets, in one partition.

Every method opens short-lived connections with bounded timeouts, so a RabbitMqTransport may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import TransportError, UsageError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.topics import NewestRecord, PartitionRanges, TopicState
from airflow_cdc.transports.rabbitmq import stream
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.forward import forward, waiting
from airflow_cdc.transports.rabbitmq.management import Management
from airflow_cdc.transports.rabbitmq.queue import STREAM, Queue
from airflow_cdc.transports.rabbitmq.wire import Record, connected

# messages at the end of a stream; some are no events but marks of ours
_LAST: Final = 4


class RabbitMqTransport:
    """The queues between connector and sink (core.ports.Transport)."""

    def __init__(self, endpoint: RabbitMqEndpoint) -> None:
        self.endpoint = endpoint
        self._management = Management(endpoint)

    @property
    def where(self) -> str:
        """How messages name this server."""
        return self.endpoint.where

    @property
    def groups(self) -> None:
        """None: the server keeps no group's place in a stream."""
        return

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    @property
    def producer(self) -> None:
        """None: a queue has no transactions, and no keys that hold back older records."""
        return None

    def reach(self) -> None:
        """Connect, and ask the management interface. Raises TransportError if one of them does not answer."""
        with connected(self.endpoint):
            self._management.names()

    def topic_states(self, names: Iterable[str]) -> dict[str, TopicState]:
        """First and next offset of each stream queue; a queue of another kind has no partition. Raises TransportError.

        A queue has no id: one that was made anew shows by its messages alone.
        """
        return {name: self._state(name, queue) for name, queue in self._queues(names).items()}

    def gathered(self, names: Iterable[str]) -> dict[str, TopicState]:
        """The states after the messages of queues that are no streams were moved to the stream. Raises TransportError."""
        names = list(names)
        if self.endpoint.stream:
            for name in sorted({self.endpoint.queue or name for name in names if name}):
                if self._can_be_moved(name):
                    forward(self.endpoint, name, self.endpoint.stream)
        return self.topic_states(names)

    def end_offsets(self, names: Iterable[str]) -> dict[str, dict[int, int]]:
        """Queue → partition → next offset. Raises TransportError."""
        states = self.topic_states(names)
        return {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in states.items()}

    def offsets_since(self, parts: Mapping[str, Iterable[int]], at_ms: int) -> dict[str, dict[int, int | None]]:
        """Queue → partition → offset of the first message not older than `at_ms`, to the server's chunk; None: all older."""
        return {
            name: dict.fromkeys(ps, stream.first_since(self.endpoint, self.queue_of(name), at_ms))
            for name, ps in parts.items()
        }

    def now_ms(self, names: Iterable[str]) -> int | None:  # noqa: ARG002
        """The server's clock (epoch ms), which gives the messages of a stream their times. Raises TransportError."""
        return self._management.now_ms()

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Queue → its kind, what leads to it, its readers, and how long messages stay. Raises TransportError."""
        return {name: queue.config for name, queue in self._queues(names).items()}

    def topic_names(self) -> list[str]:
        """All queues of the virtual host. Raises TransportError."""
        return self._management.names()

    def records(self, topic: str, ranges: PartitionRanges | None = None) -> Sequence[Record]:
        """The messages of a small stream queue: all, or those in `ranges`. Raises TransportError."""
        name = self.queue_of(topic)
        if ranges is None:
            queue = self._queue(topic)
            if queue is None:
                raise TransportError(
                    "there is no such queue",
                    where=f"{self.where}, queue {name}",
                    todo="Start the connector, which declares it, or correct the pipeline's transport.",
                )
            ranges = self._partitions(queue)
        return [one for start, end in ranges.values() for one in stream.read(self.endpoint, name, start, end)]

    def newest(self, names: Iterable[str]) -> dict[str, NewestRecord]:
        """The newest message of each stream queue; such a message has no key. Raises TransportError."""
        newest = {}
        for name, state in self.topic_states(names).items():
            last = {p: (max(begin, end - _LAST), end) for p, (begin, end) in state.partitions.items() if begin < end}
            if values := [one.value for one in self.records(name, last) if one.value is not None] if last else []:
                newest[name] = NewestRecord(None, values[-1])
        return newest

    def history_records(self, topic: str) -> NoReturn:
        """Raises UsageError: no connector keeps table definitions in a queue."""
        raise UsageError(
            "table definitions are not kept in queues",
            where=f"{self.where}, queue {topic}",
            todo="Keep the schema history in a file or a topic.",
        )

    def queue_of(self, topic: str) -> str:
        """The queue in which a topic's events are read."""
        return self.endpoint.stream or self.endpoint.queue or topic

    def _queues(self, names: Iterable[str]) -> dict[str, Queue]:
        queues = {name: self._queue(name) for name in sorted(set(names)) if name}
        return {name: queue for name, queue in queues.items() if queue is not None}

    def _queue(self, name: str) -> Queue | None:
        """What is read, with what leads to it: a queue, or the stream that its messages are moved to."""
        queue = self._management.queue(self.endpoint.queue or name)
        if queue is None or not self.endpoint.stream:
            return queue
        stream = self._management.queue(self.endpoint.stream)
        return queue.moved_to(stream or Queue(self.endpoint.stream, STREAM, {}, 0, 0, is_declared=False))

    def _can_be_moved(self, name: str) -> bool:
        """Whether there is such a queue. Raises TransportError unless its messages would be moved from a queue to a stream."""
        queue, stream = self._management.queue(name), self._management.queue(self.endpoint.stream)
        if queue is not None and queue.is_stream:
            raise TransportError(
                f"queue {name} is a stream", where=self.where, todo="Remove `stream` of this pipeline."
            )
        if stream is not None and not stream.is_stream:
            raise TransportError(
                f"`stream` names {stream.name}, which is a {stream.kind} queue",
                where=self.where,
                todo="Name a queue that does not exist yet, or a stream.",
            )
        return queue is not None

    def _state(self, name: str, queue: Queue) -> TopicState:
        """Counts what waits after it has read the stream's end: so a message that is moved meanwhile counts at most once."""
        partitions = self._partitions(queue)
        ahead = waiting(self.endpoint, queue.before.name) if queue.before else 0
        return TopicState(name, "", partitions, ahead=ahead)

    def _partitions(self, queue: Queue) -> dict[int, tuple[int, int]]:
        if not queue.is_stream:
            return {}
        if not queue.is_declared:
            return {0: (0, 0)}
        return {0: stream.bounds(self.endpoint, queue.name, is_empty=lambda: self._is_empty(queue.name))}

    def _is_empty(self, name: str) -> bool:
        """Whether the server counts no message; it has not counted yet when it has just started. Raises DeadlineError."""

        def counted() -> int | None:
            queue = self._management.queue(name)
            return 0 if queue is None else queue.messages

        count = poll_until(counted, timeout=self.endpoint.timeout, what=f"{self.where} to count {name}'s messages")
        return count == 0
