"""Answers of HTTP services, as their clients read them. No server is asked: only what fetches the answer is replaced."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import httpx
from hypothesis import strategies as st

from airflow_cdc.answers import parsed
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.job import Checkpoints, Failures, Job, StoredStates, job_state
from airflow_cdc.connectors.flink.rest import FlinkRest
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.errors import MALFORMED, ConnectorError, TransportError
from airflow_cdc.decisions.oauth import issued
from airflow_cdc.events.record import SchemaId
from airflow_cdc.transports.kafka.registry import RegistryEndpoint, SchemaRegistry
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint
from airflow_cdc.transports.rabbitmq.management import Management
from tests.fuzz.mutate import damaged_value, json_bytes, mutated_text, objects
from tests.fuzz.parser import Parser
from tests.unit.connectors.kafka_connect.test_fuzz_http import GOOD, HTML, STATUSES
from tests.unit.fuzzing import made_by

JOB = {
    "jid": "j", "name": "n", "state": "RUNNING", "now": 9, "start-time": 1, "end-time": -1, "timestamps": {"RUNNING": 5},
    "vertices": [{"status": "RUNNING", "name": "v"}],
}  # fmt: skip
FLINK = (
    {"jobs": [JOB]}, JOB, {"exceptionHistory": {"entries": [{"timestamp": 5, "exceptionName": "x", "stacktrace": "java.lang.E\n\tat a"}]}},
    {"latest": {"completed": {"external_path": "file:/s/chk-3", "id": 3, "latest_ack_timestamp": 5}, "restored": {"external_path": "/s/chk-2"}}},
    {"request-id": "r"}, {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/s"}},
    {"errors": ["Caused by: org.apache.flink.E: x\\n\\tat a"]}, {"sessionHandle": "s", "operationHandle": "o", "status": "FINISHED"},
)  # fmt: skip
RABBIT = (
    {
        "name": "q", "type": "quorum", "arguments": {"x-max-age": "7D", "x-dead-letter-exchange": "dlx"}, "consumers": 2, "messages": 5,
        "effective_policy_definition": {"max-length-bytes": 5, "delivery-limit": 20}, "consumer_details": [{"consumer_tag": "t"}],
    },
    [{"source": "e", "routing_key": "k", "destination": "q", "destination_type": "queue"}], {"type": "direct"}, [{"name": "/"}], {"reason": "no"},
)  # fmt: skip
SCHEMAS = (
    {"schema": '{"type": "string"}'},
    {"type": "record", "name": "r", "fields": []},
    {"error_code": 40403, "message": "x"},
)
TOKENS = ({"access_token": "t", "expires_in": 3600, "token_type": "bearer"}, {"error": "invalid_client"})


@dataclass(frozen=True, slots=True)
class Said:
    """What a service answers, call by call; the last one again and again."""

    answers: tuple[tuple[int, str, bytes], ...]

    def asked(self) -> Callable[..., httpx.Response]:
        left = list(self.answers)

        def ask(_client: httpx.Client, method: str, path: str, **_: Any) -> httpx.Response:
            status, kind, content = left.pop(0) if len(left) > 1 else left[0]
            request = httpx.Request(method, httpx.URL("http://fuzz/").join(path))
            return httpx.Response(status, headers={"content-type": kind}, content=content, request=request)

        return ask


def said(*good: Any) -> st.SearchStrategy[Said]:
    """One to six answers: whole ones, damaged ones, pages of a proxy, half ones."""

    def answer(rng: random.Random) -> tuple[int, str, bytes]:
        value = rng.choice(good)
        body = rng.choice((
            HTML, b"", b"null", b"\xff\xfe", json.dumps(value).encode(), json.dumps(damaged_value(rng, value)).encode(),
            json.dumps(damaged_value(rng, value)).encode(), mutated_text(rng, [json.dumps(value)]).encode("utf-8", "surrogatepass"),
        ))  # fmt: skip
        return rng.choice(STATUSES), rng.choice(("application/json", "text/html; charset=latin-1", "")), body

    return made_by(lambda rng: Said(tuple(answer(rng) for _ in range(rng.randint(1, 6)))))


def _connect(one: Said) -> object:
    endpoint = ConnectEndpoint("http://fuzz:1", timeout=1, retry_for=0.0, verify=False)
    with (
        patch("airflow_cdc.connectors.kafka_connect.http.ask", one.asked()),
        closing(DebeziumConnector(endpoint, MySqlCodec())) as client,
    ):
        return _all(client.root, client.names, lambda: client.status("c"), lambda: client.raw_config("c"), lambda: client.offsets("c"),
                    lambda: client.facts("c"), lambda: client.committed_offset("c", "p"), client.plugins, lambda: client.validate({}))  # fmt: skip


def _flink(one: Said) -> object:
    client = FlinkRest(FlinkEndpoint("http://fuzz:1", timeout=1, verify=False))
    with patch("airflow_cdc.connectors.flink.rest.ask", one.asked()):
        return _all(
            client.overview,
            lambda: client.of_job("j"),
            lambda: client.checkpoint_settings("j"),
        )


def _rabbit(one: Said) -> object:
    client = Management(RabbitMqEndpoint(host="fuzz", timeout=1))

    def queue() -> object:
        found = client.queue("q")
        return found and (found.config, found.moved, found.moved_to(found).config)

    # a client of its own for each call would read the system's certificates each time
    with (
        patch("airflow_cdc.transports.rabbitmq.management.ask", one.asked()),
        patch("airflow_cdc.transports.rabbitmq.management.httpx.Client", lambda **_: nullcontext()),
    ):
        return _all(client.names, queue)


def _registry(one: Said) -> object:
    with patch("airflow_cdc.transports.kafka.registry.ask", one.asked()):
        registry = SchemaRegistry(RegistryEndpoint("http://fuzz:1", timeout=1, retry_for=0.0))
        return registry.texts([SchemaId("contentId", 7), SchemaId("contentId", 8)])


def _all(*calls: Callable[[], object]) -> object:
    """Every call, each of which may end in one of the errors of a client."""
    for call in calls:
        try:
            call()
        except (ConnectorError, TransportError):
            continue
    return None


def _job(value: Any) -> object:
    """The connector's methods make one error of theirs of these (`answers.explained`)."""
    job = Job(value, cast(Failures, FLINK[2]), Checkpoints(cast(StoredStates, FLINK[3])))
    return job_state(job, moved=lambda: False), job.checkpoints.newest


def _parsed(content: bytes) -> object:
    return parsed(httpx.Response(200, content=content))


PARSERS = (
    Parser("answer of a service", _parsed, json_bytes(*FLINK, *RABBIT), (ValueError,)),
    Parser("answers of Kafka Connect", _connect, said(*GOOD.values()), turn=60),
    Parser("answers of Flink", _flink, said(*FLINK), turn=60),
    Parser("answers of RabbitMQ", _rabbit, said(*RABBIT), turn=60),
    Parser("answers of a schema registry", _registry, said(*SCHEMAS), (TransportError,), turn=60),
    Parser("state of a Flink job", _job, objects(JOB), MALFORMED),
    Parser("answer of a token server", lambda text: issued(_json(text)), json_bytes(*TOKENS)),
)


def _json(content: bytes) -> Any:
    try:
        return _parsed(content)
    except ValueError:
        return None
