"""Airflow connections become endpoints; what is missing or wrong is one error that says what to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.config.registry import load_registry
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.errors import (
    ConfigError,
)
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.flows.run import make_run
from airflow_cdc.flows.schemas import registry_of
from airflow_cdc.hooks.debezium_engine import DebeziumEngineHook
from airflow_cdc.hooks.endpoints import resolve_endpoints
from airflow_cdc.hooks.iceberg import IcebergCatalogHook
from airflow_cdc.hooks.kafka import CdcKafkaHook
from airflow_cdc.hooks.kafka_connect import KafkaConnectHook
from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.hooks.schema_registry import SchemaRegistryHook
from airflow_cdc.parts import Endpoints, open_parts
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.transports.kafka.registry import RegistryEndpoint
from airflow_cdc.transports.kafka.wire import KafkaEndpoint
from tests.unit.conftest import SECRETS

PARTS = ("source", "connector", "transport", "sink")


def test_endpoints_of_a_pipeline(connections: dict[str, str], registry: Path) -> None:
    endpoints = resolve_endpoints(load_registry(registry)["shop"])
    source, connector, transport, sink = endpoints.source, endpoints.connector, endpoints.transport, endpoints.sink
    assert isinstance(source, MySqlEndpoint)
    assert (source.host, source.port, source.user) == ("db", 3306, "cdc")
    assert isinstance(connector, ConnectEndpoint)
    assert connector.url == "http://connect:8083"
    assert isinstance(transport, KafkaEndpoint)
    assert transport.bootstrap == "broker:9092"
    assert transport.security["sasl.password"] == SECRETS["kafka"]
    assert isinstance(sink, IcebergEndpoint)
    assert (sink.name, sink.properties["type"]) == ("lake", "sql")
    assert not any(secret in repr(endpoints) for secret in SECRETS.values())


def test_a_named_replica_has_an_endpoint_that_survives_the_settings_file(
    connections: dict[str, str], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.write_text(registry.read_text().replace("shop.orders]}", "shop.orders], replicas: [shop_replica]}"))
    pipeline = load_registry(registry)["shop"]
    with pytest.raises(ConfigError, match="'shop_replica' is not defined"):
        resolve_endpoints(pipeline)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_REPLICA", connections["shop_mysql"].replace('"db"', '"other"'))
    endpoints = resolve_endpoints(pipeline)
    assert endpoints.replicas["shop_replica"].where == "mysql other:3306 as cdc"
    written = json.loads(json.dumps(endpoints.to_json(pipeline)))
    assert [written[part]["kind"] for part in PARTS] == ["mysql", "debezium", "kafka", "iceberg"]
    assert Endpoints.from_json(written) == endpoints
    assert not any(secret in repr(endpoints) for secret in SECRETS.values())


def test_missing_connections_are_one_error_that_says_what_to_create(
    connections: dict[str, str], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_registry(registry)["shop"]
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_MYSQL")
    with pytest.raises(
        ConfigError, match=r"^connection 'shop_mysql' is not defined \(pipeline shop.*--conn-type cdc_mysql"
    ):
        resolve_endpoints(pipeline)
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    with pytest.raises(
        ConfigError, match=r"2 connections cannot be used: .*'shop_mysql'.*'lake'.*--conn-type iceberg_catalog"
    ):
        resolve_endpoints(pipeline)


def conn(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_C", json.dumps(fields))
    return "c"


@pytest.mark.parametrize(
    ("extra", "ssl"),
    [
        ({}, None),
        ({"ssl_mode": "disabled"}, {"mode": "disabled"}),
        ({"ssl_mode": "VERIFY-CA", "ssl_ca": "/ca.pem"}, {"mode": "verify_ca", "ca": "/ca.pem"}),
        ({"ssl": {"ca": "/ca.pem", "cert": "/c.pem"}}, {"ca": "/ca.pem", "cert": "/c.pem"}),
        ({"ssl": '{"ca": "/ca.pem"}'}, {"ca": "/ca.pem"}),
    ],
)
def test_tls_of_a_mysql_connection(extra: dict[str, Any], ssl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(monkeypatch, conn_type="mysql", host="db", port=3307, login="u", password="p", extra=extra)
    endpoint = CdcMySqlHook(made).endpoint()
    assert (endpoint.port, endpoint.ssl) == (3307, ssl)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "postgres", "host": "db"}, "type 'postgres'.*Change its type to cdc_mysql or mysql"),
        ({"conn_type": "mysql", "login": "u"}, "host is empty"),
        ({"conn_type": "mysql", "host": "db"}, "login is empty"),
        (
            {"conn_type": "mysql", "host": "db", "login": "u", "extra": {"ssl_mode": "on"}},
            "ssl_mode is 'on'.*verify_ca",
        ),
        ({"conn_type": "mysql", "host": "db", "login": "u", "extra": {"ssl": "{"}}, "ssl is not JSON"),
        (
            {"conn_type": "mysql", "host": "db", "login": "u", "extra": {"read_timeout": "soon"}},
            "read_timeout is 'soon'",
        ),
    ],
)
def test_a_bad_mysql_connection_says_what_is_wrong(
    fields: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=said):
        CdcMySqlHook(conn(monkeypatch, **fields)).endpoint()


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "c"}, "http://c:8083"),
        ({"host": "c", "port": 80, "schema": "https"}, "https://c:80"),
        ({"host": "https://c/prefix"}, "https://c/prefix"),
    ],
)
def test_url_of_a_connect_connection(fields: dict[str, Any], url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(monkeypatch, conn_type="kafka_connect", extra={"verify": "false"}, **fields)
    endpoint = KafkaConnectHook(made).endpoint()
    assert (endpoint.url, endpoint.verify) == (url, False)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("https://api.confluent.cloud/connect/v1/environments/env-1/clusters/lkc-1", "Confluent Cloud"),
        ("kafkaconnect.eu-west-1.amazonaws.com", "MSK Connect"),
    ],
)
def test_a_managed_connect_is_refused_by_name(host: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=said):
        KafkaConnectHook(conn(monkeypatch, conn_type="kafka_connect", host=host)).endpoint()


@pytest.mark.parametrize("conn_type", ["postgres", "mysql", "debezium_engine"])
def test_an_engine_s_connection_is_its_database_or_its_machine(conn_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(monkeypatch, conn_type=conn_type, host="h", schema="s", login="u", password="p")
    endpoint = DebeziumEngineHook(made).endpoint()
    assert (endpoint.database is None, endpoint.machine) == (
        (True, "h") if conn_type == "debezium_engine" else (False, "")
    )
    assert "h" in endpoint.where


def test_host_and_port_make_a_kafka_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = CdcKafkaHook(conn(monkeypatch, conn_type="kafka", host="b", port=9093)).endpoint()
    assert (endpoint.bootstrap, dict(endpoint.security)) == ("b:9093", {})


def test_secrets_of_a_catalog_stand_in_the_password_field(monkeypatch: pytest.MonkeyPatch) -> None:
    made = conn(
        monkeypatch, conn_type="iceberg_catalog", host="https://x", login="id", password="s", extra={"type": "rest"}
    )
    endpoint = IcebergCatalogHook(made).endpoint()
    assert endpoint.properties == {"type": "rest", "uri": "https://x", "credential": "id:s"}
    with pytest.raises(ConfigError, match="neither type nor uri"):
        IcebergCatalogHook(conn(monkeypatch, conn_type="iceberg_catalog")).endpoint()


REGISTRY = {"conn_type": "cdc_schema_registry", "host": "https://r:8081", "login": "u", "password": "s3cret-of-schemas"}


def test_a_schema_registry_has_an_endpoint_that_survives_the_settings_file(
    connections: dict[str, str], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert resolve_endpoints(load_registry(registry)["shop"]).registry is None
    registry.write_text(
        registry.read_text().replace("conn_id: shop_kafka", "conn_id: shop_kafka, registry: shop_schemas")
    )
    pipeline = load_registry(registry)["shop"]
    with pytest.raises(ConfigError, match=r"'shop_schemas' is not defined.*--conn-type cdc_schema_registry"):
        resolve_endpoints(pipeline)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SCHEMAS", json.dumps({**REGISTRY, "extra": {"ca_file": "/ca.pem"}}))
    endpoints = resolve_endpoints(pipeline)
    found = endpoints.registry
    assert isinstance(found, RegistryEndpoint)
    assert (found.url, found.user, found.ca_file, found.verify) == ("https://r:8081", "u", "/ca.pem", True)
    written = json.loads(json.dumps(endpoints.to_json(pipeline)))
    assert Endpoints.from_json(written) == endpoints
    assert "s3cret-of-schemas" not in repr(endpoints)
    assert "s3cret-of-schemas" not in mask_text("login s3cret-of-schemas failed")
    made = open_parts(pipeline, endpoints).registry
    assert made is not None
    assert made.where == "schema registry https://r:8081"


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"conn_type": "cdc_schema_registry", "host": "r"}, "http://r:8081"),
        ({"conn_type": "http", "host": "r", "port": 80, "schema": "https"}, "https://r:80"),
        ({"conn_type": "http", "host": "http://a:b@r:8080/apis/registry/v2"}, "http://r:8080/apis/registry/v2"),
    ],
)
def test_the_address_of_a_schema_registry(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], url: str) -> None:
    assert SchemaRegistryHook(conn(monkeypatch, **fields)).endpoint().url == url


def test_the_registry_of_a_connector_is_the_pipelines_own_or_that_of_its_settings(
    connections: dict[str, str], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load_registry(registry)["shop"]
    run = make_run(pipeline, resolve_endpoints(pipeline), "r1", "/reports")
    plain = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"}
    avro = {**plain, "value.converter": "io.confluent.connect.avro.AvroConverter"}
    assert registry_of(run, ConnectorSettings.from_config(plain)) is None
    with pytest.raises(ConfigError, match=r"name none that can be used.*registry: CONN_ID"):
        registry_of(run, ConnectorSettings.from_config(avro))
    own = {**avro, "value.converter.schema.registry.url": "http://u:s3cret-in-a-url@theirs:8081"}
    found = registry_of(run, ConnectorSettings.from_config(own))
    assert found is not None
    assert found.where == "schema registry http://theirs:8081"
    assert "s3cret-in-a-url" not in mask_text("login s3cret-in-a-url failed")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SCHEMAS", json.dumps(REGISTRY))
    registry.write_text(
        registry.read_text().replace("conn_id: shop_kafka", "conn_id: shop_kafka, registry: shop_schemas")
    )
    pipeline = load_registry(registry)["shop"]
    named = registry_of(
        make_run(pipeline, resolve_endpoints(pipeline), "r1", "/reports"), ConnectorSettings.from_config(own)
    )
    assert named is not None
    assert named.where == "schema registry https://r:8081"
