"""What diagnosis, forecast and throttle read from a MySQL server beyond its settings: read-only, milliseconds per answer.

A result is None (or empty) if the user lacks the privilege for it: a diagnosis then says less, never something else.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.sources.mysql.facts import BinlogFile, EventAtPosition, EventBoundary
from airflow_cdc.sources.mysql.forecast import LogFile
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.replica import replication_status
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session, open_connection
from airflow_cdc.sources.row import Row

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import ThrottlePolicy

_LOOK_EVENTS: Final = 3
# what ends a transaction, and a statement. A place that we wrote ourselves is where a GTID's event begins.
_LAST_READ: Final = (("Xid",), ("Query",))
# from MySQL 5.7 without checksums to 9.x with a tag of 32 characters
_GTID_EVENT_SIZES: Final = range(61, 200)
_GTID_NEXT: Final = re.compile(r"GTID_NEXT\s*=\s*'([^']+:\d+)'")
_UNREADABLE: Final = 1220  # "Error when executing command SHOW BINLOG EVENTS: …"
_DUMP: Final = 0x12  # COM_BINLOG_DUMP
_DUMP_NON_BLOCK: Final = 1
_HEADER: Final = struct.Struct("<IBIIIH")  # timestamp, type, server id, size, next position, flags
_ROTATE: Final = 4
_PACKETS: Final = 3
_DAY_S: Final = 86400
_HOUR_S: Final = 3600
_BEHIND: Final = ("seconds_behind_source", "seconds_behind_master")


def inspect_position(
    session: Session, position: BinlogPosition, files: Sequence[BinlogFile], *, last_read: bool = False
) -> EventAtPosition | None:
    """What the log holds at a position. None: the file is gone or ends before it, or the user may not read it.

    `last_read`: the last event that was read begins there.
    """
    sizes = {file.name: file.size for file in files}
    if position.file not in sizes or position.pos > sizes[position.file]:
        return None
    try:
        events, error = _events_from(session, position)
        after, _ = _events_from(session, replace(position, pos=position.pos + 1))
    except MissingPrivilegeError:
        return None
    place = EventBoundary.INSIDE if error else _place(position, sizes[position.file], events, after)
    types = tuple(str(event["Event_type"]) for event in events)
    begins = place is EventBoundary.BOUNDARY and types[:1] == ("Query",)
    gtid = _gtid_before(session, position) if begins and not last_read else ""
    return EventAtPosition(place, types, error, gtid, first_read=last_read and types[:1] in _LAST_READ)


def _gtid_before(session: Session, position: BinlogPosition) -> str:
    """The GTID of the event that ends at a position; "" if no such event does.

    The log has no way back from an event to the one before it, so every size that such an event may have is tried.
    """
    for size in _GTID_EVENT_SIZES:
        if size > position.pos:
            break
        events, _ = _events_from(session, replace(position, pos=position.pos - size), most=1)
        gtid = _GTID_NEXT.search(str(events[0]["Info"])) if events else None
        if gtid and (events[0].number("Pos"), events[0].number("End_log_pos")) == (position.pos - size, position.pos):
            return gtid[1]
    return ""


def _events_from(session: Session, position: BinlogPosition, most: int = _LOOK_EVENTS) -> tuple[list[Row], str]:
    """The events that the server shows from a place on, and its message if it cannot read an event there."""
    sql = f"SHOW BINLOG EVENTS IN '{position.file}' FROM {position.pos} LIMIT {most}"
    try:
        return session.rows(sql, doing="look at the stored position"), ""
    except SourceError as error:
        if f"[{_UNREADABLE}]" not in error.what or "could not find target log" in error.what.lower():
            raise
        return [], error.what


def _place(position: BinlogPosition, size: int, events: Sequence[Row], after: Sequence[Row]) -> EventBoundary:
    """Whether an event begins at the position; `events` are shown from there on, `after` from one byte further.

    Bytes inside an event can look like one: then the place that the server shows for it, or for the next, is another.
    For a place inside the events at a file's head, a server shows the next event as if it began right there: 8.0.15
    shows the event at 274 for 196 to 274. In that case the server shows the same event again from one byte further,
    while from an event's real beginning it shows a different one.
    """
    if not events:
        return EventBoundary.BOUNDARY if position.pos == size else EventBoundary.INSIDE
    places = [event.number("Pos") for event in events]
    ends = [event.number("End_log_pos") for event in events]
    follows = all(end == begin for end, begin in zip(ends, places[1:], strict=False)) and ends[-1] > places[-1]
    shown_again = bool(after) and after[0].number("End_log_pos") == ends[0]
    return EventBoundary.BOUNDARY if places[0] == position.pos and follows and not shown_again else EventBoundary.INSIDE


def retention(session: Session, endpoint: MySqlEndpoint, file: str, files: Sequence[BinlogFile]) -> Retention | None:
    """The server's rule for removing files, and when `file` was closed ("" or the newest file: not yet).

    None if it removes files by their total size: then no time says how long a file stays.
    """
    if _limited_by_size(session):
        return None
    row = session.row("SELECT UNIX_TIMESTAMP(NOW(6)) AS now", doing="read the server's clock")
    names = [entry.name for entry in files]
    closed = None
    if file in names[:-1]:
        closed = began(endpoint, names[names.index(file) + 1])  # a file is closed when the next one begins
    managed = managed_expire_seconds(session)
    return Retention(expire_seconds(session) if managed is None else managed, row.real("now"), closed)


def required_retention(session: Session, endpoint: MySqlEndpoint, file: str, files: Sequence[BinlogFile]) -> Retention:
    """As `retention`. Raises SourceError if no time says how long the file stays, and if it is gone."""
    if file not in {one.name for one in files}:
        raise SourceError(f"{file} is not on the server", where=session.where, todo="Ask `diagnose` why.")
    if (rule := retention(session, endpoint, file, files)) is None:
        raise SourceError(
            "the server removes log files by their total size, so no time says how long one stays",
            where=session.where,
            todo="Watch the margin in bytes instead: the metric cdc.retention_left.",
        )
    return rule


def managed_expire_seconds(session: Session) -> int | None:
    """The retention that a managed service keeps beside the server's variables; None if there is none.

    If the service has none set, it removes files as soon as it does not need them itself: we count that as a second.
    """
    there = session.rows(
        "SELECT 1 AS one FROM information_schema.ROUTINES"
        " WHERE ROUTINE_SCHEMA = 'mysql' AND ROUTINE_NAME = 'rds_show_configuration'",
        doing="look for the service's own settings",
    )
    if not there:
        return None
    rows = session.rows("CALL mysql.rds_show_configuration()", doing="read the service's own settings")
    hours = next((row.real_or_null("value") for row in rows if row["name"] == "binlog retention hours"), None)
    return max(1, int(hours * _HOUR_S)) if hours is not None else 1


def expire_seconds(session: Session) -> int:
    """How long the server keeps a closed file; 0: for ever (or until somebody's own job removes it)."""
    names = "'binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge'"
    rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", doing="read the log's retention")
    variables = {str(row["Variable_name"]).lower(): str(row["Value"]).upper() for row in rows}
    if variables.get("binlog_expire_logs_auto_purge", "ON") in ("OFF", "0"):
        return 0
    days = float(variables.get("expire_logs_days") or 0)
    return int(variables.get("binlog_expire_logs_seconds") or 0) or int(days * _DAY_S)


def _limited_by_size(session: Session) -> bool:
    """MariaDB from 11.4 on, and Percona's builds, can limit the log's total size."""
    names = "'max_binlog_total_size', 'binlog_space_limit'"
    rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", doing="read the log's limit of size")
    return any(row.number("Value") for row in rows)


def max_file_size(session: Session) -> int:
    """max_binlog_size in bytes: the server rotates a file that is larger."""
    row = session.row("SELECT @@GLOBAL.max_binlog_size AS size", doing="read max_binlog_size")
    return row.number("size")


def timed_files(endpoint: MySqlEndpoint, files: Sequence[BinlogFile], newest: int) -> tuple[LogFile, ...]:
    """The newest files with the time each was created; one short connection per file."""
    return tuple(LogFile(file.name, file.size, began(endpoint, file.name)) for file in files[-newest:])


def began(endpoint: MySqlEndpoint, file: str) -> float | None:
    """When a log file was started (epoch seconds), from the header of its first event. None: not allowed, or gone.

    No statement tells it, so we ask for the file as a replica would, and end the connection after the first
    events. The server id is from the upper half of its range, which no real replica has by accident.
    """
    try:
        connection = open_connection(endpoint, read_timeout=endpoint.connect_timeout)
    except SourceError:
        return None
    try:
        return _first_event(connection, file)
    except (pymysql.MySQLError, OSError, struct.error):
        return None
    finally:
        with suppress(pymysql.MySQLError, OSError):
            _inside(connection)._force_close()  # noqa: SLF001 - COM_QUIT would wait until the dump ends


def _first_event(connection: Connection[Cursor], file: str) -> float | None:
    with connection.cursor() as cursor:
        checksum = "@@GLOBAL.binlog_checksum"
        cursor.execute(f"SET @master_binlog_checksum = {checksum}, @source_binlog_checksum = {checksum}")
    server_id = random.randrange(2**31, 2**32)  # noqa: S311 - not used as a secret
    request = struct.pack("<IHI", 4, _DUMP_NON_BLOCK, server_id) + file.encode()
    _inside(connection)._execute_command(_DUMP, request)  # noqa: SLF001
    for _ in range(_PACKETS):
        data = _inside(connection)._read_packet().get_all_data()  # noqa: SLF001
        timestamp, kind, *_rest = _HEADER.unpack(data[1 : 1 + _HEADER.size])
        if kind != _ROTATE:  # the server first sends an artificial event, without a time
            return float(timestamp)
    return None


def _inside(connection: Connection[Cursor]) -> Any:
    """PyMySQL has no call for reading the log, so we use its internal parts."""
    return connection


def seen_replicas(session: Session) -> tuple[str, ...]:
    """Clients that read the log now, replicas and connectors, as "user at host:port"; () for a user without PROCESS.

    Not by SHOW SLAVE HOSTS: it reads the session of each client that registered as a replica, also of one that is gone
    since, so that a look at it ended MySQL 8.0.15 (https://github.com/percona/percona-server/pull/2589).
    """
    rows = session.rows("SHOW PROCESSLIST", doing="list who reads the log")
    return tuple(f"{row['User']} at {row['Host']}" for row in rows if str(row["Command"]).startswith("Binlog Dump"))


def read_load(session: Session, limits: ThrottlePolicy) -> SourceLoad:
    """What the limits are about. The lag needs REPLICATION CLIENT (MariaDB: SLAVE MONITOR); raises SourceError."""
    running = _running(session) if limits.threads_running else None
    if not limits.replica_lag:
        return SourceLoad(running)
    behind = [_behind(row) for row in replication_status(session)]
    if None in behind:
        return SourceLoad(running, lag_unknown="its replication is stopped")
    return SourceLoad(running, max((seconds for seconds in behind if seconds is not None), default=None))


def _running(session: Session) -> int:
    row = session.row("SHOW GLOBAL STATUS LIKE 'Threads_running'", doing="ask how busy the server is")
    return max(0, row.number("Value") - 1)


def _behind(row: Row) -> float | None:
    """Of one channel; NULL while its applier or its receiver does not run."""
    return next((row.real_or_null(name) for name in _BEHIND if name in row), None)
