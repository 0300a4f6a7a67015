"""Circuits: how many wait for an endpoint that does not answer, and what the others are told."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.alerting.circuit import AT_ONCE, Circuits, SilentEndpointError, T, guard
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaTransport

OTHERS: dict[str, Any] = {"source": MySqlSource, "transport": KafkaTransport, "sink": Lake, "control": Control}
DEAD = "Kafka Connect http://dead:8083"


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuits(clock: Clock) -> Circuits:
    return Circuits(clock, queue_seconds=5.0)


def failing(clock: Clock, seconds: float) -> Callable[[], str]:
    """A call that fails after so long."""

    def read() -> str:
        clock.now += seconds
        raise ConnectorError("no answer within 5 s")

    return read


def waiting(count: list[int], let_go: threading.Event, clock: Clock) -> Callable[[], str]:
    """A call that waits in a thread until it is let go, and fails then."""

    def read() -> str:
        count.append(1)
        assert let_go.wait(30)
        clock.now += 5.0
        raise ConnectorError("no answer within 5 s")

    return read


def test_of_fifty_that_ask_a_dead_endpoint_few_wait_for_it_and_all_get_an_answer(
    circuits: Circuits, clock: Clock
) -> None:
    asked: list[int] = []
    let_go = threading.Event()
    read = waiting(asked, let_go, clock)
    with ThreadPoolExecutor(50) as pool:
        calls = [pool.submit(circuits.call, DEAD, read) for _ in range(50)]
        poll_until(lambda: len(asked) == AT_ONCE or None, timeout=10, interval=0.01, what="the calls wait")
        let_go.set()
        errors = [call.exception(30) for call in calls]
    assert len(asked) == AT_ONCE
    shared = [error for error in errors if isinstance(error, SilentEndpointError)]
    assert len(shared) == 50 - AT_ONCE
    assert "no answer within 5 s" in str(shared[0])
    assert DEAD in str(shared[0])


def test_an_endpoint_that_answers_again_is_asked_again_at_once(circuits: Circuits, clock: Clock) -> None:
    with pytest.raises(ConnectorError):
        circuits.call(DEAD, failing(clock, 5.0))
    assert circuits.call(DEAD, lambda: "there") == "there"
    assert circuits.call(DEAD, lambda: "there") == "there"


def test_while_it_is_silent_one_call_asks_and_the_others_share_what_it_finds(circuits: Circuits, clock: Clock) -> None:
    with pytest.raises(ConnectorError):
        circuits.call(DEAD, failing(clock, 5.0))
    asked: list[int] = []
    let_go = threading.Event()
    with ThreadPoolExecutor(10) as pool:
        calls = [pool.submit(circuits.call, DEAD, waiting(asked, let_go, clock)) for _ in range(10)]
        poll_until(lambda: len(circuits._changed._waiters) == 9 or None, timeout=10, what="nine wait for the one")  # type: ignore[attr-defined]
        let_go.set()
        errors = [call.exception(30) for call in calls]
    assert len(asked) == 1
    assert sum(isinstance(error, SilentEndpointError) for error in errors) == 9


def test_a_refusal_is_an_answer(circuits: Circuits, clock: Clock) -> None:
    """A wrong password fails within the second: whoever asks next asks for himself."""
    for _ in range(3):
        with pytest.raises(ConnectorError):
            circuits.call(DEAD, failing(clock, 0.2))
    assert circuits.call(DEAD, lambda: "there") == "there"


def test_one_slow_failure_beside_answers_opens_nothing(circuits: Circuits, clock: Clock) -> None:
    """One pipeline's broken table must not hide a catalog that answers all others."""

    def read() -> str:
        circuits.call(DEAD, lambda: "another pipeline is answered meanwhile")
        return failing(clock, 5.0)()

    with pytest.raises(ConnectorError, match="no answer"):
        circuits.call(DEAD, read)
    running = threading.Event()
    let_go = threading.Event()

    def slow() -> str:
        running.set()
        assert let_go.wait(30)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(circuits.call, DEAD, slow)
        assert running.wait(30)
        assert (
            circuits.call(DEAD, lambda: "not held up by the one that is busy") == "not held up by the one that is busy"
        )
        let_go.set()
        assert busy.result(30) == "slow"


def test_another_endpoint_is_not_concerned(circuits: Circuits, clock: Clock) -> None:
    let_go = threading.Event()
    asked: list[int] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        calls = [pool.submit(circuits.call, DEAD, waiting(asked, let_go, clock)) for _ in range(AT_ONCE)]
        poll_until(lambda: len(asked) == AT_ONCE or None, timeout=10, interval=0.01, what="all wait")
        assert circuits.call("Kafka Connect http://live:8083", lambda: "there") == "there"
        let_go.set()
        assert all(call.exception(30) for call in calls)


class Counting(Circuits):
    """Circuits that also say which endpoints were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def call(self, endpoint: str, read: Callable[[], T]) -> T:
        self.asked.append(endpoint)
        return super().call(endpoint, read)


def test_what_a_client_offers_beside_goes_through_the_same_circuit() -> None:
    """A replica is asked through a port of its client: a dead one must not hold a thread for every pipeline."""
    circuits, port = Counting(), SimpleNamespace(facts=lambda _conn_id: "facts")
    assert guard(SimpleNamespace(replication=port), DEAD, circuits).replication.facts("shop_replica") == "facts"
    assert guard(SimpleNamespace(replication=None), DEAD, circuits).replication is None
    assert circuits.asked == [DEAD]


@pytest.fixture(params=["refuses", "never answers"])
def dead_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A port that nobody listens on, or one that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        port = listener.getsockname()[1]
        if request.param == "refuses":
            listener.close()
        yield f"http://127.0.0.1:{port}"


def test_a_look_is_bounded_against_a_worker_that_is_gone(dead_url: str) -> None:
    """A step waits 60 s for a worker that may be restarting; a look that is soon repeated does not."""
    kinds = {name: create_autospec(kind, instance=True) for name, kind in OTHERS.items()}
    for client in kinds.values():
        client.where = "other"
    clients = Parts(connector=DebeziumConnector(ConnectEndpoint(dead_url), MySqlCodec()), **kinds)
    limits = CallLimits(answer=0.5, retry=0.3)
    began = time.monotonic()
    with pytest.raises(ConnectorError, match="Connect"):
        clients.limited(limits, Circuits()).connector.facts("shop")
    assert time.monotonic() - began < 5.0
