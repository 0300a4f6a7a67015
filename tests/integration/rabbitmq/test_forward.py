"""A queue's messages brought into a stream, on a real server: none lost and none twice, whoever is killed between."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

import stack
from airflow_cdc.core.errors import TransportError
from airflow_cdc.transports.rabbitmq import forward as module
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.forward import BATCH, forward
from airflow_cdc.transports.rabbitmq.wire import STARTING
from stack.process import end, wait_until
from stack.rabbitmq import RabbitServer, start_rabbitmq
from tests.integration.canal.over_rabbitmq import endpoint_of

WORKER = Path(__file__).parent / "forward_worker.py"
KINDS = pytest.mark.parametrize("kind", ["classic", pytest.param("quorum", marks=pytest.mark.slow)])


@dataclass
class Pair:
    """A queue and the name of its stream."""

    rabbit: RabbitServer
    queue: str

    @property
    def stream(self) -> str:
        return f"{self.queue}.cdc"

    @property
    def transport(self) -> RabbitMqTransport:
        return RabbitMqTransport(replace(endpoint_of(self.rabbit), queue=self.queue, stream=self.stream, timeout=10.0))

    def send(self, bodies: list[bytes]) -> None:
        with self.rabbit.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish("", self.queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)

    def forward(self) -> int:
        return forward(self.transport.endpoint, self.queue, self.stream)

    def bodies(self) -> list[bytes | None]:
        return [record.value for record in self.transport.records("shop")]

    def waiting(self) -> int:
        with self.rabbit.connect() as connection:
            return int(connection.channel().queue_declare(self.queue, passive=True).method.message_count)

    def killed(self, at: str, after: int = 1) -> None:
        """A process that forwards, killed where it says that it is."""
        with self.stopped(at, after):
            pass

    @contextmanager
    def stopped(self, at: str, after: int = 1) -> Iterator[None]:
        """A process that forwards and stands still at one place; it is killed at the end."""
        task = {"endpoint": asdict(self.transport.endpoint), "queue": self.queue, "stream": self.stream}
        argv = [sys.executable, str(WORKER), at, str(after)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(json.dumps(task) + "\n")
            worker.stdin.flush()
            said = worker.stdout.readline().strip()
            try:
                yield
            finally:
                worker.kill()
        assert said == at, said


@pytest.fixture
def pair(rabbit: RabbitServer, request: pytest.FixtureRequest) -> Iterator[Pair]:
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else "classic"
    one = Pair(rabbit, f"f-{uuid.uuid4().hex[:8]}")
    with rabbit.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(one.queue, durable=True, arguments={"x-queue-type": kind})
    yield one
    with rabbit.connect() as connection:
        for name in (one.queue, one.stream):
            connection.channel().queue_delete(name)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % n for n in range(start, start + count)]


@KINDS
def test_what_waits_is_moved_in_its_order_and_only_once(pair: Pair, kind: str) -> None:
    assert pair.forward() == 0
    pair.send(numbered(2 * BATCH + 7))
    states = pair.transport.gathered(["shop"])
    assert states["shop"].partitions == {0: (0, 2 * BATCH + 7)}
    assert pair.bodies() == numbered(2 * BATCH + 7)
    assert (pair.waiting(), pair.forward()) == (0, 0)
    pair.send([b"message 3", b"message 3"])
    assert pair.forward() == 2
    assert pair.bodies()[-2:] == [b"message 3", b"message 3"], "equal messages are two"
    assert pair.transport.topic_configs(["shop"])["shop"]["kind"] == "stream"


@KINDS
def test_the_privileges_that_the_docs_name_are_enough(pair: Pair, kind: str) -> None:
    pair.send(numbered(3))
    login = (pair.rabbit.user.user, pair.rabbit.user.password)
    may = {
        "configure": rf"^{pair.queue}\.cdc(\.forwarder)?$",
        "write": r"^amq\.default$",
        "read": rf"^{pair.queue}(\.cdc)?$",
    }
    with httpx.Client(base_url=f"http://{pair.rabbit.host}:{pair.rabbit.management}/api/", auth=login) as api:
        api.put("users/mover", json={"password": "p", "tags": "management"}).raise_for_status()
        api.put("permissions/%2F/mover", json=may).raise_for_status()
    mover = RabbitMqTransport(replace(pair.transport.endpoint, user="mover", password="p"))
    assert mover.gathered(["shop"])["shop"].partitions == {0: (0, 3)}
    assert [record.value for record in mover.records("shop")] == numbered(3)


@KINDS
@pytest.mark.parametrize("at", ["taken", "published", "confirmed", "cancelled", "acknowledged"])
def test_a_killed_process_leaves_nothing_lost_or_doubled(pair: Pair, kind: str, at: str) -> None:
    """Killed with a batch taken, in the middle of publishing it, with all of it confirmed, and after the acknowledgement."""
    pair.send(numbered(2 * BATCH + 20))
    pair.killed(at, after=2)
    left = BATCH + 20 if at != "acknowledged" else 20
    wait_until(lambda: pair.waiting() == left or None, timeout=30, what=f"{left} messages to be back")
    pair.send(numbered(5, start=2 * BATCH + 20))
    pair.forward()
    assert pair.bodies() == numbered(2 * BATCH + 25)
    assert pair.waiting() == 0


@pytest.mark.slow
@KINDS
def test_killed_again_and_again_it_still_ends(pair: Pair, kind: str) -> None:
    pair.send(numbered(BATCH + 50))
    for at in ("taken", "published", "taken", "confirmed", "cancelled", "taken"):
        pair.killed(at)
        wait_until(lambda: pair.waiting() == BATCH + 50 or None, timeout=30, what="the messages to be back")
    pair.forward()
    assert pair.bodies() == numbered(BATCH + 50)


@KINDS
def test_without_the_comparison_messages_are_doubled(pair: Pair, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of these tests: they see a message twice if the end of the stream is not looked at."""
    pair.send(numbered(10))
    pair.killed("confirmed")
    monkeypatch.setattr(module._Forwarder, "_overlap", lambda *_: ())
    pair.forward()
    assert pair.bodies() == [*numbered(10), *numbered(10)]


