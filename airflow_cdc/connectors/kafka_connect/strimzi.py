"""The KafkaConnector resources of Strimzi, in Kubernetes: what its operator makes a connector be.

The operator sets back what somebody changes by Connect's own REST interface: a connector that was stopped there runs
again some two minutes later. So what it looks after (whether the connector runs, and its settings) is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

from airflow_cdc.core.errors import ConnectorError, needs

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, CustomObjectsApi

T = TypeVar("T")
_GROUP: Final = "kafka.strimzi.io"
_PLURAL: Final = "kafkaconnectors"
_PAUSED: Final = "strimzi.io/pause-reconciliation"
_EXTRA: Final = "strimzi"
_TODO: Final[Mapping[int, str]] = {
    401: "Check the kubeconfig or the service account of this worker.",
    403: f"Let this worker's user or service account get and patch {_PLURAL} of {_GROUP} in that namespace.",
    404: "Check connector.name and connector.strimzi_namespace in pipelines.yaml: `kubectl get kafkaconnectors -A` lists them.",
}
_ELSE: Final = (
    "Check the kubeconfig or the service account of this worker, and that Kubernetes' API can be reached from it."
)


class _Resource(TypedDict, total=False):
    """A KafkaConnector, as far as it is read here."""

    metadata: Mapping[str, Mapping[str, str] | None]
    status: Mapping[str, Sequence[Mapping[str, str]]]


@dataclass(frozen=True)
class KafkaConnectors:
    """The resources of one namespace, in the cluster of the worker's kubeconfig, or else the one that it runs in.

    `timeout`: how long one request may take, in seconds.
    """

    namespace: str
    timeout: float = 30.0

    def check_reconciled(self, name: str) -> None:
        """Raises ConnectorError if there is no such connector, or the operator was told to leave it alone."""
        notes = self._get(name).get("metadata", {}).get("annotations") or {}
        if str(notes.get(_PAUSED, "")).lower() == "true":
            raise ConnectorError(
                f"Strimzi was told not to look after connector {name}",
                where=self.where(name),
                todo=f"Remove its annotation {_PAUSED}.",
            )

    def set_state(self, name: str, state: str) -> None:
        """Ask for "running" or "stopped". Raises ConnectorError."""
        self._patch(name, {"state": state})

    def set_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of the connector; None takes one away. Raises ConnectorError."""
        self._patch(name, {"config": dict(changes)})

    def complaints(self, name: str) -> str:
        """What the operator says of the connector; "" if nothing is wrong. Raises ConnectorError."""
        conditions = self._get(name).get("status", {}).get("conditions") or ()
        bad = [one for one in conditions if one.get("type") in ("NotReady", "Warning")]
        return "; ".join(f"{one.get('reason', '')}: {one.get('message', '')}" for one in bad)

    def where(self, name: str) -> str:
        """How messages name one resource."""
        return f"KafkaConnector {self.namespace}/{name}"

    def _get(self, name: str) -> _Resource:
        answer: _Resource = self._call(
            name, lambda api, version: api.get_namespaced_custom_object(*self._place(version), name, **self._limit)
        )
        return answer

    def _patch(self, name: str, spec: Mapping[str, object]) -> None:
        """Merge into the resource's spec: the client sends a mapping as a merge patch (seen on 29.0 and 37.0)."""
        body = {"spec": dict(spec)}
        self._call(
            name,
            lambda api, version: api.patch_namespaced_custom_object(*self._place(version), name, body, **self._limit),
        )

    def _place(self, version: str) -> tuple[str, str, str, str]:
        return _GROUP, version, self.namespace, _PLURAL

    @property
    def _limit(self) -> dict[str, float]:
        return {"_request_timeout": self.timeout}

    def _call(self, name: str, ask: Callable[[CustomObjectsApi, str], T]) -> T:
        """One request about a resource, in the version that the cluster prefers. Raises ConnectorError."""
        client = self._client
        from kubernetes.client import ApisApi, CustomObjectsApi
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            groups = ApisApi(client).get_api_versions(**self._limit).groups
            version = next((one.preferred_version.version for one in groups if one.name == _GROUP), "")
            if not version:
                raise ConnectorError("this Kubernetes cluster has no Strimzi", where=self.where(name), todo=_ELSE)
            return ask(CustomObjectsApi(client), version)
        except ApiException as error:
            raise ConnectorError(
                f"Kubernetes answers {error.status} {error.reason}",
                where=self.where(name),
                todo=_TODO.get(error.status, _ELSE),
                status=error.status,
            ) from None
        except HTTPError as error:
            raise ConnectorError(
                f"Kubernetes cannot be reached: {type(error).__name__}", where=self.where(name), todo=_ELSE
            ) from None

    @cached_property
    def _client(self) -> ApiClient:
        with needs(_EXTRA, where=f"connectors of Strimzi in {self.namespace}"):
            from kubernetes import client, config
        own = client.Configuration()
        own.retries = False
        try:
            with redirect_stdout(StringIO()):  # it prints that it found no kubeconfig
                config.load_config(client_configuration=own)
        except config.ConfigException as error:
            raise ConnectorError(
                f"this worker has no way into Kubernetes: {error}",
                where=f"connectors of Strimzi in {self.namespace}",
                todo="Give it a kubeconfig (KUBECONFIG), or run it in the cluster with a service account.",
            ) from None
        return client.ApiClient(own)
