"""The Test button of a connection's form: every hook asks its system, and says in one line how it went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.hooks import kafka
from airflow_cdc.hooks.canal import CanalHook
from airflow_cdc.hooks.iceberg import IcebergCatalogHook
from airflow_cdc.hooks.kafka import CdcKafkaHook
from airflow_cdc.provider_info import get_provider_info
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.unit.test_provider_info import load


def defined(monkeypatch: pytest.MonkeyPatch, conn_type: str, **extra: Any) -> str:
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps({"conn_type": conn_type, "extra": extra}))
    return "tried"


@pytest.mark.parametrize("form", get_provider_info()["connection-types"], ids=lambda form: form["connection-type"])
def test_every_connection_type_can_be_tried(form: dict[str, Any]) -> None:
    assert callable(load(form["hook-class-name"]).test_connection)


def test_a_canal_whose_cursor_is_in_a_file_has_nothing_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps({"conn_type": "canal", "host": "canal1"}))
    works, message = CanalHook("tried").test_connection()
    assert works
    assert "no ZooKeeper to ask" in message


def test_a_zookeeper_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps({"conn_type": "canal", "host": "127.0.0.1", "port": 1}))
    hook = CanalHook("tried")
    monkeypatch.setattr(hook, "endpoint", lambda: CanalEndpoint("127.0.0.1:1", timeout=1))
    works, message = hook.test_connection()
    assert not works
    assert "ZooKeeper 127.0.0.1:1" in message


def test_a_catalog_that_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    works, message = IcebergCatalogHook(defined(monkeypatch, "iceberg_catalog", type="sql", **place)).test_connection()
    assert (works, message) == (True, "Iceberg catalog: connection works")


def test_a_catalog_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {"type": "rest", "uri": "http://127.0.0.1:1", "token": "s3cret"}
    works, message = IcebergCatalogHook(defined(monkeypatch, "iceberg_catalog", **secret)).test_connection()
    assert not works
    assert "catalog tried" in message
    assert "s3cret" not in message


def test_brokers_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = create_autospec(KafkaTransport)
    monkeypatch.setattr(kafka, "KafkaTransport", transport)
    hook = CdcKafkaHook(defined(monkeypatch, "cdc_kafka", **{"bootstrap.servers": "b:9092"}))
    assert hook.test_connection() == (True, "CDC Kafka transport: connection works")
    assert transport.return_value.reach.call_count == 1


def test_brokers_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = CdcKafkaHook(defined(monkeypatch, "cdc_kafka", **{"bootstrap.servers": "127.0.0.1:1"}))
    endpoint = hook.endpoint()
    monkeypatch.setattr(hook, "endpoint", lambda: type(endpoint)(endpoint.bootstrap, endpoint.security, timeout=2))
    works, message = hook.test_connection()
    assert not works
    assert "127.0.0.1:1" in message
