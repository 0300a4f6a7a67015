"""The clients of one pipeline, and the addresses they are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.systems.kafka import KafkaEndpoint, KafkaTransport
from airflow_cdc.systems.kafka_connect import ConnectEndpoint, KafkaConnect
from airflow_cdc.systems.mysql import MySqlEndpoint, MySqlSource

if TYPE_CHECKING:
    from airflow_cdc.systems.control import Control
    from airflow_cdc.systems.lake import Lake


@dataclass(frozen=True, slots=True)
class LakeEndpoint:
    """An Iceberg catalog: its name and its PyIceberg properties (which may hold credentials)."""

    name: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses and credentials of one pipeline's systems. Only ever written to a file of mode 0600."""

    mysql: MySqlEndpoint
    connect: ConnectEndpoint
    kafka: KafkaEndpoint
    lake: LakeEndpoint
    replicas: Mapping[str, MySqlEndpoint] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A plain dict with the credentials in it: for the settings file of a Spark driver, never for a log."""
        value = {name: asdict(getattr(self, name)) for name in ("mysql", "connect", "kafka", "lake")}
        return {**value, "replicas": {conn_id: asdict(endpoint) for conn_id, endpoint in self.replicas.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Endpoints:
        return cls(
            MySqlEndpoint(**data["mysql"]),
            ConnectEndpoint(**data["connect"]),
            KafkaEndpoint(**data["kafka"]),
            LakeEndpoint(**data["lake"]),
            {conn_id: MySqlEndpoint(**endpoint) for conn_id, endpoint in (data.get("replicas") or {}).items()},
        )


@dataclass(frozen=True, slots=True)
class Clients:
    """One client per outside system of a pipeline, and one per named replica. Making them connects to nothing."""

    source: MySqlSource
    connector: KafkaConnect
    transport: KafkaTransport
    lake: Lake
    control: Control
    replicas: Mapping[str, MySqlSource] = field(default_factory=dict)


def open_clients(pipeline: Pipeline, endpoints: Endpoints) -> Clients:
    """Make the clients of `pipeline` from its resolved endpoints."""
    # PyIceberg costs a fifth of parsing all DAGs, and every DAG file imports this module
    from airflow_cdc.systems.control import Control
    from airflow_cdc.systems.lake import Lake

    lake = Lake(endpoints.lake.name, dict(endpoints.lake.properties))
    return Clients(
        source=MySqlSource(endpoints.mysql),
        connector=KafkaConnect(endpoints.connect),
        transport=KafkaTransport(endpoints.kafka),
        lake=lake,
        control=Control(lake, pipeline.name),
        replicas={conn_id: MySqlSource(endpoint) for conn_id, endpoint in endpoints.replicas.items()},
    )
