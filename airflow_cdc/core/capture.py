"""What a connector's configuration does to names, keys and values. Each kind of connector implements this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.position import Position
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import NewestRecord, TopicState

# column → its default at the source, as text; None: no default
Defaults = Mapping[str, str | None]
# topic → its newest record; absent: it has none
Newest = Mapping[str, NewestRecord]


class CaptureSettings(Protocol):
    """A connector's configuration, parsed."""

    @property
    def truncates_seen(self) -> bool:
        """Whether a TRUNCATE is sent as an event."""
        ...

    @property
    def truncates_way_out(self) -> str:
        """What a person can set so that it is; "" if nothing."""
        ...

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
        """The topic of its heartbeats; "" if it has none, whatever its settings."""
        ...

    @property
    def quickened(self) -> Mapping[str, str]:
        """Settings with which a recovery needn't wait long for a quiet position to move; {} if it moves, or never will."""
        ...

    def reading_checks(self, subject: str) -> Iterator[Check]:
        """The doctor's checks of how its position moves, in the words of its kind."""
        ...

    @property
    def reports_ddl(self) -> bool:
        """Whether the connector reports DDL and keeps table definitions; False if the source's log holds no DDL."""
        ...

    @property
    def ddl_topic(self) -> str | None:
        """The topic with every DDL; None if there is none."""
        ...

    @property
    def observed_only(self) -> bool:
        """Its source can be diagnosed but not recovered."""
        ...

    @property
    def rows_refused(self) -> CdcError | None:
        """Why no table's rows can be taken from its events; None if they can. Says nothing about its position."""
        ...

    @property
    def years_adjusted(self) -> bool:
        """Dates in the years 1 to 99 arrive as 1970 to 2069 and cannot be distinguished from real ones."""
        ...

    @property
    def healing(self) -> Sequence[str]:
        """Settings by which it repairs itself or skips events, and so hides a gap (INV 5)."""
        ...

    def offset_faults(self, value: Mapping[str, object]) -> Sequence[str]:
        """What a connector of its version does not take of an offset that is well formed; () if it takes it all."""
        ...

    def topic_of(self, table: str) -> str:
        """The topic with the changes of "schema.table". Raises ConfigError if it can't be named."""
        ...

    def topics_about(self, tables: Sequence[str]) -> Sequence[str]:
        """All topics with events about these tables."""
        ...

    def mixed(self, tables: Sequence[str]) -> Mapping[str, ConfigError]:
        """Table → why its events can't be distinguished from those of another of these tables; {} if all can."""
        ...

    def carried(self, table: Table) -> Table:
        """The table without the columns that its events leave out."""
        ...

    def check_table(self, table: Table) -> None:
        """Refuse a table whose rows it does not carry unchanged (INV 21). Raises SchemaError or ConfigError."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """One kind of value in one column that the connector's events don't carry.

    Attributes:
        condition: a condition in the source's SQL for the rows that hold one.
        what: a sentence about such a row.
        todo: what a person can do about it.
        noticed: an event with such a value can't be read, so apply needs no query to find it; a read of the row fails.
        row: the key of a row that holds one, in words; "" if it is not known.
    """

    table: str
    column: str
    condition: str
    what: str
    todo: str
    noticed: bool = False
    row: str = ""

    @property
    def place(self) -> str:
        """The column and its table, in words, and a row."""
        return f"column {self.column} of {self.table}{self.row and f' (the row with {self.row})'}"


class NullFault(Protocol):
    """Columns whose NULL arrives as something else, and the settings that prevent it."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings that a recovery may change; {} if only a person can."""
        ...

    @property
    def what(self) -> str: ...

    @property
    def todo(self) -> str: ...


class Topics(Protocol):
    """What a connector's reader of table definitions needs from the transport."""

    def topic_states(self, names: list[str]) -> Mapping[str, TopicState]: ...
    def history_records(self, topic: str) -> Sequence[Mapping[str, object]]: ...


class TableDefinitions(Protocol):
    """The table definitions that a connector decodes with, read at one moment."""

    @property
    def newest_ms(self) -> int:
        """When the connector last wrote them from a snapshot, in epoch milliseconds; 0: never."""
        ...

    @property
    def size(self) -> int:
        """The number of their records."""
        ...

    def differences(
        self, tables: Mapping[str, Table], *, at: Position | None = None, server: str = ""
    ) -> dict[str, tuple[str, ...]]:
        """Table → how they differ from the source (INV 12); {} when all are equal.

        `at`: as the connector reads them when it starts at this position. `server`: only records written under that
        server name.
        """
        ...


class ConfigRules(Protocol):
    """Pure questions about a connector's configuration (name → value, as its cluster gives it)."""

    def capture(self, config: Mapping[str, str]) -> CaptureSettings:
        """The configuration, parsed. Raises ConfigError for one from which no position can be judged."""
        ...

    def may_replace_nulls(self, config: Mapping[str, str]) -> bool:
        """Whether a NULL may arrive as something else."""
        ...

    def null_fault(
        self, config: Mapping[str, str], definitions: Mapping[str, Table], defaults: Mapping[str, Defaults]
    ) -> NullFault | None:
        """What the configuration does to these tables' NULLs; None if nothing."""
        ...

    def written(
        self, config: Mapping[str, str], subject: str, tables: Sequence[str], newest: Callable[[Sequence[str]], Newest]
    ) -> Sequence[Check]:
        """What the topics' newest records look like to those who must read them; () where nothing is to be asked."""
        ...

    def looks(self, table: Table, capture: CaptureSettings) -> Iterator[Look]:
        """Values to look for in the table's rows."""
        ...

    def dated_columns(self, table: Table) -> Sequence[str]:
        """The table's columns of dates with a year, as `schema.table.column`."""
        ...

    def doubted_columns(self, table: Table) -> Sequence[str]:
        """Columns with characters that cannot be read from events, as `schema.table.column (character set)`."""
        ...

    def definitions(self, capture: CaptureSettings, topics: Topics) -> TableDefinitions:
        """Read the table definitions that the connector keeps in its topic; empty if the topic is gone.

        Raises ConnectorError if it keeps them elsewhere.
        """
        ...
