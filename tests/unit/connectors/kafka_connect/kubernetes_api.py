"""Kubernetes' API with one KafkaConnector, as its documentation and Strimzi's show the answers. No cluster was there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.http_server import Answer, Scripted, serving

TOKEN = "hush-1"
GROUPS = {
    "kind": "APIGroupList",
    "apiVersion": "v1",
    "groups": [
        {
            "name": "kafka.strimzi.io",
            "versions": [
                {"groupVersion": "kafka.strimzi.io/v1", "version": "v1"},
                {"groupVersion": "kafka.strimzi.io/v1beta2", "version": "v1beta2"},
            ],
            "preferredVersion": {"groupVersion": "kafka.strimzi.io/v1beta2", "version": "v1beta2"},
        }
    ],
}


def resource(name: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """A KafkaConnector as the operator leaves it."""
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaConnector",
        "metadata": {"name": name, "namespace": "kafka", "labels": {"strimzi.io/cluster": "my-connect"}},
        "spec": {"class": "io.debezium.connector.mysql.MySqlConnector", "tasksMax": 1, "config": dict(config or {})},
        "status": {
            "conditions": [{"lastTransitionTime": "2026-11-25T10:00:00Z", "status": "True", "type": "Ready"}],
            "connectorStatus": {"connector": {"state": "RUNNING", "worker_id": "my-connect-0:8083"}, "name": name},
            "observedGeneration": 1,
            "tasksMax": 1,
            "topics": [],
        },
    }


@dataclass
class KubernetesApi:
    """The resource; `reconcile` is called with its spec after a change: what the operator does."""

    kept: dict[str, Any]
    reconcile: Callable[[dict[str, Any]], None] = lambda _spec: None
    refuse: int = 0
    patches: list[Any] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Any) -> Answer:
        if self.refuse:
            return Answer(self.refuse, {"kind": "Status", "status": "Failure", "message": "no"})
        if path == "/apis/":
            return Answer(body=GROUPS)
        name = self.kept["metadata"]["name"]
        if path != f"/apis/kafka.strimzi.io/v1beta2/namespaces/kafka/kafkaconnectors/{name}":
            return Answer(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
        if method == "PATCH":
            self.patches.append(body)
            _merge(self.kept, body)
            self.reconcile(self.kept["spec"])
        return Answer(body=self.kept)


def _merge(document: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7396."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict):
            _merge(document.setdefault(key, {}), value)
        else:
            document[key] = value


@contextmanager
def cluster(api: KubernetesApi, folder: Path) -> Iterator[tuple[Scripted, Path]]:
    """The server, and a kubeconfig that leads to it."""
    with serving() as script:
        script.respond = api.answer
        config = folder / "kubeconfig"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "k", "cluster": {"server": script.url}}],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                }
            )
        )
        yield script, config
