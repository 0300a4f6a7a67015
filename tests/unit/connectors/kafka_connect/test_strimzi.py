"""KafkaConnector resources: what is asked of Kubernetes, and what its refusals mean. With recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config as kubernetes_config

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.strimzi import StrimziDebezium, variant_of
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.connectors.kafka_connect.strimzi import KafkaConnectors
from airflow_cdc.core.errors import ConfigError, ConnectorError
from tests.unit.builders import PIPELINE
from tests.unit.connectors.kafka_connect.kubernetes_api import TOKEN, KubernetesApi, cluster, resource
from tests.unit.http_server import Scripted


@pytest.fixture
def api() -> KubernetesApi:
    return KubernetesApi(resource("shop", {"topic.prefix": "shop", "a/b": "1"}))


@pytest.fixture
def server(api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    with cluster(api, tmp_path) as (script, config):
        monkeypatch.setattr(kubernetes_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(config))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(config))
        yield script


def test_a_connector_is_stopped_and_started_by_its_resource(api: KubernetesApi, server: Scripted) -> None:
    connectors = KafkaConnectors("kafka")
    connectors.check_reconciled("shop")
    connectors.set_state("shop", "stopped")
    assert api.kept["spec"]["state"] == "stopped"
    connectors.set_state("shop", "running")
    assert api.kept["spec"]["state"] == "running"
    (_, _, _, headers) = next(one for one in server.requests if one[0] == "PATCH")
    assert {key.lower(): value for key, value in headers.items()}["content-type"] == "application/merge-patch+json"
    assert {key.lower(): value for key, value in headers.items()}["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.usefixtures("server")
def test_only_the_named_settings_change(api: KubernetesApi) -> None:
    KafkaConnectors("kafka").set_config("shop", {"snapshot.mode": "recovery", "topic.prefix": None, "a/b": "2"})
    assert api.patches == [{"spec": {"config": {"snapshot.mode": "recovery", "topic.prefix": None, "a/b": "2"}}}]
    assert api.kept["spec"]["config"] == {"snapshot.mode": "recovery", "a/b": "2"}


@pytest.mark.usefixtures("server")
def test_a_connector_that_the_operator_leaves_alone_is_refused(api: KubernetesApi) -> None:
    api.kept["metadata"]["annotations"] = {"strimzi.io/pause-reconciliation": "true"}
    with pytest.raises(ConnectorError, match="pause-reconciliation"):
        KafkaConnectors("kafka").check_reconciled("shop")


@pytest.mark.usefixtures("server")
def test_what_the_operator_says_is_handed_on(api: KubernetesApi) -> None:
    connectors = KafkaConnectors("kafka")
    assert connectors.complaints("shop") == ""
    wrong = {"type": "NotReady", "status": "True", "reason": "ConnectRestException", "message": "PUT /connectors: 400"}
    api.kept["status"]["conditions"] = [wrong]
    assert connectors.complaints("shop") == "ConnectRestException: PUT /connectors: 400"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("status", "todo"), [(401, "kubeconfig"), (403, "get and patch kafkaconnectors")])
def test_a_refusal_says_what_to_do(api: KubernetesApi, status: int, todo: str) -> None:
    api.refuse = status
    with pytest.raises(ConnectorError, match=todo) as error:
        KafkaConnectors("kafka").set_state("shop", "stopped")
    assert TOKEN not in str(error.value)


@pytest.mark.usefixtures("server")
def test_a_connector_that_is_not_there() -> None:
    with pytest.raises(ConnectorError, match=r"KafkaConnector kafka/other.*connector\.strimzi_namespace"):
        KafkaConnectors("kafka").check_reconciled("other")


@pytest.mark.usefixtures("server")
def test_a_cluster_without_strimzi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_cdc.connectors.kafka_connect.strimzi._GROUP", "other.example")
    with pytest.raises(ConnectorError, match="has no Strimzi"):
        KafkaConnectors("kafka").check_reconciled("shop")


def test_a_worker_without_a_way_into_kubernetes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConnectorError, match="no way into Kubernetes"):
        KafkaConnectors("kafka").set_state("shop", "stopped")


def test_settings_of_its_class_are_not_changed_there() -> None:
    connector = StrimziDebezium(ConnectEndpoint("http://connect:8083"), MySqlCodec(), KafkaConnectors("kafka"))
    with pytest.raises(ConnectorError, match=r"tasks\.max"):
        connector.change_config("shop", {"tasks.max": "1"}, {"tasks.max": "2"})


def test_the_pipeline_s_settings_choose_the_client() -> None:
    client = DebeziumConnector(ConnectEndpoint("http://connect:8083"), MySqlCodec())
    transport: Any = None

    def chosen(**keys: str) -> DebeziumConnector:
        part = DebeziumSettings("debezium", "c", "shop", **keys)
        return variant_of(client, replace(PIPELINE, connector=part), transport)

    assert chosen() is client
    assert isinstance(chosen(strimzi_namespace="kafka"), StrimziDebezium)
    with pytest.raises(ConfigError, match="exclude each other"):
        chosen(strimzi_namespace="kafka", offsets_topic="o", status_topic="s")
