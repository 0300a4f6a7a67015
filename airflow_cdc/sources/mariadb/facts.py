"""A MariaDB server's GTID facts, read by statements that change nothing and need no extra privilege."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Availability, Available, Position
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.gtid import MariaDbSpans, MariaDbState
from airflow_cdc.sources.mariadb.position import MariaDbPosition, mariadb_position
from airflow_cdc.sources.mysql.availability import file_available
from airflow_cdc.sources.mysql.facts import BinlogFacts, BinlogFile, EventAtPosition, may_be_on
from airflow_cdc.sources.mysql.session import Session


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """A MariaDB server's GTID facts.

    Attributes:
        logged: gtid_binlog_state.
        purged: the GTID position at which the oldest log file begins; no file holds the transactions up to it.
        begins: the GTID position at which the file of the connector's position begins; None if the file is gone.
        hole: transactions after the connector's position that no file holds, because the end of one was cut off.
    """

    logged: MariaDbState
    purged: Domains
    begins: Domains | None = None
    hole: MariaDbSpans = field(default_factory=MariaDbSpans)


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbFacts(BinlogFacts):
    """A MariaDB server.

    Attributes:
        domains: None without a log.
        compressed: log_bin_compress. Debezium (3.5.0) silently skips changes that were logged compressed.
        xa: its XA transactions; None if they were not read.
    """

    domains: DomainFacts | None = None
    compressed: bool = False
    xa: XaState | None = None

    @property
    def log_faults(self) -> Mapping[str, str]:
        own = {"log_bin_compress": "ON, must be OFF"} if self.compressed else {}
        # slots=True creates a new class, so super() without arguments would fail
        return {**super(MariaDbFacts, self).log_faults, **own}

    def available(self, position: Position) -> Available:
        """Whether the log still has all changes after `position`: by GTID if it has GTIDs, else by file and position.

        LOST: in some domain the oldest file begins after the position. NOT_YET: the server never logged one of the
        position's transactions.
        """
        here = mariadb_position(position)
        if not self.log_bin:
            return Available(Availability.LOST, "the binary log is off on this server")
        if not here.domains:
            return file_available(self, here.place)
        if self.domains is None:
            return Available(Availability.UNKNOWN, "the server says nothing of its GTIDs")
        if unseen := self.unseen(here):
            return Available(Availability.NOT_YET, f"not logged on this server: {unseen}")
        gone = {
            "purged before they were read": self.domains.purged - here.domains,
            "in no file of the log": self.domains.hole,
        }
        for why, missing in gone.items():
            if missing:
                return Available(Availability.LOST, f"{why}: {missing}")
        return Available(Availability.AVAILABLE, "every transaction after the stored place is still in the log")

    def by_gtid(self, position: Position) -> bool:
        return bool(mariadb_position(position).domains)

    def unseen(self, position: MariaDbPosition) -> Domains:
        """The transactions of the position that this server lost or never logged."""
        if self.domains is None or position.domains is None:
            return Domains()
        return self.domains.logged.lacks(position.domains)

    def lacks_purged(self, position: Position) -> bool:
        domains = mariadb_position(position).domains
        if self.domains is None or domains is None:
            return False
        return bool(self.domains.purged - domains)

    def is_own_log(self, position: Position, known: Collection[str]) -> bool:  # noqa: ARG002 - the position names no server
        """Whether the position was written under this server's id, in a file that begins before the stored GTIDs.

        After a failover a file of the same name is another file. That it also holds the stored GTIDs proves nothing,
        because servers that apply the same changes rotate at about the same time.
        """
        own = mariadb_position(position)
        if not own.domains:
            return True
        begins = None if self.domains is None else self.domains.begins
        return begins is not None and begins.issubset(own.domains) and may_be_on(own, self.server_id)

    def read_all(self, position: Position) -> bool:
        """Whether nothing was logged after the position; without GTIDs, file and position decide."""
        own = mariadb_position(position)
        if own.domains:
            return self.domains is not None and self.domains.logged.position.issubset(own.domains)
        return own.place.comparable(self.current) and own.place >= self.current

    def behind(self, position: Position) -> int | None:
        domains = mariadb_position(position).domains
        if self.domains is None or domains is None:
            return None
        return (self.domains.logged.position - domains).count


def events_of(look: EventAtPosition) -> int | None:
    """How many events the transaction at a place has, if it is a single statement; at the head of a file, as many.

    None for a transaction of rows, whose events are not counted here.
    """
    kinds = tuple(kind.lower() for kind in look.events)
    alone = kinds[:2] == ("gtid", "query") and kinds[2:] not in (("query",), ("xid",))
    return 2 if alone or kinds[:1] == ("format_desc",) else None


# a file's head lists the transactions before it; we read only this much of it
_HEAD = 4


def is_compressed(session: Session) -> bool:
    """Whether the server now compresses large changes in its log. Raises SourceError."""
    rows = session.rows("SHOW GLOBAL VARIABLES LIKE 'log_bin_compress'", doing="read whether the log is compressed")
    return any(str(row["Value"]).upper() == "ON" for row in rows)


def domain_facts(session: Session, files: Sequence[BinlogFile]) -> DomainFacts:
    """What was logged, and which part of it no file still holds. `files` is not empty. Raises SourceError.

    If the oldest file is purged after `files` was listed and before it is read, the facts are unknown this time.
    """
    row = session.row("SELECT @@GLOBAL.gtid_binlog_state AS state", doing="read gtid_binlog_state")
    purged = begins(session, files[0].name)
    if purged is None:
        raise SourceError(
            f"{files[0].name} was listed, and is gone or unreadable now", where=session.where, todo="Look again."
        )
    return DomainFacts(MariaDbState.parse(row.text("state")), purged)


def begins(session: Session, file: str) -> Domains | None:
    """The GTID position at which a log file begins; None if there is no such file."""
    row = session.row(
        "SELECT BINLOG_GTID_POS(%s, %s) AS place", (file, _HEAD), doing=f"read the place at which {file} begins"
    )
    return None if row["place"] is None else Domains.parse(str(row["place"]))


def hole(session: Session, files: Sequence[BinlogFile], stored: Domains) -> MariaDbSpans:
    """Transactions between the end of the file that a reader at `stored` continues in and the beginning of the next.

    A server that reads its log for a connector passes over them without an error. Each file begins where those before it
    end, so the file is found by halving: a server may hold thousands.
    """

    def is_later(file: BinlogFile) -> bool:
        start = begins(session, file.name)
        return start is None or not start.issubset(stored)

    later = bisect_left(files, True, key=is_later)
    if later in (0, len(files)):
        return MariaDbSpans()
    after, ends = begins(session, files[later].name), _ends(session, files[later - 1])
    return MariaDbSpans() if after is None or ends is None else after - (ends | stored)


def _ends(session: Session, file: BinlogFile) -> Domains | None:
    """The GTID position at which a log file ends; None if the server cannot tell."""
    row = session.row(
        "SELECT BINLOG_GTID_POS(%s, %s) AS place",
        (file.name, file.size),
        doing=f"read the place at which {file.name} ends",
    )
    return None if row["place"] is None else Domains.parse(str(row["place"]))
