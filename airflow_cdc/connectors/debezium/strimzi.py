"""A Debezium connector that Strimzi's operator looks after.

Whether it runs and its settings are changed in its KafkaConnector resource; state and offsets are read from Connect's
REST interface and the offset is written there, which the operator leaves alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.old_connect import with_topic
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.connectors.kafka_connect.offsets_topic import WritableTopics
from airflow_cdc.connectors.kafka_connect.strimzi import KafkaConnectors
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError, ConnectorError, DeadlineError
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.poll import NotYet, poll_until

# the operator acts on a change at once, but looks after one connector at a time
CHANGE_SECONDS: Final = 60.0
_OF_SPEC: Final = frozenset({"name", "connector.class", "tasks.max"})


class StrimziDebezium(DebeziumConnector):
    """The Debezium connectors of one Connect cluster whose resources are in `resources`."""

    def __init__(self, endpoint: ConnectEndpoint, codec: OffsetCodec, resources: KafkaConnectors) -> None:
        super().__init__(endpoint, codec)
        self._resources = resources

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        own = self._resources
        resources = KafkaConnectors(own.namespace, min(own.timeout, limits.answer))
        return type(self)(self.endpoint.limited(limits), self._codec, resources)

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Ask the operator to stop it, and wait until Connect says STOPPED with zero tasks. Raises DeadlineError."""
        self._resources.check_reconciled(name)
        self._resources.set_state(name, "stopped")
        try:
            self.wait_stopped(name, timeout=timeout)
        except DeadlineError as error:
            raise self._not_done(name, error) from None

    def resume(self, name: str) -> None:
        """Ask the operator to let it run."""
        self._resources.check_reconciled(name)
        self._resources.set_state(name, "running")

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Change the settings in the resource, and wait until Connect has them; on a deadline set `before` back."""
        changes = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
        if fixed := sorted(_OF_SPEC & changes.keys()):
            raise ConnectorError(
                f"{', '.join(fixed)} is not among the settings of a resource",
                where=self._resources.where(name),
                todo="Change it in the resource's spec yourself.",
            )
        self._resources.check_reconciled(name)
        self._resources.set_config(name, changes)
        try:
            poll_until(
                lambda: self._has(name, after),
                timeout=CHANGE_SECONDS,
                interval=0.3,
                what="Strimzi to change the settings",
            )
        except DeadlineError as error:
            self._resources.set_config(name, {key: before.get(key) for key in changes})
            raise self._not_done(name, error) from None

    def _has(self, name: str, wanted: Mapping[str, str]) -> bool:
        if self.raw_config(name) != dict(wanted):
            raise NotYet("Connect has other settings")
        return True

    def _not_done(self, name: str, error: DeadlineError) -> DeadlineError:
        complaints = self._resources.complaints(name)
        return DeadlineError(
            f"{error.what}{f' (Strimzi says: {complaints})' if complaints else ''}",
            where=self._resources.where(name),
            todo="See that Strimzi's operator runs, that the KafkaConnect resource has the annotation"
            " strimzi.io/use-connector-resources, and that no GitOps tool sets the resource back; then do this again.",
            timeout=error.timeout,
            last=error.last,
        )


def variant_of(client: DebeziumConnector, pipeline: Pipeline, transport: WritableTopics) -> DebeziumConnector:
    """The client that a Debezium connector needs, by what pipelines.yaml says of its Kafka Connect. Raises ConfigError for settings that exclude each other."""
    settings = pipeline.connector
    if not isinstance(settings, DebeziumSettings) or not settings.strimzi_namespace:
        return with_topic(client, pipeline, transport)
    if settings.offsets_topic or settings.status_topic:
        raise ConfigError(
            "connector.strimzi_namespace and connector.offsets_topic exclude each other",
            where=f"pipeline {pipeline.name}, key connector",
            todo="A Kafka Connect of Strimzi changes offsets by REST from 3.6 on: remove offsets_topic and status_topic.",
        )
    return StrimziDebezium(client.endpoint, client.codec, KafkaConnectors(settings.strimzi_namespace))
