"""What is known of a kind of system before it is used: names, settings, and where its code is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from airflow_cdc.core.extras import needs
from airflow_cdc.core.pipeline import ConnectorSpec, ControlSpec, SinkSpec, SourceSpec, TransportSpec

if TYPE_CHECKING:
    from airflow_cdc.core.capture import ConfigRules
    from airflow_cdc.core.position import ReadPosition
    from airflow_cdc.core.problem import Rules
    from airflow_cdc.core.setup import Setup
    from airflow_cdc.core.spark_jars import Need

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lazy(Generic[T]):
    """An object named by "module:name"; the module is imported by the first `load()`.

    A module that begins with a dot is relative to `package`, usually the `__name__` of the file that writes it. `extra`:
    the extra of this package that brings what the module imports; "": the plain install does.
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


Form: TypeAlias = "Lazy[dict[str, Any]]"
JarsOf: TypeAlias = "Callable[[Any], tuple[Need, ...]]"
LazyRules: TypeAlias = "Lazy[Rules]"


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source database.

    Attributes:
        name: the value of `source.kind`.
        title: its name in texts for people.
        settings: the frozen dataclass of the keys that may stand below `source`, each declared with its default.
        endpoint: the class of its address and credentials (core/endpoint.py).
        client: the class that reads such a server; called with its endpoint.
        hook: the Airflow hook that makes an endpoint of a connection.
        form: the connection type's form in Airflow; None: it is declared elsewhere.
        setup: what `airflow cdc init` asks about it; None: such a part is written by hand.
        read_position: reads a position of such a server from JSON.
        rules: its rows of the diagnosis, what blocks a strategy there, and what its errors say.
        reader: what Spark reads its rows with (spark_apps.ports.RowReader), called with the client; None: nothing does, so
            the server is diagnosed and not recovered.
        why_unread: why there is no reader.
        read_by: kinds of connector, by name, that read such a server and do not know it themselves: how a source of another
            distribution comes with the offsets and events of a connector that is there already.
    """

    name: str
    title: str
    settings: type[SourceSpec]
    endpoint: Lazy[Any]
    client: Lazy[Any]
    hook: Lazy[Any]
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    read_position: Lazy[ReadPosition] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    rules: LazyRules | None = None
    reader: Lazy[Any] | None = None
    why_unread: str = ""
    read_by: Mapping[str, Reads] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reads:
    """What a connector knows of one kind of source.

    Attributes:
        codec: reads and writes the offset that the connector stores for such a source.
        decoder: makes rows of its events (spark_apps.ports.EventDecoder), called with the connector's settings; None: such a pipeline is diagnosed, and not recovered.
    """

    codec: Lazy[Any] | None = None
    decoder: Lazy[Any] | None = None


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """A kind of CDC engine.

    Attributes:
        client: the class that talks to it; called with its endpoint and the codec of the offsets that it stores.
        reads: the kinds of source that it reads, by name.
        through: the kinds of transport that it writes to, by name.
        config_rules: what its configuration does to names, keys and values.
    """

    name: str
    title: str
    settings: type[ConnectorSpec]
    endpoint: Lazy[Any]
    client: Lazy[Any]
    hook: Lazy[Any]
    reads: Mapping[str, Reads]
    through: tuple[str, ...]
    config_rules: Lazy[ConfigRules]
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    rules: LazyRules | None = None


@dataclass(frozen=True, slots=True)
class TransportKind:
    """A kind of message system between connector and sink.

    Attributes:
        reader: what Spark reads its records with (spark_apps.ports.TopicReader), called with the client.
    """

    name: str
    title: str
    settings: type[TransportSpec]
    endpoint: Lazy[Any]
    client: Lazy[Any]
    hook: Lazy[Any]
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    rules: LazyRules | None = None
    reader: Lazy[Any] | None = None


@dataclass(frozen=True, slots=True)
class SinkKind:
    """A kind of sink.

    Attributes:
        hook: None where there is nothing to connect to.
        jars: what Spark needs for every such sink; `jars_of`: what it needs besides for the one at an endpoint.
        keeper: what maintains its tables (spark_apps.ports.TableKeeper), called with the client.
        control: the control store in such a sink (core/ports.ControlStore); called with its client. None: it can keep none.
    """

    name: str
    title: str
    settings: type[SinkSpec]
    endpoint: Lazy[Any]
    client: Lazy[Any]
    hook: Lazy[Any] | None
    form: Form | None = None
    setup: Lazy[Setup] | None = None
    jars: Lazy[tuple[Need, ...]] | None = None
    jars_of: Lazy[JarsOf] | None = None
    rules: LazyRules | None = None
    stages: Lazy[Any] | None = None
    letters: Lazy[Any] | None = None
    keeper: Lazy[Any] | None = None
    control: Lazy[Any] | None = None


@dataclass(frozen=True, slots=True)
class ControlKind:
    """A kind of control store.

    Attributes:
        client: makes a store (core/ports.ControlStore) of its endpoint.
    """

    name: str
    title: str
    settings: type[ControlSpec]
    endpoint: Lazy[Any]
    client: Lazy[Any]
    hook: Lazy[Any]
    form: Form | None = None
    setup: Lazy[Setup] | None = None


AnyKind: TypeAlias = SourceKind | ConnectorKind | TransportKind | SinkKind
Named: TypeAlias = AnyKind | ControlKind
