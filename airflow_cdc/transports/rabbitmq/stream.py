"""Reading a stream queue: a range of offsets exactly, and where it begins and ends now.

AMQP tells no end: a reader at the last chunk is sent what is there and then nothing, so the end is where nothing came for
QUIET_S. An end that is too low costs nothing but time, as it does where a broker's replica lags behind: what is beyond it is
read by the next batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import TransportError
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.wire import Record, connected

if TYPE_CHECKING:
    from pika import BlockingConnection

QUIET_S: Final = 0.5
MOST_S: Final = 3.0  # a stream that is written to is never quiet
PREFETCH: Final = 200
MARK: Final = "x-cdc-mark"  # the header of records that only we read
_OFFSET: Final = "x-stream-offset"


def bounds(endpoint: RabbitMqEndpoint, queue: str, *, is_empty: Callable[[], bool]) -> tuple[int, int]:
    """First and next offset. `is_empty` is asked if nothing comes. Raises TransportError."""
    with connected(endpoint) as connection:
        first = _first(connection, queue, "first", QUIET_S)
        if first is None:
            if is_empty():
                return 0, 0
            first = _first(connection, queue, "first", endpoint.timeout)
        if first is None:
            raise TransportError(
                f"queue {queue} holds messages and sent none within {endpoint.timeout:g} s",
                where=endpoint.where,
                todo="Try again later; see the server's log.",
            )
        newest = _delivered(connection, queue, "last", QUIET_S, time.monotonic() + MOST_S)
        return first, max((record.offset for record in newest), default=first) + 1


def read(endpoint: RabbitMqEndpoint, queue: str, start: int, end: int) -> Iterator[Record]:
    """The messages from `start` to `end` (excluded), in order. Raises TransportError if one of them is not there any more.

    Offsets have holes, because the server's own records take some, and our marks: a hole is one only if what is before it is still there.
    """
    if end <= start:
        return
    next_offset, unsure = start, end
    with connected(endpoint) as connection:
        for record in _delivered(connection, queue, start, endpoint.timeout, None):
            if record.offset > next_offset:
                unsure = min(unsure, max(start, next_offset - 1))
            if record.offset < end and not record.is_mark:
                yield record
            next_offset = record.offset + 1
            if next_offset >= end:
                break
        else:
            raise _ended(endpoint, queue, next_offset, end)
        if unsure < end:
            _check_not_removed(connection, endpoint, queue, unsure)


def before(
    connection: BlockingConnection, endpoint: RabbitMqEndpoint, queue: str, mark: bytes, most: int
) -> list[Record]:
    """The last messages that stand before a mark, about `most` of them. Raises TransportError if the mark does not come."""
    first, end = bounds(endpoint, queue, is_empty=lambda: False)
    records: list[Record] = []
    for record in _delivered(connection, queue, max(first, end - most), endpoint.timeout, None):
        if record.is_mark and record.value == mark:
            return records
        if not record.is_mark:
            records.append(record)
    raise _ended(endpoint, queue, records[-1].offset + 1 if records else first, end)


def _check_not_removed(connection: BlockingConnection, endpoint: RabbitMqEndpoint, queue: str, offset: int) -> None:
    """The server removes from the beginning only: what is after a place that it still has was not removed."""
    first = _first(connection, queue, "first", endpoint.timeout)
    if first is None or first > offset:
        raise TransportError(
            f"queue {queue} begins at offset {first} now, and has no message from {offset} on any more",
            where=endpoint.where,
            todo="The server has removed it (max-age, max-length-bytes): read the tables again with cdc_recovery.",
        )


def _ended(endpoint: RabbitMqEndpoint, queue: str, at: int, end: int) -> TransportError:
    return TransportError(
        f"queue {queue} sent nothing from offset {at} on within {endpoint.timeout:g} s, and is to be read to {end}",
        where=endpoint.where,
        todo="Try again; if it stays so, the queue was recreated: recover the tables.",
    )


def first_since(endpoint: RabbitMqEndpoint, queue: str, at_ms: int) -> int | None:
    """The offset where messages of that time (epoch) begin, to the chunk that holds it; None: all are older."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None)
    with connected(endpoint) as connection:
        return _first(connection, queue, moment, QUIET_S)


def _first(connection: BlockingConnection, queue: str, at: object, quiet: float) -> int | None:
    record = next(_delivered(connection, queue, at, quiet, None, prefetch=1), None)
    return record.offset if record else None


def _delivered(
    connection: BlockingConnection,
    queue: str,
    at: object,
    quiet: float,
    deadline: float | None,
    *,
    prefetch: int = PREFETCH,
) -> Iterator[Record]:
    """The messages from a place on, until none comes for `quiet` seconds or it is `deadline`."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    messages = channel.consume(queue, inactivity_timeout=quiet, arguments={_OFFSET: at})
    for method, properties, body in messages:
        if method is None:
            break
        yield Record(int(properties.headers[_OFFSET]), body, is_mark=MARK in properties.headers)
        channel.basic_ack(method.delivery_tag)
        if deadline is not None and time.monotonic() > deadline:
            break
    channel.close()
