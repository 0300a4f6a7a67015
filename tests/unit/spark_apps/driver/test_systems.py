"""Which reader of topics a connector's records need, and where a schema registry is asked."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.spark_apps.adapters.kafka import KafkaTopics
from airflow_cdc.spark_apps.driver.systems import _events, _topics, row_reader

PLAIN = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
APICURIO = {**PLAIN, "value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}
IN_BYTES = {**APICURIO, "value.converter.apicurio.registry.headers.enabled": "false"}
FLATTENED = {**PLAIN, "transforms": "t", "transforms.t.type": "io.debezium.transforms.ExtractNewRecordState"}


def run(transport: str = "kafka") -> Any:
    made = Mock()
    made.where = "pipeline shop"
    made.pipeline.transport.kind, made.pipeline.connector.kind, made.pipeline.source.kind = (
        transport,
        "debezium",
        "mysql",
    )
    return made


@pytest.mark.parametrize(
    ("config", "headers"),
    [
        (PLAIN, False),
        (APICURIO, True),
        (IN_BYTES, False),
        (FLATTENED, False),
        ({**FLATTENED, "transforms.t.add.headers": "op"}, True),
    ],
)
def test_headers_are_read_where_the_connector_needs_them(config: dict[str, str], headers: bool) -> None:
    reader = _topics(run(), ConnectorSettings.from_config(config))
    assert isinstance(reader, KafkaTopics)
    assert reader.headers == headers


def test_a_transport_that_reads_no_headers_is_refused_by_name() -> None:
    _topics(run("rabbitmq"), ConnectorSettings.from_config(IN_BYTES))
    with pytest.raises(ConfigError, match=r"records in RabbitMQ are read without them.*headers\.enabled=false"):
        _topics(run("rabbitmq"), ConnectorSettings.from_config(APICURIO))


def test_events_get_the_registry_only_where_a_converter_writes_schemas_there() -> None:
    made = run()
    assert _events(made, ConnectorSettings.from_config(PLAIN)).texts is None  # type: ignore[attr-defined]
    assert _events(made, ConnectorSettings.from_config(APICURIO)).texts is made.clients.registry.texts  # type: ignore[attr-defined]


@pytest.mark.parametrize(("config", "exact"), [(PLAIN, False), (FLATTENED, True)])
def test_views_are_exact_where_events_do_not_show_the_rows_before_changes(config: dict[str, str], exact: bool) -> None:
    made = run()
    made.pipeline.policy = Policy()
    assert row_reader(made, capture=ConnectorSettings.from_config(config)).exact_views == exact
    assert not row_reader(made).exact_views, "only comparisons need it"
