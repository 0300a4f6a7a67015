"""Facts read from source, connector, transport, sink and control at one time.

Each part may be Unknown, which means neither healthy nor lost. Nothing destructive is done on an Unknown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_cdc.core.codec import Moment
from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.forecast import Margin, PurgeForecast, Retention
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.core.xa import XaState

if TYPE_CHECKING:
    from airflow_cdc.core.errors import CdcError
    from airflow_cdc.core.feeder import FeederFacts
    from airflow_cdc.core.offset import StoredOffset
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.core.position import Available, JsonObject, Position
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be read, and why (one line, no secrets)."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts(ABC):
    """Facts that every source server has; each kind of source adds its own.

    Attributes:
        address: host:port of the connection it was read through.
        identity: the name by which a later look knows this very server again; "" if it has none.
        retention: None where it cannot be read.
        cascades: foreign keys of captured tables whose changes this server does not log, "child (parent)".
        missing_privileges: privileges that a recovery needs and the user lacks, "PRIVILEGE on what".
        replicas_seen: replicas and connectors that read its log now, as it lists them; how to log in there is not known.
    """

    version: str
    uptime_s: int
    address: str = ""
    identity: str = ""
    retention: Retention | None = None
    cascades: tuple[str, ...] = ()
    missing_privileges: tuple[str, ...] = ()
    replicas_seen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("cascades", "missing_privileges", "replicas_seen"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    @abstractmethod
    def server(self) -> str:
        """How evidence names the server."""

    @property
    @abstractmethod
    def log_faults(self) -> Mapping[str, str]:
        """Setting → its value and the required one, for settings that cost the log rows or parts of rows (INV 31)."""

    @property
    @abstractmethod
    def oldest(self) -> str | None:
        """Where the log begins, as text for people; None if unknown."""

    @property
    @abstractmethod
    def newest(self) -> str:
        """Where the log ends, as text for people."""

    @property
    @abstractmethod
    def more_to_read(self) -> bool:
        """Whether a change is known to follow the position that the server was asked about."""

    @abstractmethod
    def available(self, position: Position) -> Available:
        """The single judge of whether a connector at this position would still find every later change, by these facts.

        Raises PositionError for a position of another kind of source.
        """

    @abstractmethod
    def read_all(self, position: Position) -> bool:
        """Whether a connector at this position has read all of the log."""

    @abstractmethod
    def behind(self, position: Position) -> int | None:
        """How many transactions, at most, a connector at this position has not read yet; None: unknown."""

    @abstractmethod
    def margin(self, position: Position) -> Margin | None:
        """How much of the log may be purged before the position is lost; None if unknown."""

    @abstractmethod
    def purge_forecast(self, position: Position) -> PurgeForecast | None:
        """How long at least the position stays available; None if unknown."""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """A replica of the source, named in the registry, from which a connector could read for a while.

    `conn_id` is its Airflow connection; `address` is that connection's host:port.
    """

    conn_id: str
    address: str


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of a connector; `trace` is its stack trace or ""."""

    id: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector's reported state and its tasks' states; `trace` is its own stack trace or ""."""

    state: str
    tasks: tuple[TaskState, ...] = ()
    trace: str = ""

    @property
    def running(self) -> bool:
        """Whether it runs with at least one task, and all its tasks run."""
        return bool(self.tasks) and {self.state, *(task.state for task in self.tasks)} == {"RUNNING"}

    @property
    def failures(self) -> tuple[str, ...]:
        """The traces of everything that is FAILED: the connector itself or tasks."""
        parts = ((self.state, self.trace), *((task.state, task.trace) for task in self.tasks))
        return tuple(trace for state, trace in parts if state == "FAILED")


class Capture(Protocol):
    """A connector's settings, read once: their effect on names, keys and values. Only its own kind knows the rest."""

    @property
    def prefix(self) -> str:
        """The prefix of its topics' names, under which its offset is stored too."""
        ...

    @property
    def history_topic(self) -> str | None:
        """The topic of its table definitions; None if they are kept elsewhere."""
        ...

    @property
    def heartbeat_topic(self) -> str:
        """The topic of its heartbeats."""
        ...

    def topic_of(self, table: str) -> str:
        """The topic with the changes of "schema.table". Raises ConfigError if it can't be named."""
        ...

    @property
    def rows_refused(self) -> CdcError | None:
        """Why no table's rows can be taken from its events; None if they can. Says nothing about its position."""
        ...

    def check_table(self, table: Table) -> None:
        """Refuse a table whose rows are not carried unchanged (INV 21). Raises SchemaError or ConfigError."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """The connector. `config` holds no secrets; `offset` is the stored one, None while there is none.

    Attributes:
        key: the key of its stored offset; None if nothing is stored.
        other_keys: further keys under which this connector has an offset; it reads none of them.
        elsewhere: topic → an offset kept there for this connector that differs from `offset`.
        stands_still: for how many seconds it reported RUNNING and its source had more changes, but its offset stayed
            and no event arrived; 0 if that was not observed.
        address: host:port from which it reads its source; "" if unknown.
        heartbeats: whether it commits its position even while no captured table changes.
        capture: its settings; None if they are not supported, and `capture_fault` says why.
        sent: the transactions of the newest events in its topics, as the events name them; read only while it rests
            with an offset inside a transaction.
        offset_unseen: why its stored offset can't be read where it is kept, although the connector itself can be; ""
            if it can be read, or if there is none.
    """

    state: str
    tasks: tuple[TaskState, ...]
    config: Mapping[str, str]
    offset: StoredOffset | None
    key: JsonObject | None
    offsets_count: int
    other_keys: tuple[JsonObject, ...] = ()
    elsewhere: Mapping[str, JsonObject] = field(default_factory=dict)
    stands_still: float = 0.0
    address: str = ""
    heartbeats: bool = False
    capture: Capture | None = None
    capture_fault: CdcError | None = None
    sent: tuple[str, ...] = ()
    offset_unseen: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "sent", tuple(self.sent))
        object.__setattr__(self, "config", dict(self.config))
        object.__setattr__(self, "other_keys", tuple(dict(one) for one in self.other_keys))
        object.__setattr__(self, "elsewhere", {topic: dict(value) for topic, value in self.elsewhere.items()})


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """The topics, by name; `of_table` is table → topic, `configs` topic → setting → value.

    `unnamed`: why the topics of the tables can't be named, so that nothing is known of them; "" if they can.
    """

    topics: Mapping[str, TopicState]
    of_table: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unnamed: str = ""


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """The connector's schema history.

    Attributes:
        topic: its topic; `state` is None if that does not exist.
        records: the number of its records.
        differences: table → how its newest definition differs from the source's.
        snapshot_at: when the connector last wrote it from a snapshot, ISO time; "": never.
    """

    topic: str
    state: TopicState | None = None
    records: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    snapshot_at: str = ""


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The captured tables as the source defines them and as the connector knows them; `history` None: kept elsewhere.

    `defaults`: table → column → its default at the source (None: none).
    """

    definitions: Mapping[str, Table] = field(default_factory=dict)
    history: HistoryFacts | None = None
    defaults: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherCommit:
    """Another program's commit to a table that we write: its version, epoch seconds, and what made it ("spark"; "": unknown)."""

    version: int
    at: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class SinkTableFacts:
    """One sink table: `head` is main's snapshot id, `rows` its number of rows if counted.

    `stamp` is the newest on main or, where snapshot expiry removed it, its mirror in the control table; `stamped_at` is
    when it was committed, in epoch seconds, None for a mirror. `other`: the newest commit of another program since the
    table's rows were last read from the source, as far as commits are kept.
    """

    exists: bool
    head: int | None = None
    stamp: Stamp | None = None
    rows: int | None = None
    stamped_at: float | None = None
    other: OtherCommit | None = None


