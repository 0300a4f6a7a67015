"""Kafka by OAUTHBEARER: a real broker that checks signed tokens, a token server of our own, both clients."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from airflow_cdc.core.errors import TransportError
from airflow_cdc.spark_apps.adapters.kafka import read_topics
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.wire import admin, producer
from stack import fetch, kafka
from stack.process import end
from tests.unit.http_server import Answer, Scripted, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT, SECRET, SCOPE, AUDIENCE = "cdc-client", "Se'cret-of\\ \"oauth", "cdc.read", "our-kafka"
SECONDS = 300
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SASL = "org.apache.kafka.common.security"


@dataclass
class TokenServer:
    """It issues tokens that are good for five minutes, signed by `key`; `forms` is what it was asked for."""

    http: Scripted
    key: rsa.RSAPrivateKey = KEY

    @property
    def url(self) -> str:
        return f"{self.http.url}/token"

    @property
    def forms(self) -> list[dict[str, list[str]]]:
        return [parse_qs(body) for _, _, body, _ in self.http.requests]

    def answer(self, _method: str, _path: str, body: str) -> Answer:
        *_, headers = self.http.requests[-1]
        if headers["Authorization"] != "Basic " + b64encode(f"{CLIENT}:{SECRET}".encode()).decode():
            return Answer(401, {"error": "invalid_client", "error_description": headers["Authorization"]})
        now, scope = int(time.time()), parse_qs(body).get("scope", [""])[0]
        claims = {"sub": CLIENT, "iat": now, "exp": now + SECONDS, "aud": AUDIENCE, "scope": scope}
        token = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "one"})
        return Answer(200, {"access_token": token, "expires_in": SECONDS, "token_type": "Bearer"})


@contextmanager
def issuing() -> Iterator[TokenServer]:
    with serving() as http:
        server = TokenServer(http)
        http.respond = server.answer
        yield server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that takes tokens signed by KEY; by itself it logs in with PLAIN."""
    folder = tmp_path_factory.mktemp("oauth")
    keys = folder / "jwks.json"
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    keys.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}))
    listener = "listener.name.sasl_plaintext"
    more = {
        "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f'{SASL}.plain.PlainLoginModule required username="b" password="b" user_b="b";',
        f"{listener}.oauthbearer.sasl.jaas.config": f"{SASL}.oauthbearer.OAuthBearerLoginModule required;",
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": f"{SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{listener}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    fetch.fetch_all(["kafka"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}")
        started = kafka.start_kafka(folder, folder, protocol="SASL_PLAINTEXT", more=more)
    try:
        yield kafka.wait_ready(started).bootstrap
    finally:
        end(started.child)


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with issuing() as server:
        yield server


def endpoint(broker: str, tokens: TokenServer, **changes: str) -> KafkaEndpoint:
    security = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": CLIENT,
        "sasl.password": SECRET,
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
        "sasl.oauthbearer.scope": SCOPE,
    }
    return KafkaEndpoint(broker, {**security, **{k.replace("__", "."): v for k, v in changes.items()}}, timeout=20)


def test_a_topic_is_read_by_both_clients(broker: str, tokens: TokenServer, spark: SparkSession) -> None:
    given = endpoint(broker, tokens)
    with admin(given) as client:
        client.create_topics({"t": {"num_partitions": 1, "replication_factor": 1, "configs": {}}})
    with producer(given) as client:
        client.send("t", key=b"k", value=b"v")
        client.flush(20)
    state = KafkaTransport(given).topic_states(["t"])["t"]
    assert state.partitions == {0: (0, 1)}
    by_python = len(tokens.forms)
    assert bytes(read_topics(spark, given, {"t": {0: (0, 1)}}).collect()[0]["value"]) == b"v"
    assert len(tokens.forms) > by_python, "the JVM asks for tokens of its own"
    assert {tuple(form["scope"]) for form in tokens.forms} == {(SCOPE,)}
    assert SECRET not in repr(given)


def test_a_wrong_secret_is_one_clear_error_without_it(broker: str, tokens: TokenServer) -> None:
    with pytest.raises(TransportError) as caught:
        KafkaTransport(endpoint(broker, tokens, sasl__password="wrong-secret")).topic_states(["t"])
    assert caught.value.what == "no token was issued: HTTP 401"
    assert "token.endpoint.url" in caught.value.todo
    assert "wrong-secret" not in json.dumps(caught.value.to_json())


def test_a_token_that_the_broker_does_not_believe_is_one_clear_error(broker: str, tokens: TokenServer) -> None:
    tokens.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(TransportError) as caught:
        KafkaTransport(replace(endpoint(broker, tokens), timeout=10)).topic_states(["t"])
    # The broker answers with its reason, or has closed the connection before the client reads it: both were seen.
    assert "the login" in caught.value.todo
    assert SECRET not in json.dumps(caught.value.to_json())


def test_a_token_server_that_is_gone_is_one_clear_error(broker: str, tokens: TokenServer) -> None:
    with issuing() as gone:
        url = gone.url
    with pytest.raises(TransportError, match="no token was issued: ConnectError"):
        KafkaTransport(endpoint(broker, tokens, sasl__oauthbearer__token__endpoint__url=url)).topic_states(["t"])
