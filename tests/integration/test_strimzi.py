"""A connector that Strimzi looks after: a real Connect; Kubernetes and the operator are a stand-in (no cluster was to be had).

The stand-in does what the operator does: it carries the resource's state and settings to Connect, and sets back what somebody
changed there by REST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_cdc.connectors.debezium import strimzi
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.strimzi import StrimziDebezium
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint, KafkaConnect
from airflow_cdc.connectors.kafka_connect.strimzi import KafkaConnectors
from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.flows.offsets import replace_offset
from stack.connect import DEBEZIUM_CLASS
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.integration.mariadb.recovered import connector_config
from tests.unit.connectors.kafka_connect.kubernetes_api import KubernetesApi, cluster, resource

pytestmark = pytest.mark.slow

OF_SPEC = ("name", "connector.class", "tasks.max")


@dataclass
class Operator:
    """What Strimzi's operator does with the resource."""

    connect: KafkaConnect
    name: str
    works: bool = True

    def reconcile(self, spec: dict[str, Any]) -> None:
        if not self.works:
            return
        own = {"connector.class": spec["class"], "tasks.max": str(spec["tasksMax"]), "name": self.name}
        wanted = {**own, **{key: str(value) for key, value in spec["config"].items()}}
        if self.connect.raw_config(self.name) != wanted:
            self.connect.put_config(self.name, wanted)
        stopped = self.connect.status(self.name)["connector"]["state"] == "STOPPED"
        if stopped and spec.get("state", "running") == "running":
            self.connect.resume(self.name)
        if not stopped and spec.get("state") == "stopped":
            # asked alone: whoever waits for STOPPED here may wait until the connector is gone, if it is resumed at once
            httpx.put(f"{self.connect.endpoint.url}/connectors/{self.name}/stop", timeout=60).raise_for_status()


@dataclass
class Scene:
    """A connector that has committed an offset, and its resource."""

    connector: StrimziDebezium
    operator: Operator
    api: KubernetesApi
    name: str


@pytest.fixture
def scene(  # noqa: PLR0917
    mysql: MySqlServer,
    connect: str,
    kafka: str,
    databases: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Scene]:
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
    plain = KafkaConnect(ConnectEndpoint(connect))
    settings = {
        "connector.class": DEBEZIUM_CLASS,
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "tasks.max": "1",
    }
    config = connector_config(mysql, name, kafka, settings)
    plain.create(name, config)
    operator = Operator(plain, name)
    kept = resource(name, {key: value for key, value in config.items() if key not in OF_SPEC})
    api = KubernetesApi(kept, operator.reconcile)
    with cluster(api, tmp_path) as (_, kubeconfig):
        monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))
        connector = StrimziDebezium(ConnectEndpoint(connect), MySqlCodec(), KafkaConnectors("kafka"))
        wait_until(lambda: connector.committed_offset(name, name), timeout=60, what="a first offset")
        yield Scene(connector, operator, api, name)
        connector.close()
    plain.delete(name)
    plain.close()


def test_its_offset_is_set_back_while_the_operator_keeps_it_stopped(scene: Scene) -> None:
    name, connector = scene.name, scene.connector
    connector.stop(name)
    assert scene.api.kept["spec"]["state"] == "stopped"
    scene.operator.reconcile(scene.api.kept["spec"])  # as it does every two minutes
    assert connector.state(name).state == "STOPPED"
    before = connector.committed_offset(name, name)
    assert before is not None
    other = {**before, "ts_sec": 1}
    store = connector.offset_store(name, {"server": name})
    replace_offset(store, connector.codec, before, other, where="here")
    assert connector.committed_offset(name, name) == other
    connector.resume(name)
    connector.wait_running(name)


def test_a_stop_by_rest_alone_does_not_last(scene: Scene) -> None:
    """What `strimzi_namespace` is for."""
    scene.operator.connect.stop(scene.name)
    scene.operator.reconcile(scene.api.kept["spec"])
    scene.connector.wait_running(scene.name)


def test_settings_are_changed_and_set_back(scene: Scene) -> None:
    name, connector = scene.name, scene.connector
    before = connector.raw_config(name)
    after = {**before, "heartbeat.interval.ms": "1000", "snapshot.mode": "recovery", "poll.interval.ms": "250"}
    connector.change_config(name, before, after)
    assert connector.raw_config(name) == after
    connector.change_config(name, after, before)
    assert connector.raw_config(name) == before


def test_an_operator_that_does_nothing_is_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strimzi, "CHANGE_SECONDS", 1.0)
    name, connector = scene.name, scene.connector
    scene.operator.works = False
    condition = {"type": "NotReady", "status": "True", "reason": "NoSuchConnect", "message": "no such cluster"}
    scene.api.kept["status"]["conditions"] = [condition]
    before = connector.raw_config(name)
    with pytest.raises(DeadlineError, match=r"no such cluster.*use-connector-resources"):
        connector.stop(name, timeout=1.0)
    with pytest.raises(DeadlineError, match=r"no such cluster.*use-connector-resources"):
        connector.change_config(name, before, {**before, "heartbeat.interval.ms": "1000"})
    assert scene.api.kept["spec"]["config"]["heartbeat.interval.ms"] == before["heartbeat.interval.ms"]