@KINDS
def test_another_consumer_takes_messages_away_and_is_refused(pair: Pair, kind: str) -> None:
    pair.send(numbered(3))
    with pair.rabbit.connect() as connection:
        channel = connection.channel()
        channel.basic_consume(pair.queue, lambda *_: None)
        connection.process_data_events(time_limit=0.2)
        with pytest.raises(TransportError, match="1 other consumers take messages out of queue"):
            pair.forward()
    assert pair.forward() == 3
    assert pair.bodies() == numbered(3)


@KINDS
def test_one_process_forwards_at_a_time(pair: Pair, kind: str) -> None:
    pair.send(numbered(3))
    with pair.rabbit.connect() as connection:
        connection.channel().queue_declare(f"{pair.stream}.forwarder", exclusive=True)
        endpoint = replace(pair.transport.endpoint, timeout=1.0)
        with pytest.raises(TransportError, match="another process still forwards"):
            forward(endpoint, pair.queue, pair.stream)
    assert pair.forward() == 3


@KINDS
def test_messages_that_come_again_out_of_their_order_are_refused(pair: Pair, kind: str) -> None:
    """Somebody took messages that were forwarded before, and gave them back: they are no end of the stream."""
    pair.send(numbered(6))
    pair.forward()
    pair.send(numbered(2))
    with pair.rabbit.connect() as connection:
        channel = connection.channel()
        for _ in range(2):
            channel.basic_get(pair.queue)
    wait_until(lambda: pair.waiting() == 2 or None, timeout=10, what="the messages to be back")
    with pytest.raises(TransportError, match=r"stand further back in it.*purge_queue"):
        pair.forward()
    assert pair.bodies() == numbered(6)


def test_a_stream_or_a_queue_in_the_wrong_place_is_refused(pair: Pair, rabbit: RabbitServer) -> None:
    pair.send(numbered(1))
    wrong = RabbitMqTransport(replace(pair.transport.endpoint, stream=pair.stream, queue=pair.queue))
    wrong.gathered(["shop"])
    turned: Any = RabbitMqTransport(replace(pair.transport.endpoint, queue=pair.stream, stream=pair.queue))
    with pytest.raises(TransportError, match="is a stream"):
        turned.gathered(["shop"])
    with rabbit.connect() as connection:
        connection.channel().queue_declare(f"{pair.queue}.other", durable=True, exclusive=False)
    other = RabbitMqTransport(replace(pair.transport.endpoint, stream=f"{pair.queue}.other"))
    with pytest.raises(TransportError, match="which is a classic queue"):
        other.gathered(["shop"])
    with rabbit.connect() as connection:
        connection.channel().queue_delete(f"{pair.queue}.other")


@pytest.fixture
def crashing(servers: stack.Stack, tmp_path: Path, kind: str) -> Iterator[list[RabbitServer]]:
    """A server of the test's own with a queue and its stream, which it may kill; the newest is the last.

    It has ended once in an orderly way since it has both: 4.3.6, killed within moments of a declaration, has lost a
    stream and answers `stream_not_found` for ever, and has a quorum queue without its messages, confirmed ones too.
    """
    first = start_rabbitmq(tmp_path, servers.logs)
    with first.connect() as connection:
        for name, its_kind in (("shop", kind), ("shop.cdc", "stream")):
            connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": its_kind})
    end(first.child)
    started = [start_rabbitmq(tmp_path, servers.logs, before=first)]
    yield started
    started[-1].stop()


def tried(pair: Pair) -> bool | None:
    """Whether all was moved; None while the server, which has just started, is not ready."""
    try:
        pair.forward()
    except TransportError as error:
        if not any(text in str(error) for text in STARTING):
            raise
        return None
    return True


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("at", ["published", "confirmed", "acknowledged"])
def test_the_broker_is_killed_in_a_batch(crashing: list[RabbitServer], kind: str, at: str) -> None:
    """The messages, what was delivered of them, and the stream are taken from the disk."""
    pair = Pair(crashing[-1], "shop")
    pair.send(numbered(2 * BATCH + 20))
    with pair.stopped(at, after=2):
        crashing.append(pair.rabbit.killed_and_started())
    pair = Pair(crashing[-1], "shop")
    pair.send(numbered(5, start=2 * BATCH + 20))
    wait_until(lambda: tried(pair), timeout=60, what="the server's queues to be ready")
    assert pair.bodies() == numbered(2 * BATCH + 25)
    assert pair.waiting() == 0
