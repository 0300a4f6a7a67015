"""The clients of one pipeline, and the addresses they are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_cdc.connectors import debezium
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.circuit import Circuits, guard
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.sources import mariadb, mysql
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport

if TYPE_CHECKING:
    from airflow_cdc.control.control import Control
    from airflow_cdc.sinks.iceberg.client import Lake


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

    def bounded(self, seconds: float) -> Endpoints:
        """The same systems, each of which has so long to answer: for a command that a person waits for."""
        return replace(
            self,
            mysql=replace(self.mysql, connect_timeout=min(seconds, self.mysql.connect_timeout)),
            connect=replace(
                self.connect,
                timeout=min(seconds, self.connect.timeout),
                retry_for=min(seconds, self.connect.retry_for),
            ),
            kafka=replace(self.kafka, timeout=min(seconds, self.kafka.timeout)),
        )

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
class CallLimits:
    """How long one call may take, in seconds, where it is soon made again by itself.

    Measured against a worker that is gone, a look took 66 s: 60 s are Connect's own retries, for calls that nobody repeats.
    Brokers get longer, because a call of theirs may read a whole topic of table definitions.
    """

    answer: float = 5.0
    retry: float = 1.0
    read: float = 10.0
    topic: float = 15.0


@dataclass(frozen=True, slots=True)
class Clients:
    """One client per outside system of a pipeline, and one per named replica. Making them connects to nothing."""

    source: MySqlSource
    connector: DebeziumConnector
    transport: KafkaTransport
    lake: Lake
    control: Control
    replicas: Mapping[str, MySqlSource] = field(default_factory=dict)

    def limited(self, limits: CallLimits, circuits: Circuits) -> Clients:
        """The same systems, each call bounded by `limits` and asked through the circuit of its endpoint."""
        connect, kafka = self.connector.endpoint, self.transport.endpoint
        connect = replace(connect, timeout=min(connect.timeout, limits.answer), retry_for=limits.retry)
        kafka = replace(kafka, timeout=min(kafka.timeout, limits.topic))
        catalog = f"catalog {self.lake.name}"
        return Clients(
            source=guard(_limited_source(self.source, limits), self.source.where, circuits),
            connector=guard(DebeziumConnector(connect, self.connector.codec), connect.where, circuits),
            transport=guard(KafkaTransport(kafka), kafka.where, circuits),
            lake=guard(self.lake, catalog, circuits),
            control=guard(self.control, catalog, circuits),
            replicas={
                conn_id: guard(_limited_source(replica, limits), replica.where, circuits)
                for conn_id, replica in self.replicas.items()
            },
        )


def _limited_source(source: MySqlSource, limits: CallLimits) -> MySqlSource:
    own = source.endpoint
    connect, quick = min(own.connect_timeout, limits.answer), min(own.quick_read, limits.read)
    return type(source)(replace(own, connect_timeout=connect, quick_read=quick))


_SOURCES = {kind.name: kind for kind in (mysql.KIND, mariadb.KIND)}


def _codec_of(pipeline: Pipeline) -> OffsetCodec:
    reads = debezium.KIND.reads[pipeline.source.kind]
    if reads.codec is None:
        raise ConfigError(f"{pipeline.connector.kind} stores no offset of a {pipeline.source.kind} source")
    codec: OffsetCodec = reads.codec.load()()
    return codec


def open_clients(pipeline: Pipeline, endpoints: Endpoints) -> Clients:
    """Make the clients of `pipeline` from its resolved endpoints."""
    # PyIceberg costs a fifth of parsing all DAGs, and every DAG file imports this module
    from airflow_cdc.control.control import Control
    from airflow_cdc.sinks.iceberg.client import Lake
    from airflow_cdc.sinks.iceberg.control import IcebergControlStore

    source: type[MySqlSource] = _SOURCES[pipeline.source.kind].client.load()
    codec = _codec_of(pipeline)
    lake = Lake(endpoints.lake.name, dict(endpoints.lake.properties))
    return Clients(
        source=source(endpoints.mysql),
        connector=DebeziumConnector(endpoints.connect, codec),
        transport=KafkaTransport(endpoints.kafka),
        lake=lake,
        control=Control(IcebergControlStore(lake), pipeline.name),
        replicas={conn_id: MySqlSource(endpoint) for conn_id, endpoint in endpoints.replicas.items()},
    )
