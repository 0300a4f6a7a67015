"""Logins by token: which settings they need, and how long a token is used. A real broker: tests/integration/test_kafka_oauth.py."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.decisions import oauth
from airflow_cdc.spark_apps.adapters.kafka import kafka_options
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from airflow_cdc.transports.kafka.oauth import TokenClient, Tokens
from tests.unit.http_server import Answer, serving

URL = "https://issuer.example/token"
CLIENT = {"sasl.username": "id", "sasl.password": 'se"cret', "sasl.oauthbearer.token.endpoint.url": URL}
PROTOCOL = {"security.protocol": "SASL_SSL"}


def test_a_token_url_makes_the_login_a_client() -> None:
    assert KafkaEndpoint("k:9092", CLIENT | PROTOCOL).security["sasl.mechanism"] == "OAUTHBEARER"


@pytest.mark.parametrize("missing", ["sasl.username", "sasl.oauthbearer.token.endpoint.url"])
def test_what_a_token_needs_is_asked_for(missing: str) -> None:
    given = {key: value for key, value in CLIENT.items() if key != missing}
    with pytest.raises(ConfigError, match="needs a server that issues tokens"):
        KafkaEndpoint("k:9092", given | PROTOCOL | {"sasl.mechanism": "oauthbearer"})


def test_spark_gets_the_client_and_not_its_password_alone() -> None:
    options = kafka_options(KafkaEndpoint("k:9092", CLIENT | PROTOCOL | {"sasl.oauthbearer.scope": "read"}))
    assert options["kafka.sasl.jaas.config"].endswith(
        'OAuthBearerLoginModule required clientId="id" clientSecret="se\\"cret" scope="read";'
    )
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == URL
    assert not [key for key in options if "username" in key or "password" in key or "scope" in key]


def test_iam_of_msk_needs_no_login() -> None:
    options = kafka_options(KafkaEndpoint("k:9098", PROTOCOL | {"sasl.mechanism": "AWS_MSK_IAM"}))
    assert options["kafka.sasl.jaas.config"] == "software.amazon.msk.auth.iam.IAMLoginModule required;"
    assert options["kafka.sasl.mechanism"] == "AWS_MSK_IAM"


def test_a_token_is_used_until_shortly_before_it_ends() -> None:
    now = [1000.0]
    with serving() as server:
        server.answers = [
            Answer(200, {"access_token": "one", "expires_in": 100}),
            Answer(200, {"access_token": "two", "expires_in": 100}),
        ]
        tokens = Tokens(TokenClient(server.url, "id", "secret"), lambda: now[0])
        seen = [tokens.token(), tokens.token()]
        now[0] += 100 - oauth.EARLY_S
        seen.append(tokens.token())
    assert seen == ["one", "one", "two"]


def test_a_token_that_is_not_given_is_no_empty_token() -> None:
    with serving() as server:
        server.answers = [Answer(200, {"token": "by another name"})]
        with pytest.raises(TransportError, match="no token was issued: HTTP 200"):
            Tokens(TokenClient(server.url, "id", "secret")).token()


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (None, ("", 0.0)),
        ([], ("", 0.0)),
        ({"access_token": "t", "expires_in": "soon"}, ("t", 270.0)),
        ({"access_token": "t"}, ("t", 270.0)),
        ({"access_token": "t", "expires_in": 5}, ("t", 0.0)),
    ],
)
def test_what_an_answer_gives(answer: object, wanted: tuple[str, float]) -> None:
    assert oauth.issued(answer) == wanted
