"""What is known about a kind of system before it is used: names, settings, and where its code is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from airflow_cdc.core.errors import needs
from airflow_cdc.core.pipeline import ConnectorSpec, ControlSpec, Pipeline, SinkSpec, SourceSpec, TransportSpec

if TYPE_CHECKING:
    from airflow_cdc.core.capture import ConfigRules
    from airflow_cdc.core.endpoint import DataEndpoint, Endpoint
    from airflow_cdc.core.offset import OffsetCodec
    from airflow_cdc.core.ports import Connector, ControlStore, Feeder, Sink, Source, Transport
    from airflow_cdc.core.position import ReadPosition
    from airflow_cdc.core.problem import Rules
    from airflow_cdc.core.setup import Setup
    from airflow_cdc.core.spark_jars import Need

T = TypeVar("T", covariant=True)  # noqa: PLC0105


class Hook(Protocol[T]):
    """What makes an endpoint of an Airflow connection, whose id it is called with (hooks/base.py)."""

    def endpoint(self) -> T: ...
    async def aendpoint(self) -> T: ...


@dataclass(frozen=True, slots=True)
class Lazy(Generic[T]):
    """An object named by "module:name"; the module is imported by the first `load()`.

    A module that begins with a dot is relative to `package`, usually the `__name__` of the declaring file. `extra`:
    the extra of this package that installs the module's imports; "": the plain install does.
    """

    path: str
    package: str = ""
    extra: str = ""

    def load(self) -> T:
        """The object. Raises ConfigError for a package that is not installed, ImportError or AttributeError otherwise."""
        module, _, name = self.path.partition(":")
        if not (self.package if module.startswith(".") else module).startswith("airflow_cdc"):
            return cast("T", getattr(import_module(module, self.package or None), name))
        with needs(self.extra):
            return cast("T", getattr(import_module(module, self.package or None), name))


Form: TypeAlias = "Lazy[dict[str, object]]"
JarsOf: TypeAlias = "Callable[..., tuple[Need, ...]]"
LazyRules: TypeAlias = "Lazy[Rules]"


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source database.

    Attributes:
        name: the value of `source.kind`.
        title: its name in texts for people.
        settings: the frozen dataclass of the keys allowed under `source`, each declared with its default.
        endpoint: the class of its address and credentials (core/endpoint.py).
        client: the class that reads such a server; called with its endpoint.
        hook: the Airflow hook that turns a connection into an endpoint.
        form: the connection type's form in Airflow; None: it is declared elsewhere.
        setup: the questions of `airflow cdc init` about it; None: such a part is written by hand.
        read_position: reads a position of such a server from JSON.
        rules: its rows of the diagnosis, its blockers of strategies, and its error messages.
        reader: Spark's reader of its rows (spark_apps.ports.RowReader), called with the client; None: it is only diagnosed.
        why_unread: why there is no reader.
        copies: Spark's reader of tables that others fill in such a server (spark_apps.ports.RowReader), called with the client.
        read_by: kinds of connector, by name, that read such a server without declaring it themselves. With this a
            source from another distribution brings the offsets and events of a connector that exists already.
    """

    name: str
    title: str
    settings: type[SourceSpec]
    endpoint: Lazy[Callable[..., DataEndpoint]]
    client: Lazy[Callable[..., Source]]
    hook: Lazy[Callable[[str], Hook[DataEndpoint]]]
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    read_position: Lazy[ReadPosition] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    rules: LazyRules | None = None
    reader: Lazy[Callable[..., object]] | None = None
    why_unread: str = ""
    copies: Lazy[Callable[..., object]] | None = None
    read_by: Mapping[str, Reads] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a connector knows about one kind of source.

    Attributes:
        codec: reads and writes the offset that the connector stores for such a source.
        decoder: its events as rows (spark_apps.ports.EventDecoder), called with the connector's settings; None: only diagnosed.
        writes: whether its events can be written, too, as corrections through the topics must be (INV 47).
    """

    codec: Lazy[Callable[[], OffsetCodec]] | None = None
    decoder: Lazy[Callable[..., object]] | None = None
    writes: bool = False


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """A kind of CDC engine.

    Attributes:
        client: the class that talks to it; called with its endpoint and the codec of the offsets that it stores.
        reads: the kinds of source that it reads, by name.
        through: the kinds of transport that it writes to, by name.
        config_rules: what its configuration does to names, keys and values.
        over_topics: called with (client, pipeline, transport's client): the client, or one that needs the transport, too.
        voice: how its log reads (decisions/diagnosis/pasted.Voice).
    """

    name: str
    title: str
    settings: type[ConnectorSpec]
    endpoint: Lazy[Callable[..., Endpoint]]
    client: Lazy[Callable[..., Connector]]
    hook: Lazy[Callable[[str], Hook[Endpoint]]]
    reads: Mapping[str, Reads]
    through: tuple[str, ...]
    config_rules: Lazy[ConfigRules]
    over_topics: Lazy[Callable[[Connector, Pipeline, Transport], Connector]] | None = None
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    rules: LazyRules | None = None
    voice: Lazy[Any] | None = None


@dataclass(frozen=True, slots=True)
class RegistryKind:
    """A schema registry beside a message system; `client` satisfies events.registry.Registry, called with the endpoint."""

    endpoint: Lazy[Callable[..., Endpoint]]
    client: Lazy[Any]
    hook: Lazy[Callable[[str], Hook[Endpoint]]]
    form: Form


@dataclass(frozen=True, slots=True)
class TransportKind:
    """A kind of message system between connector and sink.

    Attributes:
        hook: None if there is nothing to connect to.
        reader: Spark's reader of its records (spark_apps.ports.TopicReader), called with the client.
        registry: what `transport.registry` leads to; None: its records have no schemas elsewhere.
    """

    name: str
    title: str
    settings: type[TransportSpec]
    endpoint: Lazy[Callable[..., Endpoint]]
    client: Lazy[Callable[..., Transport]]
    hook: Lazy[Callable[[str], Hook[Endpoint]]] | None
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    rules: LazyRules | None = None
    reader: Lazy[Callable[..., object]] | None = None
    registry: RegistryKind | None = None


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A kind of sink.

    Attributes:
        hook: None if there is nothing to connect to.
        jars: what Spark needs for every such sink; `jars_of`: what it also needs for the sink at an endpoint.
        keeper: what maintains its tables (spark_apps.ports.TableKeeper), called with the client.
        control: the control store in such a sink (core/ports.ControlStore); called with its client. None: not possible.
        feeder: the sink connector that fills such a sink (core/ports.Feeder), called with the endpoint of the pipeline's connector
            and `sink.connector`. The sink's client is then called with (endpoint, the source client of the database
            that the endpoint names, feeder), or with (endpoint, feeder).
        folds: Spark's reader of logs that it appends to (spark_apps.ports.FoldsLog), called with (client, decoder).
        fed_by: the kinds of connector beside which such a sink connector runs, by name.
        publishes_with_spark: whether publishing writes rows, so that the step runs as a Spark application.
        spark: the release of Spark that it needs, such as "3.5"; "": the one that this package requires.
    """

    name: str
    title: str
    settings: type[SinkSpec]
    endpoint: Lazy[Callable[..., DataEndpoint]]
    client: Lazy[Callable[..., Sink]]
    hook: Lazy[Callable[[str], Hook[DataEndpoint]]] | None
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    jars_of: Lazy[JarsOf] | None = None
    rules: LazyRules | None = None
    stages: Lazy[Callable[..., object]] | None = None
    letters: Lazy[Callable[..., object]] | None = None
    keeper: Lazy[Callable[..., object]] | None = None
    control: Lazy[Callable[..., ControlStore]] | None = None
    feeder: Lazy[Callable[..., Feeder]] | None = None
    folds: Lazy[Callable[..., object]] | None = None
    fed_by: tuple[str, ...] = ()
    publishes_with_spark: bool = False
    spark: str = ""


@dataclass(frozen=True, slots=True)
class ControlKind:
    """A kind of control store. `client` opens the store (core/ports.ControlStore) at an endpoint."""

    name: str
    title: str
    settings: type[ControlSpec]
    endpoint: Lazy[Callable[..., Endpoint]]
    client: Lazy[Callable[..., ControlStore]]
    hook: Lazy[Callable[[str], Hook[Endpoint]]]
    form: Form | None = None
    setup: Lazy[Setup] | None = None


AnyKind: TypeAlias = SourceKind | ConnectorKind | TransportKind | SinkKind
Named: TypeAlias = AnyKind | ControlKind
