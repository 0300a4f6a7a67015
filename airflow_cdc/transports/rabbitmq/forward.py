"""Bringing a classic or quorum queue's messages into a stream queue, where they have offsets: none lost, none twice.

A batch is taken, published with confirms, and acknowledged only after them. A process that dies between leaves messages that
are in the stream and in the queue. The server delivers them again, in their order and marked as such: if they are the end of the
stream, they are acknowledged and not published again.

One process at a time forwards: it holds a queue of its own that no other connection can declare, and that ends with its connection.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import pika
from pika.exceptions import ChannelClosedByBroker

from airflow_cdc.core.errors import DeadlineError, TransportError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.transports.rabbitmq import stream as streams
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.queue import OWN
from airflow_cdc.transports.rabbitmq.wire import Record, connected

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel
    from pika.spec import Basic, Queue

# A quorum queue puts returned messages in a lane of their own, in the order of their return. A batch is never smaller than
# what an earlier one has left there, so that the lane is emptied at once and its order is the queue's.
BATCH: Final = 500
# how many messages at the end of the stream are compared with what is delivered again
REACH: Final = 10 * BATCH
MAX_AGE: Final = "7D"
_QUIET_S: Final = 0.2
_GONE_S: Final = 5.0  # until the server has removed the consumer of a process that died
_LOCKED, _NOT_FOUND = 405, 404
_AGAIN: Final = (
    "Purge the queue (rabbitmqctl purge_queue), and read the tables again with cdc_recovery: it takes from the source what"
    " the purge removes."
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was taken and not acknowledged yet."""

    tag: int
    body: bytes
    again: bool

    @property
    def digest(self) -> bytes:
        """What it is compared by."""
        return hashlib.sha256(self.body).digest()


def forward(endpoint: RabbitMqEndpoint, queue: str, stream: str) -> int:
    """Bring what the queue holds now into the stream, and return how many messages that were. Raises TransportError.

    Messages that arrive meanwhile are left for the next call.
    """
    with connected(endpoint) as connection:
        if _look(connection, queue) == (0, 0):
            return 0
        _lock(connection, endpoint, queue, stream)
        _declare(connection, stream)
        count = _waiting(connection, endpoint, queue)
        return _Forwarder(connection, endpoint, queue, stream).run(count)


def waiting(endpoint: RabbitMqEndpoint, queue: str) -> int:
    """How many messages a queue holds that nobody has taken; the management interface knows it seconds later. Raises TransportError."""
    with connected(endpoint) as connection:
        return _look(connection, queue)[0]


@dataclass(slots=True)
class _Forwarder:
    """One connection's work. `expected`: digests of messages that are in the stream already and must be delivered next."""

    connection: pika.BlockingConnection
    endpoint: RabbitMqEndpoint
    queue: str
    stream: str
    expected: Sequence[bytes] | None = None
    channel: BlockingChannel = field(init=False)

    def __post_init__(self) -> None:
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def run(self, count: int) -> int:
        """Forward `count` messages, or fewer if the server has removed some; returns how many."""
        total = 0
        while total < count:
            size = self._move(min(BATCH, count - total), is_last=count - total <= BATCH)
            if not size:
                break
            total += size
        return total

    def _move(self, most: int, *, is_last: bool) -> int:
        """Move one batch, and no message more: one that is taken for nothing counts against a quorum queue's delivery-limit.

        The consumer stays until all is confirmed. If this process dies, the server removes it as it puts the messages back;
        so a queue without a consumer has no message that is neither waiting nor in the stream.
        """
        consumer, batch = self._taken(most)
        self._check_alone()
        for message in batch[self._known(batch, is_last=is_last or len(batch) < most) :]:
            self._publish(message.body)
        self.channel.basic_cancel(consumer)
        if batch:
            self.channel.basic_ack(batch[-1].tag, multiple=True)
        return len(batch)

    def _taken(self, most: int) -> tuple[str, list[Message]]:
        """A consumer's tag, and so many messages; fewer if the server has removed some."""
        messages: list[Message] = []

        def keep(_channel: object, method: Basic.Deliver, _properties: object, body: bytes) -> None:
            messages.append(Message(method.delivery_tag, body, method.redelivered))

        self.channel.basic_qos(prefetch_count=most)
        consumer = self.channel.basic_consume(
            self.queue, keep, exclusive=True, consumer_tag=f"{OWN}.{uuid.uuid4().hex}"
        )
        last, count = time.monotonic(), 0
        while len(messages) < most:
            self.connection.process_data_events(time_limit=_QUIET_S)
            if len(messages) > count:
                last, count = time.monotonic(), len(messages)
            elif self._drained() and len(messages) == count:
                break
            elif time.monotonic() - last > self.endpoint.timeout:
                raise self._stalled()
        return str(consumer), messages

    def _drained(self) -> bool:
        """Whether the queue is empty and all that it sent has arrived: the second answer comes after what it sent before."""
        is_empty = bool(self._counted().message_count == 0)
        self._counted()
        self.connection.process_data_events(time_limit=0)
        return is_empty

    def _check_alone(self) -> None:
        """Only a classic queue refuses a second consumer by itself."""
        others = self._counted().consumer_count - 1
        if others > 0:
            raise _others(self.endpoint, self.queue, others)

    def _counted(self) -> Queue.DeclareOk:
        return self.channel.queue_declare(self.queue, passive=True).method

    def _known(self, batch: Sequence[Message], *, is_last: bool) -> int:
        """How many messages at the begin of the batch are in the stream already."""
        digests = [message.digest for message in batch]
        if self.expected is None:
            again = list(takewhile(lambda message: message.again, batch))
            self.expected = self._overlap(digests, len(again)) if again else ()
        next_digests = self.expected[: len(batch)]
        if digests[: len(next_digests)] != list(next_digests) or (is_last and len(self.expected) > len(batch)):
            raise self._out_of_order()
        self.expected = self.expected[len(batch) :]
        return len(next_digests)

    def _overlap(self, digests: Sequence[bytes], again: int) -> Sequence[bytes]:
        """The end of the stream that begins as the redelivered messages do; () if none of them is there."""
        mark = uuid.uuid4().bytes
        self._publish(mark, {streams.MARK: "end"})
        tail = [hashlib.sha256(record.value or b"").digest() for record in self._before(mark)]
        overlap = overlap_of(tail, digests[:again], whole=again == len(digests))
        if overlap is None:
            raise self._out_of_order()
        return overlap

    def _before(self, mark: bytes) -> Sequence[Record]:
        """The last records of the stream. Its end is where the mark is: what was sent before the mark stands before it."""
        with connected(self.endpoint) as other:
            return streams.before(other, self.endpoint, self.stream, mark, REACH)

    def _publish(self, body: bytes, headers: dict[str, str] | None = None) -> None:
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)
        self.channel.basic_publish("", self.stream, body, properties, mandatory=True)

    def _stalled(self) -> TransportError:
        return TransportError(
            f"queue {self.queue} holds messages and sent none within {self.endpoint.timeout:g} s",
            where=self.endpoint.where,
            todo="Look for another reader of the queue, and in the server's log; then try again.",
        )

    def _out_of_order(self) -> TransportError:
        return TransportError(
            f"queue {self.queue} sends messages again that are not the end of {self.stream} but stand further back in it",
            where=self.endpoint.where,
            todo=_AGAIN,
        )


