"""Addresses are taken apart where they come in: no login is left in what names a system."""

from __future__ import annotations

import json

import pytest

from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.endpoint import Address, secrets_in
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.transports.kafka.wire import KafkaEndpoint
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("", "", "")),
        ("host", ("http://host", "", "")),
        ("https://host:8443/prefix/", ("https://host:8443/prefix", "", "")),
        ("https://ops:hush-1@host:8443", ("https://host:8443", "ops", "hush-1")),
        ("ops:hush-1@host:8083", ("http://host:8083", "ops", "hush-1")),
        ("http://ops:hu/sh-1@host:8083/x", ("http://host:8083/x", "ops", "hu/sh-1")),
        ("http://ops:hu%2Fsh%401@host", ("http://host", "ops", "hu/sh@1")),
        ("http://ops:hu@sh@host", ("http://host", "ops", "hu@sh")),
        ("http://host:8083/a@b", ("http://host:8083/a@b", "", "")),
        ("http://host/x?token=hush-1", ("http://host/x", "", "")),
        ("http://ops@host", ("http://host", "ops", "")),
        ("http://[::1]:8083/a@b", ("http://[::1]:8083/a@b", "", "")),
    ],
)
def test_an_address_is_taken_apart(text: str, address: tuple[str, str, str]) -> None:
    assert tuple(Address.of(text, "it")) == address


@pytest.mark.parametrize(
    "text", ["http://ops:hu@sh/1@host", "ftp://ops:hush@h", "http://", "http://ops:hush-1@", "://x"]
)
def test_what_can_be_read_in_two_ways_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ConfigError, match="no usable URL") as error:
        Address.of(text, "Flink")
    assert not any(word in str(error.value) for word in ("hu@", "sh/", "hush", "ops"))


@pytest.mark.parametrize("login", ["ops:hush-1@", "ops:hu/sh-1@", "ops:hush%2F1@"])
def test_no_endpoint_shows_a_login_that_was_written_into_its_address(login: str) -> None:
    url = f"http://{login}host:8083"
    for endpoint in (
        FlinkEndpoint(url, gateway=url),
        OpenSearchEndpoint(url),
        ConnectEndpoint(url, token_url=url),
        RabbitMqEndpoint("host", management=url),
    ):
        shown = f"{endpoint!r} {endpoint.where} {getattr(endpoint, 'dataset', '')} {getattr(endpoint, 'api', '')}"
        assert "hu" not in shown.replace("shards", "")
        if not isinstance(endpoint, RabbitMqEndpoint):
            assert (endpoint.user, endpoint.password[:2]) == ("ops", "hu")


def test_an_endpoint_knows_its_secrets_by_value() -> None:
    iceberg = IcebergEndpoint(
        "lake", {"uri": "postgresql://u:hush-1@db/x", "s3.secret-access-key": "hush-2", "type": "sql"}
    )
    assert set(secrets_in(iceberg)) == {"hush-1", "hush-2"}
    kafka = KafkaEndpoint("k:9092", {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "hush-3"})
    assert set(secrets_in(kafka)) == {"hush-3"}
    assert "hush-4" in set(secrets_in(FlinkEndpoint("http://u:hush-4@h")))
    assert json.dumps(list(secrets_in(None))) == "[]"
