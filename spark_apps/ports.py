"""The ports of a pipeline's systems for Spark applications. An adapter implements its port structurally."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from airflow_cdc.core.ports import Stage, TopicRecord

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.dead_letter import DeadLetter
    from airflow_cdc.core.pipeline import MaintenancePolicy
    from airflow_cdc.core.position import Covered, JsonObject, Position, Watermark
    from airflow_cdc.core.stamp import Stamp
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.applied import PlainChange
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.decisions.apply.schema_change import SchemaChange
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.decisions.compare.chunk import Chunk, Key, TableSize
    from airflow_cdc.decisions.compare.leaves import KeyHash, Leaf, LeafScheme
    from airflow_cdc.decisions.compare.part import Part
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.spark_apps.tidied import Tidied

# topic → partition → (first offset, end offset); the end is not read.
Ranges: TypeAlias = Mapping[str, Mapping[int, tuple[int, int]]]
# partition → (first offset, end offset)
Bounds: TypeAlias = Mapping[int, tuple[int, int]]
# (session, ranges) → raw records: TopicReader.read, or a test's own rows
ReadRanges: TypeAlias = Callable[["SparkSession", Ranges], "DataFrame"]
# (topic, ranges, most bytes) → its records in memory, or None if they are larger: ReadsFew.few, or a test's own
ReadFew: TypeAlias = Callable[[str, Bounds, int], "Sequence[TopicRecord] | None"]
# (schema-change topic, its ranges) → the statements there, oldest first
ReadDdl: TypeAlias = Callable[[str, Bounds], Sequence["Ddl"]]
# column → its default at the source, as text; None if it has none
Defaults: TypeAlias = Mapping[str, str | None]


class SourceLog(Protocol):
    """The meaning of the positions and the DDL in a source's log."""

    def read_position(self, value: JsonObject) -> Position:
        """The inverse of a position's `to_json`. Raises PositionError."""
        ...

    def covered(self, watermark: Watermark | None) -> Covered:
        """The changes that are certainly at or before W; none without a watermark."""
        ...

    def judge_ddl(self, stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:
        """How a mirror follows statements; see decisions.apply.ddl.JudgeDdl."""
        ...


class SourceView(Protocol):
    """One table of the source in one read view: every answer is about the same rows."""

    @property
    def position(self) -> Watermark | None:
        """Exact position of the view: it holds all changes up to it and nothing later. None if it is not known.

        It is always known for a table without a key, and for every table if RowReader.exact_views.
        """
        ...

    def leaves(self, scheme: LeafScheme, part: Part) -> Mapping[int, Leaf]:
        """The digest of every leaf, in one scan."""
        ...

    def count(self) -> int:
        """How many rows the table has."""
        ...

    def bounds(self) -> tuple[int, int] | None:
        """The smallest and greatest first key column; None if leaves are no ranges of it, or the table is empty."""
        ...

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part) -> list[tuple[str, str]]:
        """(key text, hash) of every row in these leaves."""
        ...

    def images(self, keys: Iterable[str], part: Part = ...) -> Rows:
        """The rows under these key texts (of a table without a key: under these hashes)."""
        ...


