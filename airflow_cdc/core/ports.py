"""What the steps, commands and Spark applications need of a pipeline's systems: one protocol per part of a pipeline.

A client satisfies its port by shape, without importing it; mypy holds it to that in tests/unit/test_ports.py. Only what
every system of a kind must offer stands in its port. What some can do beyond that is an attribute, None where they cannot
(`Source.replication`), or a capability of the kind (core/kind.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from airflow_cdc.core.transactions import Transactions

if TYPE_CHECKING:
    from airflow_cdc.core.apply.stamp import ChunkLedger, Stamp
    from airflow_cdc.core.check import Check
    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.diagnosis.forecast import Forecast, Retention
    from airflow_cdc.core.diagnosis.observation import (
        Capture,
        ConnectorFacts,
        ConnectorState,
        HistoryFacts,
        ReplicaFacts,
        SinkTableFacts,
        SourceFacts,
    )
    from airflow_cdc.core.endpoint import CallLimits, Login
    from airflow_cdc.core.hold import HoldLimits, HoldState
    from airflow_cdc.core.offset import OffsetCodec, OffsetEntry, OffsetStore, RawOffset
    from airflow_cdc.core.position import Available, Position, Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.topics import Fence, PartitionRanges, TopicState
    from airflow_cdc.core.xa import XaState


class Client(Protocol):
    """What every client of a system has. Making one connects to nothing."""

    @property
    def where(self) -> str:
        """How messages name the system."""
        ...

    def limited(self, limits: CallLimits) -> Self:
        """The same system, each call bounded."""
        ...


class Source(Client, Protocol):
    """A source database server. Every method raises SourceError for a server that fails or refuses."""

    @property
    def endpoint(self) -> Any:
        """Its kind's own DataEndpoint, for the kind's own adapters."""
        ...

    @property
    def replication(self) -> Replication | None:
        """The server among those that replicate from each other; None where transactions have other names on others."""
        ...

    # ---- what it is

    def facts(self) -> SourceFacts:
        """What diagnosis needs to know of the server, read at one time; nothing is changed."""
        ...

    def facts_for(self, tables: Sequence[str], position: Position | None) -> SourceFacts:
        """The server's facts, with those about these tables and about a connector's stored position."""
        ...

    def server(self) -> str:
        """The server's own name for itself, as it stands in watermarks; "" where a server has none."""
        ...

    def checks(self, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str) -> Iterator[Check]:
        """The doctor's, with what each needs. `hold`: the policy asks for one. `unreadable`: why no recovery can read it."""
        ...

    # ---- its log

    def position(self) -> Watermark:
        """A position at or after everything that is visible now. Not usable as W."""
        ...

    def watermark(self, *, xa_timeout: float = 60.0) -> Watermark:
        """W: a position at or before everything that a read started afterwards can see (INV 7, 8).

        Waits up to `xa_timeout` seconds for prepared transactions to end.
        """
        ...

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Return once all transactions up to W are visible; raise DeadlineError after `timeout` seconds."""
        ...

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise unless this is the server W was taken on, up without a break since (INV 9)."""
        ...

    def availability(self, position: Position) -> Available:
        """Whether a reader at `position` would still find every change since: THE answer."""
        ...

    def still_available(self, watermark: Watermark) -> Available:
        """The same of W. Raises when the connection reaches another server."""
        ...

    def forecast(self, position: Position) -> tuple[Forecast, Retention]:
        """How long the log at a stored position stays. Raises SourceError also where nothing limits it."""
        ...

    def at_rest(self, position: Position, watermark: Watermark) -> bool:
        """Whether the server stands exactly at W now, and a reader at `position` has read its log to the end."""
        ...

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:
        """W for `resume_next_file`: the start of the first log file after the position's."""
        ...

    def hold(self, label: str, limits: HoldLimits | None = None) -> Hold:
        """What keeps the log from being purged, to be acquired. Its state says where the server offers none."""
        ...

    def xa(self) -> XaState | None:
        """The server's XA counters and open XA transactions, to be compared with a later answer (INV 32)."""
        ...

    def xa_pending(self) -> Sequence[PreparedTransaction]:
        """The prepared transactions, which a reader sees neither as committed nor as gone."""
        ...

    # ---- its tables, as "schema.table"

    def definitions(self, tables: Sequence[str]) -> Mapping[str, Table]:
        """The definitions of those of the tables that exist."""
        ...

    def definitions_and_defaults(
        self, tables: Sequence[str]
    ) -> tuple[Mapping[str, Table], Mapping[str, Mapping[str, str | None]]]:
        """Each table's definition, and column → default of each table. Answers or fails within seconds."""
        ...

    def table_ids(self, tables: Iterable[str]) -> Mapping[str, str]:
        """Table → what TRUNCATE and a rebuild of it change; a table is absent where that cannot be read."""
        ...

    def cascade_targets(self, tables: Sequence[str]) -> frozenset[str]:
        """Which of the tables foreign keys change without a row in the log (INV 14)."""
        ...

    def count_rows(self, table: str, seconds: float) -> int | None:
        """How many rows the table holds; None if counting them takes longer than `seconds`."""
        ...

    def has_row(self, table: str, condition: str, seconds: float) -> bool | None:
        """Whether the table holds a row of that condition; None if looking takes longer than `seconds`."""
        ...


