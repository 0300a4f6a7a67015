"""A sink connector on Kafka Connect, as core.ports.Feeder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from airflow_cdc.connectors.kafka_connect.client import KafkaConnect
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.observation import ConnectorState

_GROUP: Final = "consumer.override.group.id"
_LETTERS: Final = "errors.deadletterqueue.topic.name"


class ConnectFeeder:
    """One sink connector of a Connect cluster. Creating it connects to nothing."""

    def __init__(self, endpoint: ConnectEndpoint, name: str) -> None:
        self._connect = KafkaConnect(endpoint)
        self.name = name

    @property
    def where(self) -> str:
        """How messages name it."""
        return f"sink connector {self.name} at {self._connect.where}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self._connect.endpoint.limited(limits), self.name)

    def state(self) -> ConnectorState:
        """See core.ports.Feeder."""
        return self._connect.reported(self.name)

    def settings(self) -> Mapping[str, str]:
        """See core.ports.Feeder."""
        return self._connect.config(self.name)

    def group(self, settings: Mapping[str, str]) -> str:
        """See core.ports.Feeder."""
        return settings.get(_GROUP) or f"connect-{self.name}"

    def letters_topic(self, settings: Mapping[str, str]) -> str:
        """See core.ports.Feeder."""
        return settings.get(_LETTERS, "")

    def own_member(self, client_id: str) -> bool:
        """See core.ports.Feeder: Connect names a task's consumer by connector and number."""
        name, _, number = client_id.removeprefix("connector-consumer-").rpartition("-")
        return name == self.name and number.isdecimal()
