"""Facts read from source, connector, transport, sink and control at one time.

Each part may be Unknown: that is neither healthy nor lost, and nothing destructive follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.position import BinlogPosition

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline
    from airflow_cdc.core.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that could not be read, and why (one line, no secrets)."""

    reason: str


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """One file of SHOW BINARY LOGS; `size` in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The source server. The GTID fields are None where the server has no GTIDs."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "binlog_files", tuple(self.binlog_files))


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task of a connector; `trace` is its stack trace or ""."""

    id: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """The connector. `config` holds no secrets; `offset` is the stored value or None."""

    state: str
    tasks: tuple[TaskState, ...]
    config: Mapping[str, str]
    offset: Mapping[str, Any] | None
    offset_partition: Mapping[str, Any] | None
    offsets_count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        object.__setattr__(self, "config", dict(self.config))


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compacted topic keeps of deletes: a tombstone from before `since_ms` may be gone (epoch, as `now_ms`).

    `first`: partition → the first offset that is not older than that; the partition's end if none is.
    """

    now_ms: int
    since_ms: int
    first: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic: its id and, per partition, (first offset, next offset); `compaction` if it is compacted."""

    name: str
    id: str
    partitions: Mapping[int, tuple[int, int]]
    compaction: Compaction | None = None


@dataclass(frozen=True, slots=True)
class TransportFacts:
    """The topics, by name."""

    topics: Mapping[str, TopicState]


@dataclass(frozen=True, slots=True)
class SinkTableFacts:
    """One sink table: `head` is main's snapshot id, `rows` its number of rows if counted.

    `stamp` is the newest on main or, where snapshot expiry removed it, its mirror in the control table.
    """

    exists: bool
    head: int | None = None
    stamp: Stamp | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """The sink tables, by the full name of their source table ("shop.orders")."""

    tables: Mapping[str, SinkTableFacts]


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The pipeline's control table: its epoch, the open recovery and the lease, if any."""

    epoch: int
    recovery: Mapping[str, Any] | None = None
    lease: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """All parts at one time (`taken_at`, ISO).

    Read the connector before the source: its offset is then never ahead of the server facts merely
    because a transaction was committed between the two reads.
    """

    pipeline: Pipeline
    taken_at: str
    source: SourceFacts | Unknown
    connector: ConnectorFacts | Unknown
    transport: TransportFacts | Unknown
    sink: SinkFacts | Unknown
    control: ControlFacts | Unknown
    notes: tuple[str, ...] = field(default=())

    @property
    def unknowns(self) -> dict[str, str]:
        """The parts that could not be read, with the reason of each."""
        parts = ("source", "connector", "transport", "sink", "control")
        read = {part: getattr(self, part) for part in parts}
        return {part: fact.reason for part, fact in read.items() if isinstance(fact, Unknown)}