class Replication(Protocol):
    """One server among those that replicate from each other, where transactions keep their names on every server.

    Every method that asks the server raises SourceError.
    """

    @property
    def login(self) -> Login:
        """Where a connector reads at this server, and as whom."""
        ...

    def facts(self, conn_id: str) -> ReplicaFacts:
        """What decides whether a connector may read here in its source's place."""
        ...

    def standing_faults(self, conn_id: str) -> tuple[str, ...]:
        """Why this server could not stand in for its source, whatever is missing there; () if it could."""
        ...

    def faults(self, conn_id: str, source: SourceFacts, stored: Transactions) -> tuple[str, ...]:
        """Why a connector that has read `stored` of `source` cannot read on here; () if it can."""
        ...

    def known(self, text: str) -> Transactions:
        """The set that was printed so; "" is the empty set. Raises PositionError."""
        ...

    def read_by(self, position: Position | None, end: Position | None = None) -> Transactions | None:
        """What a connector at `position` has read; None if no set says so.

        `end`: log_end() as it was before the position was read. An offset at or past it has all that stands before it,
        even where the connector has not put the last of it into its set yet.
        """
        ...

    def executed(self, *, under_way: bool = True) -> Transactions:
        """All that the server holds; `under_way`: with what is being committed right now."""
        ...

    def purged(self) -> Transactions:
        """What the server can send no more."""
        ...

    def log_end(self) -> Position:
        """A position in the server's log, with a set of transactions that all stand before it."""
        ...

    def from_the_oldest(self, read: Transactions) -> Position:
        """Where a connector that has read this begins, at the beginning of the log."""
        ...

    def after(self, read: Transactions) -> Position:
        """The position after these transactions: as far on in the log as is known to skip nothing."""
        ...


class Hold(Protocol):
    """Keeps a source's log from being purged, and DDL out, while it is held (INV 10). It never raises: its state says."""

    def acquire(self) -> HoldState: ...

    def tick(self) -> HoldState:
        """Look at the server; to be called every second or so while it is held."""
        ...

    def release(self, reason: str = "no longer needed") -> HoldState: ...


class PreparedTransaction(Protocol):
    """A transaction that is prepared and not ended."""

    def __str__(self) -> str: ...


