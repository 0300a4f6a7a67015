"""Positions in a MariaDB server's log that match exactly what a read shows.

START TRANSACTION WITH CONSISTENT SNAPSHOT opens a view that holds all transactions up to one place in the log and none
after it. The session's status shows that place. This locks nothing, rotates nothing and waits for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.server_log import ServerIdentity, wait_for_xa
from airflow_cdc.sources.mysql.session import Session

OPEN_VIEW: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
XA_SECONDS: Final = 30.0
_TRIES: Final = 5
# the events of a transaction that is a single statement
_STATEMENT: Final = ("Gtid", "Query")
_PREPARES: Final = (
    "(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_XA_PREPARE')"
)


class Place(NamedTuple):
    """A read view's position in the log, and how many XA PREPAREs the server had run when it was opened."""

    file: str
    pos: int
    prepares: int


def _own(name: str) -> str:
    return f"(SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = '{name}')"


VIEW_PLACE: Final = (
    f"{_own('BINLOG_SNAPSHOT_FILE')} AS snapshot_file, {_own('BINLOG_SNAPSHOT_POSITION')} AS snapshot_pos,"
    f" {_PREPARES} AS prepares"
)


def settled_prepares(session: Session, timeout: float = XA_SECONDS) -> int:
    """Wait until no XA transaction is prepared, and return how often XA PREPARE has run so far.

    The rows of an XA transaction enter the log at PREPARE, but become visible only at COMMIT. The place of a view
    opened between the two would wrongly include them. If the number is still the same when the view is open, there was
    no such transaction. Raises SourceError after `timeout` seconds.
    """
    prepares = session.row(f"SELECT {_PREPARES} AS n", doing="count XA PREPARE").number("n")
    wait_for_xa(session, timeout)
    return prepares


def open_view(session: Session, timeout: float = XA_SECONDS) -> Place:
    """Open a read view that holds all transactions up to its place and none after it (INV 19). Raises SourceError."""
    for _ in range(_TRIES):
        prepares = settled_prepares(session, timeout)
        place = _open(session)
        if place.prepares == prepares:
            return place
        session.run("COMMIT", doing="close the read view")
    raise SourceSettingError(
        "XA transactions are prepared all the time, so no read view has an exact position",
        where=session.where,
        todo="Try again when fewer are.",
    )


def _open(session: Session) -> Place:
    session.run(OPEN_VIEW, doing="open a read view")
    row = session.row(f"SELECT {VIEW_PLACE}", doing="read the position of the read view")
    if not row["snapshot_file"]:
        raise SourceSettingError(
            "the binary log is off", where=session.where, todo="Start the server with --log-bin; CDC reads it."
        )
    return Place(str(row["snapshot_file"]), row.number("snapshot_pos"), row.number("prepares"))


def position_at(session: Session, file: str, pos: int) -> MariaDbPosition:
    """The GTID position of a place in the log. Raises SourceError, also if the file is gone or has no GTIDs."""
    row = session.row(
        "SELECT BINLOG_GTID_POS(%s, %s) AS gtids", (file, pos), doing=f"read the GTIDs before {file}:{pos}"
    )
    if row["gtids"] is None:
        raise SourceError(
            f"{file} was purged while its position was read",
            where=session.where,
            todo="Try again; if it stays so, keep the log longer (expire_logs_days, binlog_expire_logs_seconds).",
        )
    domains = Domains.parse(str(row["gtids"]))
    if domains.is_empty:
        raise SourceSettingError(
            f"no transaction stands before {file}:{pos}, and Debezium cannot start from a position without GTIDs",
            where=session.where,
            todo="Let the server log one transaction, then try again.",
        )
    return MariaDbPosition(file, pos, domains)


def has_read(session: Session, here: MariaDbPosition, last: MariaDbGtid) -> bool:
    """Whether a connector has read the transaction `last`, the only one that its GTIDs lack.

    It has if its place is behind that transaction, as after a rotation of the log. Or if the transaction begins there,
    is a single statement (a DDL, an account) and no more, and the connector has read both of its events.
    """
    doing = "look at the transaction behind the stored offset"
    row = session.row("SELECT BINLOG_GTID_POS(%s, %s) AS gtids", (here.file, here.pos), doing=doing)
    if row["gtids"] is None:
        return False  # no such file: the place is another server's
    if Domains((last,)).issubset(Domains.parse(str(row["gtids"]))):
        return True
    if here.read < len(_STATEMENT):
        return False
    events = session.rows(f"SHOW BINLOG EVENTS IN '{here.file}' FROM {here.pos} LIMIT {len(_STATEMENT)}", doing=doing)
    kinds = tuple(str(event["Event_type"]) for event in events)
    # a transaction of rows says "BEGIN GTID 0-1-7"
    return kinds == _STATEMENT and str(events[0]["Info"]).split()[:2] == ["GTID", str(last)]


def visible(session: Session) -> MariaDbPosition:
    """The position that a read starting now shows, except for prepared XA transactions."""
    place = _open(session)
    session.run("COMMIT", doing="close the read view")
    return position_at(session, place.file, place.pos)


def as_watermark(position: MariaDbPosition, identity: ServerIdentity) -> Watermark:
    """The position as a watermark of the server that answers, with that server's time."""
    return Watermark(replace(position, server_id=identity.server_id), identity.server_uuid, identity.now)
