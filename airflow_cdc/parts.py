"""The parts of one pipeline: their endpoints, and a client of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_cdc.alerting.circuit import Circuits, guard
from airflow_cdc.core.endpoint import CallLimits, DataEndpoint, Endpoint, secrets_in
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.ports import Client, Connector, ControlStore, Feeder, Sink, Source, Transport
from airflow_cdc.core.secrets import remember
from airflow_cdc.fields import Fields
from airflow_cdc.kinds import CONNECTORS, CONTROLS, SINKS, SOURCES, TRANSPORTS, WINGS, reads_of

if TYPE_CHECKING:
    from airflow_cdc.control.control import Control
    from airflow_cdc.core.offset import OffsetCodec
    from airflow_cdc.events.registry import Registry

C = TypeVar("C", bound=Client)

_WINGS = {"source": "sources", "connector": "connectors", "transport": "transports", "sink": "sinks"}
_CONTROL = "control"
_REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses and credentials of a pipeline's parts. Written only to a file of mode 0600.

    `replicas`: servers of the source's kind, by the connections that `source.replicas` names. `control`: the control
    store's endpoint, if it is not the sink. `registry`: that of the schemas of its records, if `transport.registry` names it.
    """

    source: DataEndpoint
    connector: Endpoint
    transport: Endpoint
    sink: DataEndpoint
    replicas: Mapping[str, DataEndpoint] = field(default_factory=dict)
    control: Endpoint | None = None
    registry: Endpoint | None = None

    def __post_init__(self) -> None:
        own = (getattr(self, part) for part in _WINGS)
        for endpoint in (*own, *self.replicas.values(), self.control, self.registry):
            remember(secrets_in(endpoint))

    def limited(self, limits: CallLimits) -> Endpoints:
        """A copy with these limits on each call."""
        return Endpoints(
            self.source.limited(limits),
            self.connector.limited(limits),
            self.transport.limited(limits),
            self.sink.limited(limits),
            {conn_id: replica.limited(limits) for conn_id, replica in self.replicas.items()},
            self.control.limited(limits) if self.control else None,
            self.registry.limited(limits) if self.registry else None,
        )

    def to_json(self, pipeline: Pipeline) -> dict[str, object]:
        """Plain JSON, each endpoint with its kind, and with the credentials: for a driver's settings, never for a log."""
        parts = {part: _to_json(getattr(pipeline, part).kind, getattr(self, part)) for part in _WINGS}
        replicas = {conn_id: _to_json(pipeline.source.kind, one) for conn_id, one in self.replicas.items()}
        apart = {_CONTROL: _to_json(pipeline.control.kind, self.control)} if pipeline.control and self.control else {}
        if self.registry:
            apart[_REGISTRY] = _to_json(pipeline.transport.kind, self.registry)
        return {**parts, "replicas": replicas, **apart}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Endpoints:
        """The inverse of to_json(); it contains the kinds."""
        fields, servers = Fields(value), Fields.of(value["replicas"])
        parts = {part: _from_json(wing, Fields.of(value[part])) for part, wing in _WINGS.items()}
        replicas = {name: _from_json("sources", servers.inner(name)) for name in servers}
        control, registry = fields.inner(_CONTROL), fields.inner(_REGISTRY)
        return cls(
            **parts,
            replicas=replicas,
            control=_from_json("controls", control) if control else None,
            registry=_registry_from_json(registry) if registry else None,
        )


def _to_json(kind: str, endpoint: Endpoint) -> dict[str, object]:
    return {"kind": kind, **asdict(endpoint)}


def _from_json(wing: str, value: Fields) -> Any:
    kind = WINGS[wing][value.text("kind")]
    return kind.endpoint.load()(**{key: setting for key, setting in value.items() if key != "kind"})


def _registry_from_json(value: Fields) -> Endpoint:
    kind = TRANSPORTS[value.text("kind")].registry
    if kind is None:
        raise ConfigError(
            f"transport.kind {value['kind']} has no schema registry",
            todo="Take the registry out of the pipeline's transport.",
        )
    return kind.endpoint.load()(**{key: setting for key, setting in value.items() if key != "kind"})


