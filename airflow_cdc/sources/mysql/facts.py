"""Facts read from a server with a binary log: MySQL's own, and those it shares with MariaDB."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypedDict, runtime_checkable

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.forecast import Margin, PurgeForecast
from airflow_cdc.core.observation import ReplicaFacts, SourceFacts
from airflow_cdc.core.position import Available, Position
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.errors import OTHER_POSITION
from airflow_cdc.sources.mysql.availability import availability
from airflow_cdc.sources.mysql.forecast import purge_forecast
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, mysql_position


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """One file of SHOW BINARY LOGS; `size` in bytes."""

    name: str
    size: int


class Common(TypedDict):
    """The facts that are read in the same way from MySQL and MariaDB."""

    server_uuid: str
    server_id: int
    version: str
    gtid_mode: str | None
    binlog_files: tuple[BinlogFile, ...]
    current: BinlogPosition
    log_bin: bool
    binlog_format: str
    row_image: str
    log_filters: tuple[str, ...]
    uptime_s: int
    address: str


class EventBoundary(StrEnum):
    """What is at a position in a log file."""

    BOUNDARY = "boundary"  # an event begins there, or the file ends there
    INSIDE = "inside"  # no event begins there, or the one that begins there is cut off


@dataclass(frozen=True, slots=True)
class EventAtPosition:
    """What the server's own log holds at the connector's stored position.

    Attributes:
        place: whether an event begins there.
        events: types of the next few events; () at the end of the file.
        said: the server's message if it could not read an event there, else "".
        transaction: the GTID of the transaction whose first statement begins there, as MySQL writes it; "" if none does.
        first_read: the first of the events was read already.
    """

    place: EventBoundary
    events: tuple[str, ...] = ()
    said: str = ""
    transaction: str = ""
    first_read: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))

    @property
    def read_to_the_end(self) -> bool:
        """True if no further transaction follows in this file."""
        passing = {"format_desc", "previous_gtids", "gtid_list", "binlog_checkpoint", "rotate", "stop"}
        unread = self.events[self.first_read :]
        return self.place is EventBoundary.BOUNDARY and all(event.lower() in passing for event in unread)


@runtime_checkable
class InBinlog(Protocol):
    """A position that includes a place in a binlog file, as MySQL's and MariaDB's do."""

    @property
    def file(self) -> str: ...
    @property
    def place(self) -> BinlogPosition: ...
    @property
    def server_id(self) -> int | None: ...


def in_binlog(position: Position) -> InBinlog:
    """`position` as one in a binary log. Raises PositionError for another kind of source's position."""
    if not isinstance(position, InBinlog):
        raise PositionError(
            f"{position} is a position of a {position.kind} source, which keeps no binary log",
            todo=OTHER_POSITION,
        )
    return position


def place_in_binlog(position: Position | None) -> BinlogPosition | None:
    """The place in a binary log that a position names. Raises PositionError for another kind of source's position."""
    return None if position is None else in_binlog(position).place