class RowReader(SourceLog, Protocol):
    """A source, for Spark. Every connection proves that it reaches the server of `at` and shows all of W (INV 9)."""

    @property
    def key_hash(self) -> KeyHash:
        """The hash of keys in its SQL, for leaves that are not ranges of a key."""
        ...

    def views(self, tables: Sequence[Table], *, at: Watermark) -> AbstractContextManager[Sequence[SourceView]]:
        """A view of each of these tables, on as few connections as their kind allows; several threads may read them."""
        ...

    @property
    def exact_views(self) -> bool:
        """Whether every view has an exact position, so that it may be older than the sink that it is compared with."""
        ...

    def chunks(
        self, table: Table, after: Key | None, rows: int, *, at: Watermark, ahead: int, beside: bool = True
    ) -> Generator[list[Chunk]]:
        """The chunks of `rows` rows after the key `after`, `ahead` at a time; the last chunk is open-ended (INV 25).

        `beside`: whether the ends of the next group may be looked up while this one is read.
        """
        ...

    def rows(self, spark: SparkSession, table: Table, chunks: Sequence[Chunk], *, at: Watermark) -> DataFrame:
        """The rows of these chunks in sink types, a partition each. They may be newer than `at`."""
        ...

    def rows_of_keys(
        self, spark: SparkSession, table: Table, keys: Sequence[str], *, at: Watermark | None
    ) -> DataFrame:
        """The rows under these key texts in sink types. `at` None: as they are now, with everything committed before.

        Rows of other keys that the source takes as equal (a collation that ignores case) may be among them.
        """
        ...

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """Give `use` all rows of the table in one read view, and return the exact position of that view (INV 19).

        `use` runs in its own thread and must read the frame once. Raises SourceError if the position cannot be
        determined, and whatever `use` raises; `use` may then have read rows already, which must not count.
        """
        ...

    def outside_hash(self, spark: SparkSession, table: Table, part: Part, *, at: Watermark) -> DataFrame:
        """(key_text, x0, x1 …) of the part's rows: the columns outside the row hash, in sink types."""
        ...

    def view(self, table: Table, *, at: Watermark) -> AbstractContextManager[SourceView]:
        """One read view of the table; ends with the block."""
        ...

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """As SourceView.bounds, outside any view: to size the leaves of the next comparison."""
        ...

    def wait_visible(self, at: Watermark, timeout: float) -> None:
        """Wait until new connections show everything up to `at`; DeadlineError after `timeout` seconds."""
        ...

    def sizes(self, tables: Sequence[Table]) -> Mapping[str, TableSize]:
        """The source's own estimate per table ("schema.table"): for progress, order, and how much is read at once."""
        ...

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """Table → column → its default: a literal in quotes, else an expression."""
        ...


@runtime_checkable
class LimitsConnections(Protocol):
    """A RowReader that tables are read with on a limited number of connections."""

    @property
    def connections(self) -> int:
        """How many may read at a time; 0: any number."""
        ...


def connection_limit(reader: RowReader) -> int:
    """On how many connections at a time tables may be read with this reader; 0: on any number."""
    return reader.connections if isinstance(reader, LimitsConnections) else 0


class Routing(Protocol):
    """Where a connector's events of a table are, and how they are written."""

    @property
    def ddl_topic(self) -> str | None:
        """The topic of its schema changes; None if the source's log has no DDL: then only a changed definition tells."""
        ...

    @property
    def null_becomes_default(self) -> bool:
        """Whether the connector writes a column's default for NULL."""
        ...

    @property
    def doubt_way_out(self) -> str:
        """What a person can do about a column with unreliable values in too many rows."""
        ...

    @property
    def unreadable_way_out(self) -> str:
        """The likely cause of records that cannot be read at all, and what a person can do about it."""
        ...

    @property
    def truncates_seen(self) -> bool:
        """Whether the connector sends a TRUNCATE as an event."""
        ...

    def topic_of(self, table: str) -> str:
        """The topic of a table, "schema.table"."""
        ...

    def topics_about(self, tables: Iterable[str]) -> list[str]:
        """The topics with records about these tables, including the topic of schema changes."""
        ...

    def key_mark(self, table: str) -> object | None:
        """The part of a key that tells the tables of a shared topic apart; None if there is none."""
        ...

    def check_table(self, table: Table) -> None:
        """Raise SchemaError or ConfigError if the connector cannot carry the table exactly."""
        ...


class EventDecoder(Protocol):
    """Decodes a connector's events from one kind of source to the neutral form."""

    @property
    def routing(self) -> Routing:
        """The topics of the events."""
        ...

    def decode(self, raw: DataFrame, table: Table, sides: Sequence[str] = ...) -> DataFrame:
        """Records (record.RAW_SCHEMA, any topics) → those of `table` in the form of record.py, in no particular order.

        Only the images in `sides` are decoded, and only in them a wrong value makes a record bad. Raises SchemaError if
        the connector cannot carry a column exactly.
        """
        ...

    def statements(self, records: Iterable[TopicRecord], where: str) -> Sequence[Ddl]:
        """The DDL in records of the schema-change topic, in order. Raises TransportError for one without DDL."""
        ...

    def nulls_at_risk(self, table: Table, defaults: Defaults) -> tuple[str, ...]:
        """Columns in which a `defaulted` record shows the column's default instead of NULL."""
        ...