@dataclass(frozen=True, slots=True)
class Parts:
    """One client per part of a pipeline, and one per named replica. Creating them opens no connection.

    `registry`: the one that `transport.registry` names. `feeder`: the sink connector, if one fills the sink.
    """

    source: Source
    connector: Connector
    transport: Transport
    sink: Sink
    control: Control
    replicas: Mapping[str, Source] = field(default_factory=dict)
    registry: Registry | None = None
    feeder: Feeder | None = None

    def limited(self, limits: CallLimits, circuits: Circuits) -> Parts:
        """A copy whose calls are limited by `limits` and go through their endpoint's circuit breaker."""

        def guarded(client: C) -> C:
            return guard(client.limited(limits), client.where, circuits)

        return Parts(
            source=guarded(self.source),
            connector=guarded(self.connector),
            transport=guarded(self.transport),
            sink=guarded(self.sink),
            control=guard(self.control, self.control.endpoint, circuits),
            replicas={conn_id: guarded(replica) for conn_id, replica in self.replicas.items()},
            registry=None if self.registry is None else guarded(self.registry),
            feeder=None if self.feeder is None else guarded(self.feeder),
        )


def open_parts(pipeline: Pipeline, endpoints: Endpoints) -> Parts:
    """Create a client for each part of `pipeline`."""
    # importing PyIceberg costs a fifth of parsing all DAGs, and every DAG file imports this module
    from airflow_cdc.control.control import Control

    source = SOURCES[pipeline.source.kind].client.load()
    feeder = _feeder(pipeline, endpoints)
    sink = _sink(pipeline, endpoints, feeder)
    codec = reads_of(pipeline).codec
    if codec is None:
        raise ConfigError(
            f"offsets of a {pipeline.source.kind} source cannot be read",
            where=f"pipeline {pipeline.name}, key source.kind",
            todo="Pair this source with a connector whose offsets of it are read: the list of kinds names them.",
        )
    transport = TRANSPORTS[pipeline.transport.kind].client.load()(endpoints.transport)
    return Parts(
        source=source(endpoints.source),
        connector=_connector(pipeline, endpoints, codec.load()(), transport),
        transport=transport,
        sink=sink,
        control=Control(_control_store(pipeline, endpoints, sink), pipeline.name),
        replicas={conn_id: source(endpoint) for conn_id, endpoint in endpoints.replicas.items()},
        registry=_registry(pipeline, endpoints),
        feeder=feeder,
    )


def _feeder(pipeline: Pipeline, endpoints: Endpoints) -> Feeder | None:
    """The sink connector, on the engine of the pipeline's own connector."""
    kind = SINKS[pipeline.sink.kind].feeder
    if kind is None:
        return None
    return kind.load()(endpoints.connector, pipeline.sink.feeder)


def _sink(pipeline: Pipeline, endpoints: Endpoints, feeder: Feeder | None) -> Sink:
    """The sink's client; a database that a sink connector fills is read as a source of that database's kind."""
    client = SINKS[pipeline.sink.kind].client.load()
    if feeder is None:
        return client(endpoints.sink)
    sink: Any = endpoints.sink
    if not pipeline.sink.read_as:
        return client(sink, feeder)
    database = SOURCES[sink.database]
    reader = database.client.load()(database.endpoint.load()(**sink.server))
    # the source's database, where its tables' schemas are within one
    return client(sink, reader, feeder, getattr(endpoints.source, "database", ""))


def _registry(pipeline: Pipeline, endpoints: Endpoints) -> Registry | None:
    kind = TRANSPORTS[pipeline.transport.kind].registry
    if kind is None or endpoints.registry is None:
        return None
    made: Registry = kind.client.load()(endpoints.registry)
    return made


def _connector(pipeline: Pipeline, endpoints: Endpoints, codec: OffsetCodec, transport: Transport) -> Connector:
    kind = CONNECTORS[pipeline.connector.kind]
    made = kind.client.load()(endpoints.connector, codec)
    return kind.over_topics.load()(made, pipeline, transport) if kind.over_topics else made


def _control_store(pipeline: Pipeline, endpoints: Endpoints, sink: object) -> ControlStore:
    """The store that the pipeline names, or else the one in its sink. Raises ConfigError if there is neither."""
    if pipeline.control is not None:
        return CONTROLS[pipeline.control.kind].client.load()(endpoints.control)
    kind = SINKS[pipeline.sink.kind]
    if kind.control is None:
        raise ConfigError(
            f"{kind.title} keeps no control document",
            where=f"pipeline {pipeline.name}, key control",
            todo="Add `control: {kind: sql, conn_id: …}`: a database that keeps it.",
        )
    return kind.control.load()(sink)