def overlap_of(tail: Sequence[bytes], again: Sequence[bytes], *, whole: bool) -> Sequence[bytes] | None:
    """The end of `tail` that begins as `again` does, the longest one; () if no message of `again` is in `tail`.

    `whole`: more may follow `again`, so the end of `tail` may be longer. None: some are in `tail`, but not as its end; they
    were out of their order then.
    """
    for start in range(len(tail)):
        end = tail[start:]
        common = min(len(end), len(again))
        if list(end[:common]) == list(again[:common]) and (common == len(end) or whole):
            return end
    return None if set(again) & set(tail) else ()


# ---- the queue -----------------------------------------------------------------------------------


def _look(connection: pika.BlockingConnection, queue: str) -> tuple[int, int]:
    """How many messages wait in a queue, and how many consumers it has."""
    channel = connection.channel()
    method = channel.queue_declare(queue, passive=True).method
    channel.close()
    return method.message_count, method.consumer_count


def _waiting(connection: pika.BlockingConnection, endpoint: RabbitMqEndpoint, queue: str) -> int:
    """How many messages wait, seen without a consumer: then none is taken and not acknowledged."""
    others = 0

    def alone() -> int | None:
        nonlocal others
        count, others = _look(connection, queue)
        return None if others else count

    try:
        return poll_until(alone, timeout=_GONE_S, interval=_QUIET_S, what="the queue has no other consumer")
    except DeadlineError:
        raise _others(endpoint, queue, others) from None


def _others(endpoint: RabbitMqEndpoint, queue: str, count: int) -> TransportError:
    return TransportError(
        f"{count} other consumers take messages out of queue {queue}: what they take never reaches the sink",
        where=endpoint.where,
        todo="Give them a queue of their own, bound to the same exchange by the same key, then recover the tables.",
    )


def _lock(connection: pika.BlockingConnection, endpoint: RabbitMqEndpoint, queue: str, stream: str) -> None:
    """Keep other processes from forwarding until this connection ends; waits for one that does."""

    def locked() -> bool | None:
        try:
            connection.channel().queue_declare(f"{stream}.forwarder", exclusive=True)
        except ChannelClosedByBroker as error:
            if error.reply_code != _LOCKED:
                raise
            raise NotYet(str(error.reply_text)) from None
        return True

    try:
        poll_until(locked, timeout=endpoint.timeout, interval=_QUIET_S, what="the other process to end")
    except DeadlineError:
        raise TransportError(
            f"another process still forwards from queue {queue} to {stream}",
            where=endpoint.where,
            todo="Try again. If it stays so, close the connection that holds the queue "
            f"{stream}.forwarder: a machine that is gone keeps it until its heartbeat is missed.",
        ) from None


def _declare(connection: pika.BlockingConnection, stream: str) -> None:
    """Make the stream if there is none. One that is there keeps its own arguments."""
    try:
        channel = connection.channel()
        channel.queue_declare(stream, passive=True)
    except ChannelClosedByBroker as error:
        if error.reply_code != _NOT_FOUND:
            raise
        channel = connection.channel()
        channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream", "x-max-age": MAX_AGE})
    channel.close()
