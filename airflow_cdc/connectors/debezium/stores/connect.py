"""The offset that a Kafka Connect cluster keeps for a connector, over its REST API."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_cdc.connectors.kafka_connect.client import KafkaConnect
from airflow_cdc.core.offset import RawOffset


@dataclass(frozen=True, slots=True)
class ConnectOffsetStore:
    """One connector's offset under one key ({"server": topic prefix}). Raises ConnectorError."""

    connect: KafkaConnect
    connector: str
    key: RawOffset

    def read(self) -> RawOffset | None:
        """The value as Connect returns it.

        Connect lists a partition's first offset only once its own reader of the topic has reached the record: seen on
        4.3.1 after a DELETE, where a GET some milliseconds after the PATCH still returned none.
        """
        return self.connect.committed_offset(self.connector, str(self.key["server"]))

    def write(self, raw: RawOffset | None) -> None:
        """Replace the value of the stopped connector; None removes it."""
        self.connect.alter_offsets(self.connector, self.key, raw)