class PlainDecoder(Protocol):
    """Decodes the plain records of one table in memory; see decisions.apply.plain."""

    def decode(
        self, records: Iterable[TopicRecord], *, before: bool = False, rows_from: Mapping[int, int] = ...
    ) -> Sequence[PlainChange]:
        """All of them, `before`: with the rows as they were, which the change of a table without a key must have. Of
        records before `rows_from` (partition → offset) only what they say of their place. Raises ValueError, TypeError or
        LookupError if one is not plain: EventDecoder.decode says why.
        """
        ...


@runtime_checkable
class DecodesFew(Protocol):
    """An EventDecoder that can decode few records without Spark, to the same values."""

    def plain(self, table: Table) -> PlainDecoder | None:
        """The decoder of a table; None if only Spark can decode its records."""
        ...


@runtime_checkable
class InCatalog(Protocol):
    """A sink, or how it is staged, whose tables Spark finds in a catalog of its own."""

    def spark_conf(self) -> Mapping[str, str]:
        """See core.ports.Staging."""
        ...


@runtime_checkable
class ReadsAppended(Protocol):
    """An EventDecoder that knows what a sink connector makes of its events when it only appends them."""

    def appended(self, raw: DataFrame, table: Table) -> DataFrame:
        """Rows of a log (record.RAW_SCHEMA: the key's columns, and `op` and `after`, as JSON) in the form of record.py."""
        ...


class FoldsLog(Protocol):
    """A sink whose tables are logs of changes, for Spark."""

    def rows(self, spark: SparkSession, table: Table, topic: str, ends: Callable[[], Mapping[int, int]]) -> DataFrame:
        """The rows that are left of a table's log, in sink types. `ends`: asks for the topic's ends, partition → offset.

        The log is read once, so that each question about the frame is about the same rows.
        Raises SinkError for a log that does not say it.
        """
        ...


