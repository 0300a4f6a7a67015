"""Which client a Debezium pipeline gets: one that keeps to the worker's topics, if the pipeline names them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.old_connect import OldConnectDebezium, with_topic
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings

TRANSPORT = KafkaTransport(KafkaEndpoint("127.0.0.1:1"))


def plain() -> DebeziumConnector:
    return DebeziumConnector(ConnectEndpoint("http://127.0.0.1:1"), MySqlCodec())


def pipeline(**keys: Any) -> Pipeline:
    return Pipeline(
        "shop",
        MySqlSettings("mysql", "m", ("shop.t",)),
        DebeziumSettings("debezium", "c", "shop", **keys),
        KafkaSettings("kafka", "k"),
        IcebergSettings("iceberg", "shop", "lake"),
    )


def test_without_the_keys_it_is_the_client_of_a_connect_that_does_it_by_rest() -> None:
    client = plain()
    assert with_topic(client, pipeline(), TRANSPORT) is client


@pytest.mark.parametrize("key", ["offsets_topic", "status_topic"])
def test_one_key_without_the_other_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        with_topic(plain(), pipeline(**{key: "t"}), TRANSPORT)


def test_its_limits_are_those_of_broker_and_worker_alike() -> None:
    made = with_topic(plain(), pipeline(offsets_topic="o", status_topic="s"), TRANSPORT)
    assert isinstance(made, OldConnectDebezium)
    limited = made.limited(CallLimits(answer=1.5, topic=2.5))
    topics: Any = limited._topics
    assert (limited.endpoint.timeout, topics.endpoint.timeout) == (1.5, 2.5)
    assert (limited._topic, limited._statuses) == ("o", "s")