def may_be_on(position: InBinlog, server_id: int) -> bool:
    """False if the position names another server. Right after a snapshot a position names no server."""
    return position.server_id is None or position.server_id == server_id


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFacts(SourceFacts):
    """A server that keeps a binary log.

    Attributes:
        server_uuid: "" on a server without one; then nothing identifies its data.
        gtid_mode: None where the server has no such setting.
        at_offset: what is at the connector's position; None if its file is gone or the user may not look into it.
        log_filters: settings that keep changes, or parts of rows, out of its log, as the server names them.
    """

    server_uuid: str = ""
    server_id: int
    gtid_mode: str | None = None
    binlog_files: tuple[BinlogFile, ...]
    current: BinlogPosition
    log_bin: bool
    binlog_format: str
    row_image: str
    at_offset: EventAtPosition | None = None
    log_filters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        SourceFacts.__post_init__(self)  # slots=True creates a new class, which super() would not find
        for name in ("binlog_files", "log_filters"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def server(self) -> str:
        return f"server {self.server_uuid}" if self.server_uuid else f"server_id {self.server_id} at {self.address}"

    @property
    def log_faults(self) -> Mapping[str, str]:
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
        """The file that the server writes now; "" without a log."""
        return self.binlog_files[-1].name if self.binlog_files else ""

    @property
    def sizes(self) -> Mapping[str, int]:
        """File → its size in bytes."""
        return {file.name: file.size for file in self.binlog_files}

    @property
    def oldest(self) -> str | None:
        return f"{self.binlog_files[0].name}:4" if self.binlog_files else None

    @property
    def newest(self) -> str:
        return str(self.current)

    @property
    def more_to_read(self) -> bool:
        look = self.at_offset
        return look is not None and look.place is EventBoundary.BOUNDARY and not look.read_to_the_end

    @abstractmethod
    def by_gtid(self, position: Position) -> bool:
        """True if GTIDs say what was read; file and position are then ignored."""

    @abstractmethod
    def lacks_purged(self, position: Position) -> bool:
        """Whether the server purged transactions that a connector at this position has not read yet."""

    @abstractmethod
    def is_own_log(self, position: Position, known: Collection[str]) -> bool:
        """Whether file and position are of this server's log. With GTIDs they may be another server's after a failover.

        `known`: servers that the pipeline has been read from.
        """

    def needed_file(self, position: Position | None) -> str:
        """The file at which a connector at this position reads on; "" if none is known. Raises PositionError."""
        place = place_in_binlog(position)
        return place.file if place else ""

    def margin(self, position: Position) -> Margin | None:
        place, sizes = in_binlog(position).place, self.sizes
        if not sizes or not self.current.comparable(place):
            return None
        total = sum(sizes.values())
        if self.lacks_purged(position):
            return Margin(0, total)  # file names mean nothing once another server answers at the same address
        if place.file not in sizes:
            older = place.file_number < BinlogPosition(self.binlog_files[0].name, 0).file_number
            return Margin(0, total) if older else None
        before = sum(s for name, s in sizes.items() if BinlogPosition(name, 0).file_number < place.file_number)
        return Margin(min(before + place.pos, total), total)

    def purge_forecast(self, position: Position) -> PurgeForecast | None:
        file = self.needed_file(position)
        if self.retention is None or file not in self.sizes:
            return None
        look, newest = self.at_offset, file == self.newest_file
        # by GTID, a file that was read to its end is no longer needed; by file name it still is
        done = self.by_gtid(position) and not newest and look is not None and look.read_to_the_end
        return purge_forecast(self.retention, in_newest_file=newest or done)


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlFacts(BinlogFacts):
    """A MySQL server. The GTID fields are None where the server has no GTIDs.

    Attributes:
        gtid_owned: transactions under way, read before `gtid_executed`.
        xa: its XA transactions; None if they were not read.
    """

    gtid_executed: GtidSet | None
    gtid_purged: GtidSet | None
    gtid_owned: GtidSet | None = None
    xa: XaState | None = None

    @property
    def executed(self) -> GtidSet:
        """All transactions on the server, those under way included: a connector may have seen those already."""
        return (self.gtid_executed or GtidSet()) | (self.gtid_owned or GtidSet())

    def available(self, position: Position) -> Available:
        return availability(self, mysql_position(position))

    def by_gtid(self, position: Position) -> bool:
        return bool(mysql_position(position).gtids)

    def lacks_purged(self, position: Position) -> bool:
        gtids = mysql_position(position).gtids
        if self.gtid_purged is None or gtids is None:
            return False
        return bool(self.gtid_purged - gtids)

    def is_own_log(self, position: Position, known: Collection[str]) -> bool:
        own = mysql_position(position)
        if not own.gtids:
            return True
        return self.server_uuid in known and may_be_on(own, self.server_id)

    def needed_file(self, position: Position | None) -> str:
        """See BinlogFacts. By GTID nothing of a file is needed that was read, also where the connector still names it."""
        named = BinlogFacts.needed_file(self, position)
        if position is None or not self.by_gtid(position) or self.lacks_purged(position) or not self.binlog_files:
            return named
        if self.read_all(position):
            return self.newest_file
        return named if named in self.sizes else self.binlog_files[0].name

    def margin(self, position: Position) -> Margin | None:
        if self.sizes and self.by_gtid(position) and self.read_all(position):
            total = sum(self.sizes.values())
            return Margin(total, total)
        return BinlogFacts.margin(self, position)

    def read_all(self, position: Position) -> bool:
        own = mysql_position(position)
        if self.gtid_mode == "ON" and not own.by_file:
            return bool(own.gtids) and self.executed.issubset(own.gtids or GtidSet())
        place = own.place
        return place.comparable(self.current) and place >= self.current

    def behind(self, position: Position) -> int | None:
        gtids = mysql_position(position).gtids
        if self.gtid_executed is None or gtids is None:
            return None
        return (self.gtid_executed - gtids).count


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlReplicaFacts(ReplicaFacts):
    """A MySQL server that replicates from the source.

    Attributes:
        sources: server_uuids that it replicates from, one per channel; () if it does not replicate.
        log_updates: whether it logs what it replicates.
        filters: settings by which it logs a GTID without its rows, or applies rows unlogged, as the server names them.
    """

    server_uuid: str
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
        for name in ("sources", "filters"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
