"""The RabbitMQ transport on a real server: ends of stream queues, ranges, what was removed, queues of other kinds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_cdc.core.errors import TransportError, UsageError
from airflow_cdc.spark_apps.adapters import rabbitmq as adapter
from airflow_cdc.spark_apps.adapters.rabbitmq import StreamQueues
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.wire import Record
from stack.process import wait_until
from stack.rabbitmq import RabbitServer
from tests.integration.canal.over_rabbitmq import EXCHANGE, declare, endpoint_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Queues = Callable[..., str]
TINY = {"x-stream-max-segment-size-bytes": 2000, "x-max-length-bytes": 4000}


@pytest.fixture
def transport(rabbit: RabbitServer) -> RabbitMqTransport:
    return RabbitMqTransport(endpoint_of(rabbit))


@pytest.fixture
def queues(rabbit: RabbitServer) -> Iterator[Queues]:
    """`queues(kind, **arguments) -> name`: a new queue per call, bound by its name, deleted after the test."""
    made: list[str] = []

    def make(kind: str = "stream", **arguments: Any) -> str:
        made.append(name := f"q-{uuid.uuid4().hex[:8]}")
        declare(rabbit, name, name, {"x-queue-type": kind, **arguments})
        return name

    yield make
    with rabbit.connect() as connection:
        for name in made:
            connection.channel().queue_delete(name)


def send(rabbit: RabbitServer, queue: str, *bodies: bytes) -> None:
    """Messages, each confirmed by the server."""
    with rabbit.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish(EXCHANGE, queue, body)


def numbered(count: int, size: int = 1) -> list[bytes]:
    return [str(n).encode().rjust(size, b"0") for n in range(count)]


def test_it_is_reached_and_what_is_wrong_is_said_in_a_line(transport: RabbitMqTransport) -> None:
    transport.reach()
    for change, said in (
        ({"password": "x"}, "ACCESS_REFUSED.*Check login and password"),
        ({"vhost": "nope"}, "vhost nope not found.*Correct the virtual host"),
        ({"port": 1}, "refused.*Check host and port"),
        ({"management": "http://127.0.0.1:1"}, "the management interface does not answer.*rabbitmq_management"),
    ):
        with pytest.raises(TransportError, match=said):
            RabbitMqTransport(replace(transport.endpoint, **change)).reach()


def test_the_privileges_that_the_docs_name_are_enough(rabbit: RabbitServer, queues: Queues) -> None:
    queue, other = queues(), queues()
    send(rabbit, queue, b"a")
    login = (rabbit.user.user, rabbit.user.password)
    with httpx.Client(base_url=f"http://{rabbit.host}:{rabbit.management}/api/", auth=login) as api:
        api.put("users/reader", json={"password": "p", "tags": "management"}).raise_for_status()
        may = {"configure": "^$", "write": "^$", "read": f"^{queue}$"}
        api.put("permissions/%2F/reader", json=may).raise_for_status()
    reader = RabbitMqTransport(replace(endpoint_of(rabbit), user="reader", password="p"))
    reader.reach()
    assert reader.end_offsets([queue]) == {queue: {0: 1}}
    assert [one.value for one in reader.records(queue)] == [b"a"]
    assert "canal" in reader.topic_configs([queue])[queue]["bindings"]
    with pytest.raises(TransportError, match=r"ACCESS_REFUSED - read access to queue.*Give the user"):
        reader.records(other, {0: (0, 1)})


def test_the_ends_of_a_stream_and_what_has_none(
    rabbit: RabbitServer, transport: RabbitMqTransport, queues: Queues
) -> None:
    stream, others = queues(), {kind: queues(kind) for kind in ("classic", "quorum")}
    assert transport.end_offsets([stream]) == {stream: {0: 0}}
    send(rabbit, stream, *numbered(2500))
    states = transport.topic_states([stream, *others.values(), "nope", ""])
    assert states[stream].partitions == {0: (0, 2500)}
    assert {name: states[name].partitions for name in others.values()} == {name: {} for name in others.values()}
    assert set(states) == {stream, *others.values()}
    assert {stream, *others.values()} <= set(transport.topic_names())
    send(rabbit, stream, b"one more")
    assert transport.end_offsets([stream]) == {stream: {0: 2501}}
    configs = transport.topic_configs([stream, *others.values(), "nope"])
    assert {name: configs[name]["kind"] for name in configs} == {
        stream: "stream",
        **{name: kind for kind, name in others.items()},
    }


def test_a_stream_is_read_again_and_again_and_between_offsets(
    rabbit: RabbitServer, transport: RabbitMqTransport, queues: Queues
) -> None:
    queue = queues()
    send(rabbit, queue, *numbered(1500))
    for _ in range(2):
        records = transport.records(queue, {0: (1200, 1499)})
        assert [(one.offset, one.value) for one in records] == [(n, str(n).encode()) for n in range(1200, 1499)]
    assert len(transport.records(queue)) == 1500
    assert transport.records(queue, {0: (5, 5)}) == []
    with pytest.raises(TransportError, match="sent nothing from offset 1500 on"):
        RabbitMqTransport(replace(transport.endpoint, timeout=0.5)).records(queue, {0: (1498, 1502)})
    with pytest.raises(TransportError, match="no queue 'nope'"):
        transport.records("nope", {0: (0, 1)})
    with pytest.raises(TransportError, match="no such queue"):
        transport.records("nope")
    with pytest.raises(UsageError):
        transport.history_records(queue)


def test_what_the_server_removed_is_an_error_and_not_passed_over(
    rabbit: RabbitServer, transport: RabbitMqTransport, queues: Queues
) -> None:
    queue = queues(**TINY)
    send(rabbit, queue, *numbered(200, size=100))

    def remaining() -> list[Record] | None:
        first, end = transport.topic_states([queue])[queue].partitions[0]
        try:
            return list(transport.records(queue, {0: (first, end)})) if first > 0 else None
        except TransportError:
            return None  # it removed more meanwhile

    kept = wait_until(remaining, timeout=60, what="the server to have removed the oldest messages")
    end = kept[-1].offset + 1
    assert [one.value for one in kept] == numbered(200, size=100)[-len(kept) :]
    with pytest.raises(TransportError, match="and has no message from 0 on any more"):
        transport.records(queue, {0: (0, end)})


def test_offsets_have_holes_where_the_server_writes_records_of_its_own(
    rabbit: RabbitServer, transport: RabbitMqTransport, queues: Queues
) -> None:
    """It does at the begin of each segment, of 500 MB by default."""
    queue = queues(**{"x-stream-max-segment-size-bytes": 2000})
    send(rabbit, queue, *numbered(200, size=100))
    ((first, end),) = transport.topic_states([queue])[queue].partitions.values()
    records = transport.records(queue)
    assert first == 0
    assert end > 200
    assert [one.value for one in records] == numbered(200, size=100)
    offsets = [one.offset for one in records]
    holes = sorted(set(range(end)) - set(offsets))
    assert len(holes) == end - 200
    # from a hole, up to a hole, between two
    for start, stop in (
        (holes[3], end),
        (0, holes[3]),
        (0, holes[3] + 1),
        (holes[1], holes[4]),
        (holes[2], holes[2] + 1),
    ):
        told = [one.offset for one in transport.records(queue, {0: (start, stop)})]
        assert told == [offset for offset in offsets if start <= offset < stop], (start, stop)


def test_the_age_of_messages(rabbit: RabbitServer, transport: RabbitMqTransport, queues: Queues) -> None:
    queue = queues()
    send(rabbit, queue, b"old")
    now = int(time.time() * 1000)
    assert transport.offsets_since({queue: [0]}, now - 60_000) == {queue: {0: 0}}
    assert transport.offsets_since({queue: [0]}, now + 60_000) == {queue: {0: None}}


def test_another_queue_is_read_for_the_connector_s(rabbit: RabbitServer, queues: Queues) -> None:
    queue = queues()
    send(rabbit, queue, b"a")
    transport = RabbitMqTransport(replace(endpoint_of(rabbit), queue=queue))
    assert transport.end_offsets(["shop"]) == {"shop": {0: 1}}
    assert [one.value for one in transport.records("shop")] == [b"a"]


def test_spark_reads_ranges_of_any_length_and_fails_where_a_message_is_gone(
    rabbit: RabbitServer,
    transport: RabbitMqTransport,
    queues: Queues,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "SPLIT_AT", 700)
    queue, other = queues(), queues()
    send(rabbit, queue, *numbered(2100))
    send(rabbit, other, b"other")
    reader = StreamQueues(RabbitMqTransport(replace(transport.endpoint, timeout=3.0)))
    rows = reader.read(spark, {queue: {0: (10, 2095)}, other: {0: (0, 1)}}).collect()
    assert sorted((row.offset, bytes(row.value)) for row in rows if row.topic == queue) == [
        (n, str(n).encode()) for n in range(10, 2095)
    ]
    assert [(row.topic, row.partition, row.key, bytes(row.value)) for row in rows if row.topic == other] == [
        (other, 0, None, b"other")
    ]
    assert reader.read(spark, {queue: {0: (7, 7)}}).count() == 0
    with pytest.raises(Exception, match="sent nothing from offset 2100 on"):
        reader.read(spark, {queue: {0: (2000, 2200)}}).collect()