class TopicReader(Protocol):
    """A transport, for Spark."""

    def read(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The records in the ranges as record.RAW_SCHEMA, read as committed.

        Missing offsets make the job fail; they are not skipped. Empty ranges cost nothing.
        """
        ...


@runtime_checkable
class ReadsFew(Protocol):
    """A TopicReader that can read few records without Spark."""

    def few(self, topic: str, bounds: Bounds, most_bytes: int) -> Sequence[TopicRecord] | None:
        """The records in memory, in order within each partition; None if their keys and values have more bytes than that.

        Raises TransportError, also for missing offsets.
        """
        ...


@runtime_checkable
class LooksExactly(Protocol):
    """A RowReader whose views have exact positions only if that is asked for, as it costs the source something."""

    def with_exact_views(self) -> RowReader:
        """The same, with exact_views."""
        ...


@runtime_checkable
class ReadsHeaders(Protocol):
    """A TopicReader that can read records with their headers."""

    def with_headers(self) -> TopicReader:
        """The same, whose records have a further column `headers`, or `headers` in memory."""
        ...


class StageWriter(Protocol):
    """A sink, for Spark. Every write is one commit with a `summary`, which states the table's progress."""

    def stamped(self, identifier: tuple[str, str], mirror: Stamp | None) -> tuple[Stamp | None, Mapping[str, str]]:
        """The newest stamp of a stage or a table, and the summary of the commit that carries it.

        `mirror` is the control table's copy, for a table without stamped commits; the summary is then {}.
        """
        ...

    def stamp(self, stage: Stage) -> Stamp | None:
        """The stage's newest stamp."""
        ...

    def definition(self, stage: Stage, fingerprint: str | None) -> Table | None:
        """The source definition the stage's rows were written with, if it is known to have that fingerprint."""
        ...

    def rows(self, spark: SparkSession, stage: Stage) -> DataFrame:
        """The stage's rows as they are now."""
        ...

    def fit(self, spark: SparkSession, stage: Stage, start: Start, defaults: Defaults | None) -> SchemaChange:
        """Give the stage the columns of the start's table, and fill new columns in old rows. Returns what changed.

        Raises RereadNeededError naming a change that the sink's own columns cannot follow.
        """
        ...

    def define(self, stage: Stage, table: Table, columns: Sequence[tuple[str, str]]) -> bool:
        """Give the stage exactly these (name, Spark SQL type) columns of the definition, and note it on the stage.

        Returns whether any column changed.
        """
        ...

    def note_definition(self, stage: Stage, table: Table) -> None:
        """Store the definition of the stage's rows on the stage; later DDL is judged against it."""
        ...

    def nothing(self, spark: SparkSession, stage: Stage, summary: Mapping[str, str]) -> None:
        """A commit that changes no row."""
        ...

    def changes(
        self,
        stage: Stage,
        table: Table,
        net: DataFrame,
        summary: Mapping[str, str],
        *,
        emptied: bool = False,
        small: bool = True,
    ) -> None:
        """Write net changes (key, deleted, after). Repeating it from any point gives the same result.

        Changes from events also have the column `cdc` (record.py) of each key's last event; rows that were read from
        the source have not. `emptied`: the table was truncated before them. `small`: every task may hold their keys in memory.
        """
        ...

    def images(
        self, stage: Stage, table: Table, net: DataFrame, summary: Mapping[str, str], *, emptied: bool = False
    ) -> None:
        """Write net copies (image, n) of whole rows to a table without a key. Must not be repeated.

        Raises SinkError if the table holds fewer copies than must be removed.
        """
        ...

    def snapshot(self, stage: Stage, rows: DataFrame, summary: Mapping[str, str], *, first: bool) -> None:
        """Add rows in one commit; the `first` one replaces the stage's rows."""
        ...

    def changeable(self, stage: Stage) -> None:
        """Prepare the stage for a write of few changes to many rows."""
        ...

    def version(self, stage: Stage) -> int:
        """The stage's version now."""
        ...

    def readable_version(self, spark: SparkSession, stage: Stage) -> int:
        """The stage's current version; a new one if a column was added since, as it cannot be read at the old version."""
        ...

    def at(self, spark: SparkSession, stage: Stage, version: int) -> str:
        """The FROM expression by which Spark SQL reads the stage at that version, whatever is written later (INV 4).

        Every session of the application can use it.
        """
        ...

    def row_count(self, stage: Stage, version: int) -> int | None:
        """How many rows a version has; None if that is not cheap to find out."""
        ...


@runtime_checkable
class SharesTables(Protocol):
    """A StageWriter whose tables another program may write, by its own idea of their columns."""

    def misfits(
        self, spark: SparkSession, identifier: tuple[str, str], columns: Sequence[tuple[str, str]], key: Sequence[str]
    ) -> Sequence[str]:
        """Why the table cannot hold rows of these columns (name, Spark SQL type) with this key, each reason as text."""
        ...


class Unread(NamedTuple):
    """Every event that is not applied to a table yet is of this epoch (or a later one) and at this offset or behind it."""

    epoch: int
    offset: int


class TableKeeper(Protocol):
    """Keeps the tables of a sink small. Changes no row, and is safe beside every writer."""

    def tidy(
        self,
        spark: SparkSession,
        identifier: tuple[str, str],
        policy: MaintenancePolicy,
        now: datetime,
        unread: Callable[[], Unread | None],
    ) -> Tidied:
        """Compact the table's files and drop what is too old, except what a stamp, a pin or an unread event needs.

        `unread` asks sink and connector; None: the table was never applied. Does nothing if the table does not exist yet:
        its first recovery creates it.
        """
        ...


class DeadLetters(Protocol):
    """The records of one pipeline that could not be applied."""

    def record(self, bad: DataFrame) -> None:
        """Store bad records: (topic, topic_id, partition, offset, key, value as bytes, headers as text, table, reason).

        A record that is already stored counts one more attempt, so a repeated batch adds no rows.
        """
        ...

    def unresolved(self, table: str | None = None) -> tuple[DeadLetter, ...]:
        """The unresolved letters of one table or of all, oldest first."""
        ...

    def resolve(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """Mark letters as resolved."""
        ...

    def count_attempt(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """Count an attempt that did not resolve the letters."""
        ...
