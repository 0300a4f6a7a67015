"""Facts read from source, connector, transport, sink and control at one time.

Each part may be Unknown: that is neither healthy nor lost, and nothing destructive follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.topics import TopicState
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition, MariaDbState
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition

if TYPE_CHECKING:
    from airflow_cdc.core.apply.stamp import Stamp
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.core.table import Table


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be read, and why (one line, no secrets)."""

    reason: str


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """One file of SHOW BINARY LOGS; `size` in bytes."""

    name: str
    size: int


class Place(StrEnum):
    """What a position in a log file is."""

    BOUNDARY = "boundary"  # an event begins there, or the file ends there
    INSIDE = "inside"  # no event begins there, or the one that does is cut off


@dataclass(frozen=True, slots=True)
class LogLook:
    """What the server's own log holds at the connector's stored position.

    Attributes:
        place: whether an event begins there.
        events: types of the next few events; () at the end of the file.
        said: the server's words when it could not read an event there, else "".
    """

    place: Place
    events: tuple[str, ...] = ()
    said: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))

    @property
    def read_to_the_end(self) -> bool:
        """True if no transaction follows in this file."""
        passing = {"format_desc", "previous_gtids", "gtid_list", "binlog_checkpoint", "rotate", "stop"}
        return self.place is Place.BOUNDARY and all(event.lower() in passing for event in self.events)


