"""Kafka's consumer groups, as core.ports.Groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_cdc.transports.kafka.wire import KafkaEndpoint, admin, explaining


@dataclass(frozen=True, slots=True)
class KafkaGroups:
    """The groups of one cluster. Groups are asked for by name: kafka-python cannot read those of Connect's own workers."""

    endpoint: KafkaEndpoint

    def members(self, group: str) -> tuple[str, ...]:
        """See core.ports.Groups. Raises TransportError, also where the user may not describe the group."""
        with admin(self.endpoint) as client, explaining(self.endpoint.where, f"describe the consumer group {group}"):
            description: dict[str, Any] = client.describe_groups([group])[group]
        return tuple(sorted(str(member["client_id"]) for member in description.get("members") or ()))

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """See core.ports.Groups."""
        where = self.endpoint.where
        with admin(self.endpoint) as client, explaining(where, f"read the offsets of the consumer group {group}"):
            answers = client.list_group_offsets({group: None}).get(group, {})
        offsets: dict[str, dict[int, int]] = {}
        for part, at in answers.items():
            if at.offset >= 0:  # else nothing was committed
                offsets.setdefault(part.topic, {})[part.partition] = at.offset
        return offsets
