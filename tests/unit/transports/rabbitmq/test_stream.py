"""What a range of a stream queue is made of: holes, removed messages, ends. The server is made up: it cannot be told when to remove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from airflow_cdc.core.errors import TransportError
from airflow_cdc.transports.rabbitmq import stream
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.wire import Record

ENDPOINT = RabbitMqEndpoint("rabbit")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()

    @contextmanager
    def connected(_: RabbitMqEndpoint) -> Iterator[None]:
        yield

    monkeypatch.setattr(stream, "connected", connected)
    monkeypatch.setattr(stream, "_delivered", made.delivered)
    return made


class Server:
    """Sends the messages at `offsets`; `begins`: where it begins once they were sent."""

    def __init__(self) -> None:
        self.offsets: Sequence[int] = ()
        self.begins: int | None = 0

    def delivered(self, _connection: Any, _queue: str, at: object, *_: object, **__: object) -> Iterator[Record]:
        if at == "first":
            offsets: tuple[int, ...] = () if self.begins is None else (self.begins,)
        elif at == "last":
            offsets = tuple(self.offsets[-1:])
        else:
            offsets = tuple(offset for offset in self.offsets if isinstance(at, int) and offset >= at)
        return (Record(offset, b"") for offset in offsets)


def read(start: int, end: int) -> list[int]:
    return [record.offset for record in stream.read(ENDPOINT, "q", start, end)]


@pytest.mark.parametrize(
    ("offsets", "begins", "start", "end"),
    [
        ((0, 1, 2, 3), 0, 0, 4),
        ((0, 1, 2, 3), 0, 1, 3),
        ((0, 1, 3, 4), 0, 0, 5),  # a hole
        ((0, 1, 3, 4), 1, 0, 5),  # what is before it was removed only after it was read
        ((0, 1, 3, 4), 0, 2, 5),  # from a hole
        ((0, 1, 3, 4), 0, 0, 3),  # up to one
        ((0, 1, 2, 3), 3, 0, 4),  # nothing is missing, whatever was removed since
        ((0, 1, 3, 4), 0, 2, 3),
    ],
)
def test_what_is_there_is_read(server: Server, offsets: Sequence[int], begins: int, start: int, end: int) -> None:
    server.offsets, server.begins = offsets, begins
    assert read(start, end) == [offset for offset in offsets if start <= offset < end]


@pytest.mark.parametrize(
    ("offsets", "begins", "start", "end"),
    [
        ((5, 6), 5, 3, 7),  # the beginning is gone
        ((0, 1, 5, 6), 5, 0, 7),  # removed while it was read
        ((0, 1, 3, 5, 6), 2, 0, 7),  # the first of two places in doubt counts
        ((5, 6), None, 3, 7),
    ],
)
def test_what_was_removed_is_an_error(
    server: Server, offsets: Sequence[int], begins: int | None, start: int, end: int
) -> None:
    server.offsets, server.begins = offsets, begins
    with pytest.raises(TransportError, match="has no message from"):
        read(start, end)


def test_an_end_that_is_not_there_is_an_error(server: Server) -> None:
    server.offsets = (0, 1)
    with pytest.raises(TransportError, match="sent nothing from offset 2 on"):
        read(0, 4)
    assert read(4, 4) == []


def test_where_it_begins_and_ends(server: Server) -> None:
    server.offsets, server.begins = (4, 5, 7), 4
    assert stream.bounds(ENDPOINT, "q", is_empty=lambda: False) == (4, 8)
    server.offsets, server.begins = (), None
    assert stream.bounds(ENDPOINT, "q", is_empty=lambda: True) == (0, 0)
    with pytest.raises(TransportError, match="holds messages and sent none"):
        stream.bounds(ENDPOINT, "q", is_empty=lambda: False)
