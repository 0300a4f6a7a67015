"""Answers of the wrong service, endless, huge and slow ones: one clear error of each client, in time. Real sockets serve them."""

from __future__ import annotations

import gzip
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from airflow_cdc.answers import DEEPEST, MOST_BYTES, TooMuchError, ask, parsed
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.errors import CdcError
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.management import Management
from tests.unit.fuzzing import some_json
from tests.unit.http_server import Answer, Scripted, serving

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def speaking(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that says whatever `speak` sends to each who asks; its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            with one:
                one.recv(65536)
                try:
                    speak(one)
                except OSError:  # the client has hung up
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.close()


def dribbled(text: bytes) -> Callable[[socket.socket], None]:
    """A byte each 50 ms: each of them is in time."""

    def speak(one: socket.socket) -> None:
        for byte in text:
            one.sendall(bytes([byte]))
            time.sleep(0.05)

    return speak


@pytest.mark.parametrize("text", [HEAD * 50, HEAD + b"content-length: 999\r\n\r\n" + b" " * 999], ids=["head", "body"])
def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline_for_all_of_it(text: bytes) -> None:
    def speak(one: socket.socket) -> None:
        if text.startswith(HEAD + b"content-length"):
            one.sendall(text[: len(HEAD) + 23])
        dribbled(text[len(HEAD) + 23 :])(one) if b"length" in text else dribbled(text)(one)

    with speaking(speak) as url, httpx.Client(timeout=1.0) as client:
        began = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            ask(client, "GET", url, within=1.0)
        assert time.monotonic() - began < 4.0


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_an_answer_larger_than_any_that_we_ask_for_is_refused_before_it_is_read(packed: bool) -> None:
    body = b" " * (MOST_BYTES + 1)
    body = gzip.compress(body) if packed else body
    head = HEAD + (b"content-encoding: gzip\r\n" if packed else b"") + f"content-length: {len(body)}\r\n\r\n".encode()
    with (
        speaking(lambda one: one.sendall(head + body)) as url,
        httpx.Client(timeout=5.0) as client,
        pytest.raises(TooMuchError, match="more than 10 MB"),
    ):
        ask(client, "GET", url, within=20.0)


def test_packed_answers_are_read_as_what_they_hold() -> None:
    body = gzip.compress(b'{"version": "4.3.1"}')
    head = HEAD + f"content-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with speaking(lambda one: one.sendall(head + body)) as url, httpx.Client(timeout=5.0) as client:
        assert parsed(ask(client, "GET", url, within=5.0)) == {"version": "4.3.1"}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), '{"a":' * 5_000 + "1" + "}" * 5_000]
)
def test_an_answer_nested_deeper_than_any_is_no_json_of_ours(text: str) -> None:
    with pytest.raises(ValueError, match=r"deeply|Expecting"):
        parsed(httpx.Response(200, text=text))
    assert parsed(httpx.Response(200, text="[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)))


# ---- the wrong service ----------------------------------------------------------------------------


Calls = Mapping[str, Callable[[], Any]]


def connect(url: str) -> Calls:
    client = DebeziumConnector(ConnectEndpoint(url, timeout=2.0, retry_for=0.0), MySqlCodec())
    named = {
        name: getattr(client, name) for name in ("status", "config", "raw_config", "offsets", "facts", "stop", "resume")
    }
    calls = {name: lambda call=call: call("c") for name, call in named.items()}
    return {
        **calls,
        "root": client.root,
        "names": client.names,
        "validate": lambda: client.validate({"connector.class": "x"}),
    }


def flink(url: str) -> Calls:
    client = FlinkConnector(FlinkEndpoint(url, timeout=2.0, verify=False), FlinkCodec())
    named = {name: getattr(client, name) for name in ("raw_config", "state", "facts", "entries")}
    calls = {name: lambda call=call: call("job") for name, call in named.items()}
    return {**calls, "reach": client.reach, "committed_offset": lambda: client.committed_offset("job", "s")}


def rabbitmq(url: str) -> Calls:
    management = Management(RabbitMqEndpoint("127.0.0.1", management=url, timeout=2.0))
    return {"queue": lambda: management.queue("q"), "names": management.names, "now": management.now_ms}


def opensearch(url: str) -> Calls:
    sink = SearchSink(OpenSearchEndpoint(url, timeout=2.0))
    named = {
        name: getattr(sink, name)
        for name in ("exists", "facts", "stamp", "definition_text", "stamped_summary", "target")
    }
    calls = {name: lambda call=call: call("ns", "t") for name, call in named.items()}
    letters = {"letters": lambda: sink.unresolved_letters("p"), "waiting": lambda: sink.waiting_letters("p")}
    return {
        **calls,
        **letters,
        "reach": sink.reach,
        "stages": lambda: sink.stages("ns"),
        "count": lambda: sink.count("i"),
    }


BODIES: tuple[Any, ...] = (
    {}, [], None, "x", 7, True, [[]], [{}], {"jobs": {}}, {"jobs": [{}]}, {"jobs": [{"jid": 7, "name": "job", "state": []}]},
    {"connector": [], "tasks": {}}, {"connector": {"state": 7}, "tasks": [7]}, {"offsets": 7}, {"offsets": [7]}, [{"name": 7}],
    {"_source": 7}, {"docs": [{"found": True}]}, {"hits": {}}, {"hits": {"hits": [7]}}, {"count": "x"}, {"config": [7]},
    b"<html>login</html>", b"", b"\xff\xfe", b"[" * 3_000, b"1e999", b"9" * 5_000, b'{"a": NaN}',
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with serving() as made:
        yield made


@pytest.mark.parametrize("system", [connect, flink, rabbitmq, opensearch], ids=lambda one: one.__name__)
def test_whatever_the_wrong_service_answers_is_one_clear_error(
    system: Callable[[str], Calls], server: Scripted
) -> None:
    """Or a value, where an answer happens to be one. What, where, and what to do next; nothing raw, nothing that takes long."""
    rng, calls, errors = random.Random(20261127), 0, list[tuple[str, CdcError]]()
    # each request gets one of two answers, so that clients get past the first one, too
    for body in (*BODIES, *(some_json(rng, 3) for _ in range(8))):
        answers = [body, rng.choice(BODIES)]
        server.respond = lambda *_, answers=answers: Answer(rng.choice([200, 200, 200, 404, 500]), rng.choice(answers))
        for name, call in system(server.url).items():
            calls += 1
            began = time.monotonic()
            try:
                call()
            except CdcError as error:
                errors.append((name, error))
            assert time.monotonic() - began < 10.0, name
    assert [(name, str(error)) for name, error in errors if not error.what or not error.where] == []
    assert len(errors) > calls // 3