@dataclass(frozen=True, slots=True)
class Ahead:
    """Messages that wait in front of a topic that ends at `end`: `count` now, `seen` of them since `since` (ISO)."""

    count: int
    seen: int
    since: Moment
    end: TopicOffsets


@dataclass(frozen=True, slots=True)
class Shown:
    """The clock by which events have their times showed `ms` (epoch) when it was last seen, and has not been seen since `since` (ISO)."""

    ms: int
    since: Moment


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """The sink tables, by the full name of their source table ("shop.orders").

    `late`: table → how many of its events have waited for longer than the policy's max_lag, in the topic or in front of it.
    `differs`: the tables that a comparison found to differ from the source, and none has proven equal since.
    `clock`: by which `late` was counted; None if it was not asked.
    """

    tables: Mapping[str, SinkTableFacts]
    late: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, Ahead] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    clock: Shown | None = None


@dataclass(frozen=True, slots=True)
class RefusedTable:
    """A table that apply stopped because of DDL: why, since when (ISO), how many re-reads of it were tried.

    `stamp`: the table's stamp since then, as JSON. If the table has another one, it was published again, and this
    record no longer holds.
    """

    why: str = ""
    at: str = ""
    tries: int = 0
    stamp: object = None


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """What a diagnosis knows of the open recovery. Reading it never fails: even a partly unreadable recovery is open.

    Attributes:
        opened_at: ISO time. problem, strategy: codes; each "" if the document does not say.
        tables: full names. offset_kept: the recovery leaves the connector's offset as it is.
    """

    run_id: str
    opened_at: str = ""
    problem: str = ""
    strategy: str = ""
    tables: tuple[str, ...] = ()
    offset_kept: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OpenFacts:
        """From the open recovery in the control document."""
        texts = {key: str(value.get(key) or "") for key in ("run_id", "opened_at", "problem", "strategy")}
        return cls(**texts, tables=tuple(value.get("tables") or ()), offset_kept=bool(value.get("offset_kept")))


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The pipeline's control table: its epoch, the open recovery and the lease, if any.

    Attributes:
        closed_at: when the last recovery was closed, ISO time; "" if none was.
        read_seconds: how long the last recovery read the source; None if unknown.
        servers: server_uuids that the connector was seen reading from, or moved to without a re-read.
        epochs: table → the epoch that its stamp must have, for tables with an epoch of their own (`core.epochs`).
        abandoned: table → {at, who, reason, run_id}, for tables that were given up and not recovered since.
        refused: table → why and when apply stopped it because of DDL, and its stamp since then.
        apply_error: the error of the newest apply; "" if it did not fail, or if no apply is recorded.
        compared_xa: table → the source's XA state before the table's last comparison.
    """

    epoch: int
    recovery: OpenFacts | None = None
    lease: Lease | None = None
    closed_at: str = ""
    read_seconds: float | None = None
    servers: tuple[str, ...] = ()
    abandoned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: Mapping[str, RefusedTable] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    apply_error: str = ""
    compared_xa: Mapping[str, XaState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", tuple(self.servers))
        object.__setattr__(self, "epochs", dict(self.epochs))
        object.__setattr__(self, "compared_xa", dict(self.compared_xa))
        object.__setattr__(self, "abandoned", {table: dict(note) for table, note in self.abandoned.items()})

    @property
    def required(self) -> Epochs:
        """The epoch of each table."""
        return Epochs(self.epoch, self.epochs)


@dataclass(frozen=True, slots=True)
class Observation:
    """All parts at one time (`taken_at`, ISO).

    Read the connector before the source. Then its offset cannot be ahead of the server facts merely because a
    transaction was committed between the two reads. Read `schema` between the two, so that the server's position covers
    the definitions. `replicas` (connection → facts) are read only if the source has purged what the connector needs; an
    unreadable replica does not make the diagnosis UNKNOWN. `feeder`: the sink connector; None if there is none.
    """

    pipeline: Pipeline
    taken_at: str
    source: SourceFacts | Unknown
    connector: ConnectorFacts | Unknown
    transport: TransportFacts | Unknown
    sink: SinkFacts | Unknown
    control: ControlFacts | Unknown
    schema: SchemaFacts | Unknown = field(default=SchemaFacts())
    replicas: Mapping[str, ReplicaFacts | Unknown] = field(default_factory=dict)
    feeder: FeederFacts | Unknown | None = None

    @property
    def unknowns(self) -> dict[str, str]:
        """The parts that could not be read, with the reason of each."""
        parts = ("source", "connector", "transport", "sink", "control", "schema", "feeder")
        read = {part: getattr(self, part) for part in parts}
        return {part: fact.reason for part, fact in read.items() if isinstance(fact, Unknown)}
