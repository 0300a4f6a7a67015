"""A network cut in the middle of any read of a diagnosis: it is UNKNOWN, and nothing is touched."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.flows.move_offset import stored
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.diagnosing import diagnose, make_plan
from tests.faults.proxy import CHUNK, HOST, Proxy
from tests.integration.test_offset_move import run

__all__ = ["run"]  # a fixture

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# how many places in the answers of each system; those that take a client's whole patience are fewer
CUTS = {"mysql": 30, "connect": 10, "kafka": 8}
WHOLE = 1 << 40


@dataclass
class Leash(Proxy):
    """A path to a server that is cut for good after so many bytes of its answers, in the middle of one if need be."""

    left: int = WHOLE
    passed: int = 0
    cut_off: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def allow(self, count: int) -> None:
        """Whole again, until so many bytes have passed."""
        with self._lock:
            self.left, self.passed, self.cut_off = count, 0, False

    def _allowed(self, data: bytes, inward: bool) -> bytes:
        if inward:
            return data
        with self._lock:
            given = data[: self.left]
            self.left -= len(given)
            self.passed += len(given)
            self.cut_off = self.cut_off or len(given) < len(data)
        return given

    def _pump(self, source: socket.socket, sink: socket.socket, inward: bool) -> None:
        with suppress(OSError):
            while not self.cut_off and (data := source.recv(CHUNK)):
                sink.sendall(self._allowed(data, inward))
        self._shut(source, sink)


def through_mysql(clients: Parts, leash: Leash) -> Parts:
    endpoint: Any = clients.source.endpoint
    return replace(clients, source=MySqlSource(replace(endpoint, host=HOST, port=leash.port)))


def through_connect(clients: Parts, leash: Leash) -> Parts:
    endpoint: Any = clients.connector.endpoint
    url = f"http://{HOST}:{leash.port}"
    return replace(clients, connector=DebeziumConnector(replace(endpoint, url=url, retry_for=1), MySqlCodec()))


def through_kafka(clients: Parts, leash: Leash) -> Parts:
    """The first connection only: the broker then names its own address."""
    endpoint: Any = clients.transport.endpoint
    bootstrap = f"{HOST}:{leash.port}"
    return replace(clients, transport=KafkaTransport(replace(endpoint, bootstrap=bootstrap, timeout=3)))


def server_of(clients: Parts) -> dict[str, tuple[str, int]]:
    source: Any = clients.source.endpoint
    worker: Any = clients.connector.endpoint
    kafka: Any = clients.transport.endpoint
    connect = urlsplit(worker.url)
    broker, _, port = kafka.bootstrap.rpartition(":")
    return {
        "mysql": (source.host, source.port),
        "connect": (str(connect.hostname), int(connect.port or 0)),
        "kafka": (broker, int(port)),
    }


WAYS: dict[str, Callable[[Parts, Leash], Parts]] = {
    "mysql": through_mysql,
    "connect": through_connect,
    "kafka": through_kafka,
}


@pytest.fixture
def healthy(run: Run) -> Run:
    """The pipeline with its one table copied, as after a first recovery."""
    clients, name = run.clients, run.pipeline.name
    clients.control.open_recovery("first")
    clients.control.close_recovery("first")
    topic = f"{name}.{name}.t"
    state = clients.transport.topic_states([topic])[topic]
    ends = {topic: TopicOffsets(state.id, {p: end for p, (_, end) in state.partitions.items()})}
    stamp = Stamp(1, clients.source.position().to_json(), ends)
    lake = clients.sink
    assert isinstance(lake, Lake)
    lake.ensure_table(name, "t", [("id", "int")])
    table = lake.table(name, "t")
    rows = pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow())
    table.append(rows, snapshot_properties=stamp.to_summary())
    return run


@pytest.fixture
def leash(healthy: Run, system: str) -> Iterator[Leash]:
    with Leash(server_of(healthy.clients)[system]) as made:
        yield made


@pytest.mark.parametrize("system", sorted(WAYS))
def test_a_read_that_is_cut_off_is_unknown_and_nothing_is_touched(healthy: Run, leash: Leash, system: str) -> None:
    run = replace(healthy, clients=WAYS[system](healthy.clients, leash))

    def code() -> str:
        obs = observe(run)
        found = diagnose(obs)
        assert make_plan(found, run.pipeline.policy, obs).refused is (found.code == "UNKNOWN")
        return str(found.code)

    assert code() == "HEALTHY"
    total = leash.passed
    before = stored(healthy)["offset"]["file"], healthy.clients.sink.facts(healthy.pipeline.name, "t").head
    seen: dict[int, tuple[bool, str]] = {}
    for place in range(0, total, -(-total // CUTS[system])):
        leash.allow(place)
        given = code()
        seen[place] = (leash.cut_off, given)
    assert {given for cut, given in seen.values() if cut} == {"UNKNOWN"}, seen
    assert {given for cut, given in seen.values() if not cut} <= {"HEALTHY"}, seen
    assert sum(cut for cut, _ in seen.values()) > len(seen) // 2, seen
    leash.allow(WHOLE)
    assert code() == "HEALTHY"
    assert (stored(healthy)["offset"]["file"], healthy.clients.sink.facts(healthy.pipeline.name, "t").head) == before