class Connector(Client, Protocol):
    """The control interface of the CDC engine. `name` is the connector's. Every method raises ConnectorError for what it
    cannot do.
    """

    @property
    def endpoint(self) -> Any:
        """Its kind's own Endpoint, for the kind's own adapters."""
        ...

    @property
    def codec(self) -> OffsetCodec:
        """How its stored offsets are read and made."""
        ...

    @property
    def own_topics(self) -> OwnTopics:
        """What it keeps in topics. The transport is asked for that, so a broker that hangs says nothing of the engine."""
        ...

    def facts(self, name: str) -> ConnectorFacts:
        """State, tasks, settings without secrets, and the stored offset, in one reading."""
        ...

    # ---- stop and start

    def state(self, name: str) -> ConnectorState:
        """Its state and its tasks', now."""
        ...

    def stop(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop, and return when nothing of it produces any more; raise DeadlineError after `timeout` seconds."""
        ...

    def resume(self, name: str) -> None:
        """Ask a stopped connector to run. It answers before it runs."""
        ...

    def wait_running(self, name: str, *, timeout: float = 120.0) -> None:
        """Return when it runs; raise with the cause it gives, or DeadlineError."""
        ...

    def restart(self, name: str) -> None:
        """Restart a failed connector and its failed tasks, once."""
        ...

    # ---- where it has read to

    def entries(self, name: str) -> Sequence[OffsetEntry]:
        """All stored offsets, as they stand."""
        ...

    def committed_offset(self, name: str, server: str) -> RawOffset | None:
        """The value stored for the connector's own name `server`, or None."""
        ...

    def offset_store(self, name: str, key: RawOffset) -> OffsetStore:
        """Where it keeps the offset of `key`."""
        ...

    # ---- its settings, and where it reads

    def raw_config(self, name: str) -> Mapping[str, str]:
        """The settings with their secrets: to be written back, never for a log, XCom or report."""
        ...

    def change_config(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Replace the settings `before` by `after`, and read them back; on any difference put `before` back."""
        ...

    def is_away(self, name: str) -> bool:
        """Whether `point_at` sent it elsewhere, and `point_back` did not yet."""
        ...

    def point_at(self, name: str, there: Login, home: Login) -> None:
        """Let it read at another server than the one whose login is `home`; what it read at is kept."""
        ...

    def point_back(self, name: str) -> None:
        """Let it read again where it read before. Safe to run again."""
        ...


class OwnTopics(Protocol):
    """What a connector keeps in topics of its own."""

    def with_elsewhere(self, name: str, facts: ConnectorFacts, topics: Transport) -> ConnectorFacts:
        """The facts with offsets that another topic keeps for it."""
        ...

    def history(self, capture: Capture, topics: Transport, definitions: Mapping[str, Table]) -> HistoryFacts | None:
        """Its table definitions, and what of them differs from `definitions`; None if they are kept elsewhere."""
        ...


class Transport(Client, Protocol):
    """The topics between connector and sink. Topics that do not exist are absent from answers. Raises TransportError."""

    @property
    def endpoint(self) -> Any:
        """Its kind's own Endpoint, for the kind's own adapters."""
        ...

    def topic_states(self, names: Iterable[str]) -> Mapping[str, TopicState]:
        """Id and, per partition, first and next offset of each topic."""
        ...

    def end_offsets(self, names: Iterable[str]) -> Mapping[str, Mapping[int, int]]:
        """Topic → partition → next offset."""
        ...

    def offsets_since(self, parts: Mapping[str, Iterable[int]], at_ms: int) -> Mapping[str, Mapping[int, int | None]]:
        """Topic → partition → the first offset that is not older than `at_ms` (epoch); None: all records are older."""
        ...

    def topic_configs(self, names: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Topic → its settings."""
        ...

    def topic_names(self) -> Sequence[str]:
        """All topics that the user may see."""
        ...

    def records(self, topic: str, ranges: PartitionRanges | None = None) -> Sequence[TopicRecord]:
        """The committed records of a small topic, in order within a partition: all, or those in `ranges`."""
        ...

    def history_records(self, topic: str) -> Sequence[Mapping[str, object]]:
        """The records of a topic of table definitions, oldest first."""
        ...


class TopicRecord(Protocol):
    """A record of a topic, as bytes."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


class Stage(Protocol):
    """Where the new rows of one table are written unseen, until they are published."""

    @property
    def namespace(self) -> str:
        """Of the table that it is a stage of."""
        ...

    @property
    def table(self) -> str:
        """The table's name."""
        ...

    @property
    def identifier(self) -> tuple[str, str]:
        """Where the sink keeps it."""
        ...

    @property
    def target(self) -> str:
        """The table that it is a stage of, for messages."""
        ...

    @property
    def label(self) -> str:
        """The try that writes it."""
        ...

    @property
    def base_head(self) -> int:
        """The target's version that it was made from."""
        ...


class StagedCommit(Protocol):
    """One commit of a stage."""

    @property
    def ledger(self) -> ChunkLedger | None:
        """Which chunks of the source stand in it; None where it says nothing of that."""
        ...


class Sink(Client, Protocol):
    """Where the tables are mirrored, without Spark (spark_apps/ports.py has what writes rows). Raises SinkError, and
    UnknownStateError where it cannot be read.
    """

    def spark_conf(self) -> Mapping[str, str]:
        """Spark's settings for it; they may hold credentials."""
        ...

    # ---- its tables, by namespace and name

    def exists(self, namespace: str, table: str) -> bool: ...

    def facts(self, namespace: str, table: str) -> SinkTableFacts:
        """Whether the table exists, its version, newest stamp and number of rows."""
        ...

    def ensure_table(self, namespace: str, table: str, columns: Sequence[tuple[str, str]]) -> bool:
        """Create the table with (column, Spark SQL type). Returns whether it was created; one that exists stays."""
        ...

    def row_count(self, namespace: str, table: str, version: int) -> int | None:
        """How many rows a version has; None where that cannot be told cheaply."""
        ...

    def stamp(self, namespace: str, table: str) -> Stamp | None:
        """The newest stamp."""
        ...

    def stamp_or_mirror(self, namespace: str, table: str, mirror: Stamp | None) -> Stamp | None:
        """The newest stamp; where expiry took every stamped version, its mirror, unless the table was put back before it."""
        ...

    def foreign_commit(self, namespace: str, table: str) -> int | None:
        """The newest version that changed rows, if it carries no stamp: every writer of ours ends with one."""
        ...

    def definition_text(self, namespace: str, table: str) -> str:
        """The source's definition by which the rows were written, as it was noted; "" if none was."""
        ...

    def stamped_summary(self, namespace: str, table: str) -> Mapping[str, str]:
        """All that the commit of the newest stamp says; {} if there is none."""
        ...

    # ---- its stages. One that is given back is the Stage that this sink made.

    def stage(self, namespace: str, table: str, label: str, from_stage: Any = None) -> Stage:
        """Make (or find again) the Stage `label` of a table. `from_stage`: a stage whose commits it takes over."""
        ...

    def open_stage(self, namespace: str, table: str, label: str) -> Stage:
        """The Stage `label` of a table. Raises SinkError if there is none."""
        ...

    def stages(self, namespace: str | None = None, *tables: str) -> Sequence[Stage]:
        """All Stages there are, of some tables, of a namespace or of all. Lists them once, however many tables these are."""
        ...

    def stage_head(self, stage: Any) -> int:
        """The newest version of the stage; its base if nothing was written."""
        ...

    def stage_chain(self, stage: Any) -> Sequence[StagedCommit]:
        """The stage's own commits, oldest first."""
        ...

    def touched_at(self, stage: Any) -> float:
        """When the stage was last written to, in unix seconds."""
        ...

    def publishable(self, stage: Any) -> bool:
        """Whether the target still is what the stage began from, up to compaction."""
        ...

    def publish(
        self,
        stage: Any,
        snapshot_id: int,
        expected_head: int,
        properties: Mapping[str, str] | None = None,
        *,
        over_compaction: bool = False,
    ) -> object:
        """Make the verified version the target's, by compare-and-set. Raises StaleHeadError, naming who moved it.

        Doing it again after it stood changes nothing. `over_compaction`: also if only compactions came on top.
        """
        ...

    def drop_stage(self, stage: Any) -> None:
        """Forget the stage. Safe to repeat."""
        ...

    # ---- records that could not be applied

    def unresolved_letters(self, pipeline: str, table: str | None = None) -> Sequence[DeadLetter]:
        """Those that nothing has put right yet, of one table or of all, oldest first."""
        ...

    def waiting_letters(self, pipeline: str) -> int:
        """How many of them are to be tried again."""
        ...

    def resolve_letters_before(self, pipeline: str, since: Mapping[str, Fence]) -> int:
        """Mark those that lie before `since`, by table, as put right. Returns how many. Safe to repeat."""
        ...


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A pipeline's control document as a store holds it.

    Attributes:
        text: JSON, as control/document.py writes it; "" where something was stored and no document is in it any more.
        version: what the store calls this state of it; only that store can compare it.
    """

    text: str
    version: str


class ControlStore(Protocol):
    """Keeps one document per pipeline, changed by compare-and-set. control/control.py does the rest."""

    @property
    def where(self) -> str:
        """How messages name the server or catalog."""
        ...

    def place(self, pipeline: str) -> str:
        """How messages name the place of one document."""
        ...

    def load(self, pipeline: str) -> StoredDocument | None:
        """The document as it stands; None before the first write. Raises UnknownStateError if it cannot be read."""
        ...

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        """Replace the document of version `expected` (None: there is none yet) by `text`.

        Raises StaleHeadError if the stored version is another one, UnknownStateError if the write may or may not stand, and
        an error of the store's own for a write that it refuses. Makes what the store needs at the first write.
        """
        ...