@dataclass(frozen=True, slots=True)
class Retention:
    """When the server removes log files by itself.

    A file goes at the first rotation (or restart) after it has not been written to for `expire_s` seconds; 0: never.
    `written_until` is when the stored position's file was closed, in epoch seconds; None while it is the newest file,
    or where that cannot be read. `now` is the server's clock, in epoch seconds.
    """

    expire_s: int
    now: float
    written_until: float | None = None


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """What a MariaDB server says of its GTIDs.

    Attributes:
        logged: gtid_binlog_state.
        purged: the place at which its oldest log file begins: what is at or before it, no file holds any more.
        begins: the place at which the file of the connector's position begins; None if it is not there.
    """

    logged: MariaDbState
    purged: MariaDbPosition
    begins: MariaDbPosition | None = None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source server. The GTID fields are None where the server has no GTIDs.

    Attributes:
        server_uuid: "" on a server without one (MariaDB): then nothing tells whose data it is.
        address: host:port of the connection it was read through.
        gtid_owned: transactions under way, read before `gtid_executed`.
        at_offset: what stands at the connector's position; None if its file is not there or may not be looked into.
        retention: None where it cannot be read.
        cascades: foreign keys of captured tables whose changes this server does not log, "child (parent)".
        missing_privileges: what the user lacks and a recovery needs, "PRIVILEGE on what".
        replicas_seen: servers that replicate from it now, as it lists them; no way to log in there is known from that.
        domains: MariaDB's GTIDs; None on a server of another make, or without a log.
        no_recovery: why no recovery can read this server; "" where one can.
        xa: its XA transactions; None where they were not asked for.
        log_filters: what keeps changes, or parts of rows, out of its log, in the server's own words.
    """

    server_uuid: str
    server_id: int
    version: str
    gtid_mode: str | None
    gtid_executed: GtidSet | None
    gtid_purged: GtidSet | None
    binlog_files: tuple[BinlogFile, ...]
    current: BinlogPosition
    log_bin: bool
    binlog_format: str
    row_image: str
    uptime_s: int
    address: str = ""
    gtid_owned: GtidSet | None = None
    at_offset: LogLook | None = None
    retention: Retention | None = None
    cascades: tuple[str, ...] = ()
    missing_privileges: tuple[str, ...] = ()
    replicas_seen: tuple[str, ...] = ()
    domains: DomainFacts | None = None
    no_recovery: str = ""
    log_filters: tuple[str, ...] = ()
    xa: XaState | None = None

    def __post_init__(self) -> None:
        for name in ("binlog_files", "cascades", "missing_privileges", "replicas_seen", "log_filters"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def log_faults(self) -> dict[str, str]:
        """Setting → its value and the one it must have, for all by which the log lacks rows or parts of them (INV 31)."""
        log_bin = "ON" if self.log_bin else "OFF"
        wanted = (
            ("log_bin", log_bin, "ON"),
            ("binlog_format", self.binlog_format, "ROW"),
            ("binlog_row_image", self.row_image, "FULL"),
        )
        wrong = {name: f"{value}, must be {right}" for name, value, right in wanted if value.upper() != right}
        kept_out = [text.partition(" ") for text in self.log_filters]
        return {**wrong, **{name: f"{value}, must be empty" for name, _, value in kept_out}}

    @property
    def newest_file(self) -> str:
        """The file that is written to; "" without a log."""
        return self.binlog_files[-1].name if self.binlog_files else ""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """A replica of the source that the registry names, as a place where a connector could read for a while.

    Attributes:
        conn_id: its Airflow connection; `address` is that connection's host:port.
        sources: server_uuids that it replicates from, one per channel; () if it replicates from nobody.
        log_updates: whether it logs what it replicates.
        filters: what makes it log a GTID without its rows, or rows without logging them, in the server's own words.
    """

    conn_id: str
    server_uuid: str
    address: str
    gtid_mode: str
    gtid_executed: GtidSet
    gtid_purged: GtidSet
    log_bin: bool
    log_updates: bool
    binlog_format: str
    row_image: str
    sources: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))
        object.__setattr__(self, "filters", tuple(self.filters))


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of a connector; `trace` is its stack trace or ""."""

    id: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """The connector. `config` holds no secrets; `offset` is the stored value or None.

    Attributes:
        other_partitions: further keys under which this connector has an offset; it reads none of them.
        elsewhere: topic → an offset kept there for this connector that differs from `offset`.
        stands_still: it claims to run and its source has more for it, but it neither moved nor produced for so many
            seconds; 0 when it was not seen to.
    """

    state: str
    tasks: tuple[TaskState, ...]
    config: Mapping[str, str]
    offset: Mapping[str, Any] | None
    offset_partition: Mapping[str, Any] | None
    offsets_count: int
    other_partitions: tuple[Mapping[str, Any], ...] = ()
    elsewhere: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stands_still: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "config", dict(self.config))
        object.__setattr__(self, "other_partitions", tuple(dict(one) for one in self.other_partitions))
        object.__setattr__(self, "elsewhere", {topic: dict(value) for topic, value in self.elsewhere.items()})


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """The topics, by name; `of_table` is table → topic, `configs` topic → setting → value."""

    topics: Mapping[str, TopicState]
    of_table: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """The connector's schema history.

    Attributes:
        topic: its topic; `state` is None if that does not exist.
        records: how many it holds.
        differences: table → what its newest definition says differently from the source's.
        snapshot_at: when the connector last wrote it from a snapshot, ISO time; "" never.
    """

    topic: str
    state: TopicState | None = None
    records: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    snapshot_at: str = ""


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The captured tables as the source defines them, and what the connector believes; `history` None: kept elsewhere.

    `defaults`: table → column → its default at the source (None: none).
    """

    definitions: Mapping[str, Table] = field(default_factory=dict)
    history: HistoryFacts | None = None
    defaults: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkTableFacts:
    """One sink table: `head` is main's snapshot id, `rows` its number of rows if counted.

    `stamp` is the newest on main or, where snapshot expiry removed it, its mirror in the control table; `stamped_at` is
    when it was committed, in epoch seconds, None for a mirror.
    """

    exists: bool
    head: int | None = None
    stamp: Stamp | None = None
    rows: int | None = None
    stamped_at: float | None = None


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """The sink tables, by the full name of their source table ("shop.orders").

    `late`: table → how many of its events wait in the topic for longer than the policy's max_lag.
    """

    tables: Mapping[str, SinkTableFacts]
    late: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The pipeline's control table: its epoch, the open recovery and the lease, if any.

    Attributes:
        closed_at: when the last recovery was closed, ISO time; "" if none was.
        read_seconds: how long the last recovery read the source; None if not known.
        servers: server_uuids that the connector was brought to without a new reading: after a failover, or back from a replica.
        epochs: table → the epoch that its stamp must have, where it has one of its own (`core.epochs`).
        abandoned: table → {at, who, reason, run_id} of tables whose recovery was given up and not made up for since.
        refused: table → why apply stopped it because of DDL, when, and the stamp that it has had since.
        apply_error: what the newest apply failed with; "" if it did not, or none is remembered.
        checked_xa: table → what the source said of its XA transactions when the table was compared last, since the last recovery.
    """

    epoch: int
    recovery: Mapping[str, Any] | None = None
    lease: Mapping[str, Any] | None = None
    closed_at: str = ""
    read_seconds: float | None = None
    servers: tuple[str, ...] = ()
    abandoned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    apply_error: str = ""
    checked_xa: Mapping[str, XaState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "servers", tuple(self.servers))
        object.__setattr__(self, "epochs", dict(self.epochs))
        object.__setattr__(self, "checked_xa", dict(self.checked_xa))
        object.__setattr__(self, "abandoned", {table: dict(note) for table, note in self.abandoned.items()})

    @property
    def required(self) -> Epochs:
        """The epoch of each table."""
        return Epochs(self.epoch, self.epochs)


@dataclass(frozen=True, slots=True)
class Observation:
    """All parts at one time (`taken_at`, ISO).

    Read the connector before the source: its offset is then never ahead of the server facts merely
    because a transaction was committed between the two reads. Read `schema` between the two: a definition
    is then of a moment that the server's position covers. `replicas` (connection → facts) are read only where the
    source has purged what the connector needs; one that could not be read is no reason to conclude nothing.
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

    @property
    def unknowns(self) -> dict[str, str]:
        """The parts that could not be read, with the reason of each."""
        parts = ("source", "connector", "transport", "sink", "control", "schema")
        read = {part: getattr(self, part) for part in parts}
        return {part: fact.reason for part, fact in read.items() if isinstance(fact, Unknown)}
