"""Kafka endpoints and the layout of Connect's offsets topic, without a broker."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError

from airflow_cdc.connectors.kafka_connect.offsets_topic import fold_offsets, offset_key, parse_key
from airflow_cdc.core.errors import ConfigError, TransportError
from airflow_cdc.transports.kafka import wire
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from airflow_cdc.transports.kafka.wire import Record, explaining


def test_the_endpoint_is_normalised_and_shows_no_secret() -> None:
    security = {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "hunter22", "ssl.cafile": ""}
    endpoint = KafkaEndpoint(" a:9092 , b:9092,", security)
    assert endpoint.bootstrap == "a:9092,b:9092"
    assert endpoint.security["sasl.mechanism"] == "PLAIN"
    assert "ssl.cafile" not in endpoint.security
    assert "hunter22" not in repr(endpoint) + endpoint.where


@pytest.mark.parametrize(
    ("bootstrap", "security", "said"),
    [
        ("", {}, "no bootstrap servers"),
        (" , ", {}, "no bootstrap servers"),
        ("a:9092", {"sasl.user": "u"}, "unknown Kafka setting 'sasl.user'"),
        ("a:9092", {"security.protocol": "TLS"}, "unknown security.protocol 'TLS'"),
        ("a:9092", {"sasl.username": "u", "sasl.password": "p"}, "security.protocol is PLAINTEXT"),
    ],
)
def test_what_cannot_work_is_a_configuration_error(bootstrap: str, security: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        KafkaEndpoint(bootstrap, security)


def test_the_key_is_byte_for_byte_what_connect_writes() -> None:
    key = offset_key("shop", {"server": "shop1"})
    assert key.encode() == b'["shop",{"server":"shop1"}]'
    assert parse_key(key) == ("shop", {"server": "shop1"})
    assert offset_key("läden", {"server": "ü"}).encode() == '["läden",{"server":"ü"}]'.encode()


@pytest.mark.parametrize("key", ["", "text", "{}", '["shop"]', '["shop","server"]', '["a",{},1]'])
def test_other_keys_are_none(key: str) -> None:
    assert parse_key(key) is None


def test_folding_keeps_the_last_record_and_tombstones() -> None:
    key, other = b'["a",{"server":"s"}]', b'["b",{"server":"s"}]'
    records = [
        Record(1, 0, key, b'{"pos":1}'),
        Record(2, 0, other, b'{"pos":7}'),
        Record(1, 1, b"\xff", b"{}"),
        Record(1, 2, None, b"{}"),
        Record(1, 3, key, b'{"pos":2}'),
        Record(2, 1, other, None),
    ]
    offsets = fold_offsets(records)
    assert offsets[key.decode()].value == {"pos": 2}
    assert (offsets[key.decode()].kafka_partition, offsets[key.decode()].kafka_offset) == (1, 3)
    assert offsets[other.decode()].value is None
    assert len(offsets) == 2


@pytest.mark.parametrize("value", [b"not json", b"[1]"])
def test_a_value_that_is_no_object_counts_as_none(value: bytes) -> None:
    assert fold_offsets([Record(0, 0, b'["a",{"server":"s"}]', value)])['["a",{"server":"s"}]'].value is None


def test_checksums_are_computed_by_the_processor() -> None:
    """In Python they take 0.1 s a megabyte, which is most of what a read of many events costs."""
    from kafka.record.util import crc32c_c

    assert crc32c_c is not None


@pytest.mark.parametrize(
    "error", [SaslAuthenticationFailedError('{"status":"invalid_token"}'), KafkaConnectionError("socket disconnected")]
)
def test_both_ways_in_which_a_refused_login_arrives_name_the_login(error: KafkaError) -> None:
    with pytest.raises(TransportError) as caught, explaining("Kafka a:9092", "reach a broker"):
        raise error
    assert "the login" in caught.value.todo


def test_what_the_client_library_says_of_itself_is_not_in_task_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It logged 17,529 lines of INFO in ten minutes; a level that somebody set stays."""
    library = logging.getLogger("kafka")
    monkeypatch.setattr(library, "level", logging.NOTSET)
    wire._quiet()
    assert library.level == logging.WARNING
    monkeypatch.setattr(library, "level", logging.INFO)
    wire._quiet()
    assert library.level == logging.INFO
