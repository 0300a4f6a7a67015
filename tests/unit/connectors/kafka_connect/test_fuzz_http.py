"""Answers of Kafka Connect, generated: pages of a proxy, half bodies, wrong JSON, rebalances. A value or one ConnectorError.

A real HTTP server gives them; nothing of the client is replaced.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint, KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import RebalancingError
from airflow_cdc.core.errors import ConnectorError
from tests.unit.fuzzing import made_by, many, some_json, value_or_typed_error
from tests.unit.http_server import Answer, Scripted, serving

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
GOOD: dict[str, Any] = {
    "/": {"version": "4.3.1", "commit": "c", "kafka_cluster_id": "k"},
    "/connectors/c/status": {
        "name": "c",
        "connector": {"state": "RUNNING", "worker_id": "w"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w"}],
        "type": "source",
    },
    "/connectors/c/config": {"connector.class": "x", "topic.prefix": "p", "database.password": "s3cret"},
    "/connectors/c/offsets": {"offsets": [{"partition": {"server": "p"}, "offset": {"file": "b.000001", "pos": 4}}]},
}
STATUSES = (200, 200, 200, 201, 202, 204, 301, 400, 401, 403, 404, 405, 500, 502, 503)
KINDS = ("application/json", "text/html", "", "application/json; charset=latin-1")


def body(rng: random.Random) -> bytes:
    """A page, a good answer (whole, cut or of another path), Connect's own error, or any JSON."""
    good = json.dumps(rng.choice(list(GOOD.values()))).encode()
    error = json.dumps({"error_code": rng.choice([400, 404, 500]), "message": some_json(rng)}).encode()
    odd = json.dumps(some_json(rng)).encode()
    return rng.choice([HTML, b"", b"null", b"\xff\xfe", good, good[: rng.randrange(60)], error, odd, odd])


def answer(rng: random.Random) -> Answer:
    status = rng.choice(STATUSES)
    content = None if status in (204, 301) else body(rng)
    return Answer(status, content, rng.choice(KINDS), cut=content is not None and rng.random() < 0.2)


CALLS = ("root", "status", "raw_config", "offsets", "facts", "committed_offset", "resume", "stop", "alter_offsets")


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Scripted) -> Iterator[DebeziumConnector]:
    with closing(DebeziumConnector(ConnectEndpoint(server.url, timeout=2, retry_for=0.0), MySqlCodec())) as made:
        yield made


def call(client: KafkaConnect, name: str) -> Any:
    arguments: dict[str, tuple[Any, ...]] = {
        "root": (),
        "committed_offset": ("c", "p"),
        "alter_offsets": ("c", {"server": "p"}, {"file": "b.000001", "pos": 4}),
    }
    more = {"timeout": 0.05} if name == "stop" else {}
    return getattr(client, name)(*arguments.get(name, ("c",)), **more)


@many(500)
@given(st.sampled_from(CALLS), made_by(answer))
def test_answers(server: Scripted, client: KafkaConnect, name: str, given_answer: Answer) -> None:
    server.answers = [given_answer]
    value_or_typed_error(lambda: call(client, name))


def test_a_rebalance_of_a_minute_is_waited_for_and_its_end_is_an_answer(server: Scripted) -> None:
    """The same 409 for as long as the client's patience, and past it."""
    busy = Answer(409, {"error_code": 409, "message": "Cannot complete request because of a conflicting operation"})
    server.answers = [busy] * 3 + [Answer(200, GOOD["/connectors/c/status"])]
    with closing(KafkaConnect(ConnectEndpoint(server.url, retry_for=60))) as client:
        assert client.status("c")["connector"]["state"] == "RUNNING"
    server.answers = [busy]
    with closing(KafkaConnect(ConnectEndpoint(server.url, retry_for=0.5))) as client, pytest.raises(RebalancingError):
        client.status("c")


@pytest.mark.parametrize("name", ["status", "raw_config", "offsets"])
@pytest.mark.parametrize(
    "body", [HTML, b'{"name": "c", "connector": {"sta', b"[1, 2]", b"7", b'{"offsets": 7, "connector": []}']
)
def test_what_is_no_answer_is_named(server: Scripted, name: str, body: bytes) -> None:
    server.answers = [Answer(200, body)]
    client = KafkaConnect(ConnectEndpoint(server.url, retry_for=0.0))
    with closing(client), pytest.raises(ConnectorError) as caught:
        call(client, name)
    assert caught.value.where
    assert caught.value.todo
