"""Read positions, wait for visibility and judge availability on an open MySQL session."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from airflow_cdc.core.errors import DeadlineError, MissingPrivilegeError, SourceError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.errors import SourceSettingError, WrongServerError
from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from airflow_cdc.sources.mysql.facts import BinlogFile
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, mysql_position
from airflow_cdc.sources.mysql.session import QUICK_READ_S, Session, session_pins

_OWNER: Final = re.compile(r"#\d+")
START_OF_FILE: Final = 4
_USUAL_FORMAT: Final = 1
_LOG_FILTERS: Final = ("Binlog_Do_DB", "Binlog_Ignore_DB")
_HEADER_EVENTS: Final = frozenset({"format_desc", "previous_gtids"})


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The server that answers, how long it has run (`uptime_s`), and its own clock (`now`, UTC).

    `server_uuid` is "" on a server without one. MariaDB derives @@server_uid from the machine's network address and
    port, so other data at the same address has the same one; sources/mariadb identifies a run of the server instead.
    """

    server_uuid: str
    server_id: int
    uptime_s: int
    now: datetime


@dataclass(frozen=True, slots=True)
class XaTransaction:
    """A prepared XA transaction: in the log, not visible, its outcome open (INV 8)."""

    format_id: int
    gtrid_length: int
    bqual_length: int
    data: str

    @property
    def name(self) -> str:
        """The id as XA statements take it: 'w3', or 'w3','b',5 with a branch and a format of its own.

        The server shows it as hexadecimal digits (0x7733), or MariaDB as SQL already.
        """
        if not re.fullmatch(r"0x([0-9A-Fa-f]{2})*", self.data):
            return self.data
        raw = bytes.fromhex(self.data[2:])
        own, branch = raw[: self.gtrid_length], raw[self.gtrid_length :]
        plain = self.format_id == _USUAL_FORMAT
        parts = [_xid_text(own), *([_xid_text(branch)] if branch or not plain else [])]
        return ",".join(parts if plain else [*parts, str(self.format_id)])


def _xid_text(part: bytes) -> str:
    """A part of an XA id as an XA statement takes it."""
    text = part.decode("ascii", "replace")
    return f"'{text}'" if text.isprintable() and text.isascii() and "'" not in text else f"X'{part.hex()}'"


@dataclass(frozen=True, slots=True)
class Status:
    position: BinlogPosition
    gtids: GtidSet | None


def quote_set(text: str) -> str:
    if not re.fullmatch(r"[0-9a-zA-Z:,_\-]*", text):
        raise SourceError(
            f"{text[:60]!r} is not a server uuid or GTID set", todo="Correct it: a set looks like <uuid>:1-5."
        )
    return f"'{text}'"


def read_settings(session: Session) -> dict[str, str]:
    names = "'log_bin', 'gtid_mode', 'binlog_format', 'binlog_row_image'"
    rows = session.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})", doing="read the server's settings")
    return {row.text("Variable_name").lower(): row.text("Value").upper() for row in rows}


def read_identity(session: Session) -> ServerIdentity:
    """Which server answers on this session."""
    uuid = "@@server_uuid" if session.version.can(Capability.SERVER_UUID) else "''"
    row = session.row(
        f"SELECT {uuid} AS uuid, @@server_id AS id, DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%f') AS now",
        doing="read the server's identity",
    )
    up = session.row("SHOW GLOBAL STATUS LIKE 'Uptime'", doing="read the server's uptime")
    now = datetime.fromisoformat(row.text("now")).replace(tzinfo=UTC)
    return ServerIdentity(str(row["uuid"]).lower(), row.number("id"), with_sign(up.number("Value")), now)


def with_sign(number: int) -> int:
    """A counter that the server keeps in 64 bits without a sign: its uptime is below 0 once its clock is set to before its start."""
    return number - 2**64 if number >= 2**63 else number


def list_binlog_files(session: Session) -> tuple[BinlogFile, ...]:
    rows = session.rows("SHOW BINARY LOGS", doing="list the binlog files")
    return tuple(BinlogFile(str(row["Log_name"]), row.number("File_size")) for row in rows)


def log_status_statement(session: Session) -> str:
    """The statement that shows the log's position and filters, by its name on this server."""
    new = session.version.can(Capability.SHOW_BINARY_LOG_STATUS)
    return "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS"


def read_status(session: Session) -> Status:
    row = session.row(log_status_statement(session), doing="read the binlog position")
    gtids = row.get("Executed_Gtid_Set")
    return Status(
        BinlogPosition(str(row["File"]), row.number("Position")), None if gtids is None else GtidSet.parse(str(gtids))
    )


def log_filters(session: Session) -> tuple[str, ...]:
    """Settings that keep some databases' changes, or parts of rows, out of this server's log: "name value" (INV 31).

    A session may set binlog_row_value_options and sql_log_bin for itself, which cannot be seen from here.
    """
    rows = session.rows(log_status_statement(session), doing="read the binlog's filters")
    filters = tuple(f"{name.lower()} {row[name]}" for row in rows for name in _LOG_FILTERS if row.get(name))
    partial = session.rows("SHOW GLOBAL VARIABLES LIKE 'binlog_row_value_options'", doing="read what rows are logged")
    return filters + tuple(f"{row['Variable_name']} {row['Value']}" for row in partial if row["Value"])


def executed_and_purged(session: Session) -> tuple[GtidSet, GtidSet]:
    """gtid_executed and gtid_purged, read in one statement."""
    row = session.row(
        "SELECT @@GLOBAL.gtid_executed AS executed, @@GLOBAL.gtid_purged AS purged", doing="read the GTID sets"
    )
    return GtidSet.parse(row.text("executed")), GtidSet.parse(row.text("purged"))


def owned_gtids(session: Session) -> GtidSet:
    """GTIDs of transactions under way: in `uuid:23#4:24#7` the owning thread follows each number."""
    row = session.row("SELECT @@GLOBAL.gtid_owned AS gtids", doing="read gtid_owned")
    return GtidSet.parse(_OWNER.sub("", row.text("gtids")))


def gtid_point(session: Session) -> Status:
    """One status statement, between two reads of the set that prove that the same server answered."""
    before, _ = executed_and_purged(session)
    status = read_status(session)
    after, _ = executed_and_purged(session)
    gtids = status.gtids
    if gtids is None or not (before.issubset(gtids) and gtids.issubset(after)):
        raise WrongServerError(
            "the executed GTID set shrank while the watermark was taken: two servers answer here",
            where=session.where,
            todo="Connect to the server itself and not through a proxy that spreads reads.",
        )
    return status


def rotated_point(session: Session) -> Status:
    """Rotate the log. The rotation waits for commits under way, so the new file holds only what comes after them."""
    before = read_status(session).position
    session.run("FLUSH LOCAL BINARY LOGS", doing="rotate the binlog")
    after = read_status(session).position
    if not after.comparable(before) or after.file_number <= before.file_number:
        raise WrongServerError(
            f"the binlog was rotated but is now at {after}, and was at {before}: two servers answer here",
            where=session.where,
            todo="Connect to the server itself and not through a proxy that spreads reads.",
        )
    return Status(BinlogPosition(after.file, START_OF_FILE), None)


def start_if_empty(session: Session, position: BinlogPosition) -> BinlogPosition:
    """The start of the file if the file holds only its header, else `position`.

    A connector that has read everything is at 4 in a fresh file, and stays there on a quiet server: a wait for it
    to pass the header would never end. Without the privilege the position is returned unchanged.
    """
    try:
        events = session.rows(f"SHOW BINLOG EVENTS IN '{position.file}' LIMIT 4", doing="look into the binlog file")
    except MissingPrivilegeError:
        return position
    empty = all(str(event["Event_type"]).lower() in _HEADER_EVENTS for event in events)
    return BinlogPosition(position.file, START_OF_FILE) if empty else position


def as_watermark(status: Status, identity: ServerIdentity) -> Watermark:
    position = MySqlPosition(status.position.file, status.position.pos, status.gtids, identity.server_id)
    return Watermark(position, identity.server_uuid, identity.now)


def require_log(settings: dict[str, str], where: str) -> None:
    if settings.get("log_bin") != "ON":
        raise SourceSettingError(
            "the binary log is off", where=where, todo="Start the server with --log-bin; CDC reads it."
        )


def require_same(identity: ServerIdentity, server_uuid: str, where: str) -> None:
    if identity.server_uuid != server_uuid:
        raise WrongServerError(
            f"the connection reaches server {identity.server_uuid}, not {server_uuid}",
            where=where,
            todo="Point the connection at the server itself, or start a new recovery on this one.",
        )


def prepared_xa(session: Session) -> frozenset[XaTransaction]:
    how = "CONVERT XID" if session.version.can(Capability.CONVERT_XID) else "FORMAT = 'SQL'"
    rows = session.rows(f"XA RECOVER {how}", doing="list prepared XA transactions")
    return frozenset(
        XaTransaction(r.number("formatID"), r.number("gtrid_length"), r.number("bqual_length"), str(r["data"]))
        for r in rows
    )


def read_xa(session: Session, identity: ServerIdentity) -> XaState | None:
    """The server's XA counters and its open XA transactions; None on a server without a server_uuid."""
    if not identity.server_uuid:
        return None
    names = "'Com_xa_prepare', 'Com_xa_rollback'"
    rows = session.rows(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})", doing="read the XA counters")
    counts = {str(row["Variable_name"]).lower(): row.number("Value") for row in rows}
    try:
        prepared = tuple(sorted(xa.name for xa in prepared_xa(session)))
    except MissingPrivilegeError:
        prepared = ()
    started_at = identity.now.timestamp() - identity.uptime_s
    return XaState(
        identity.server_uuid,
        started_at,
        counts.get("com_xa_prepare", 0),
        counts.get("com_xa_rollback", 0),
        prepared,
    )


def wait_for_xa(session: Session, timeout: float) -> None:
    """Wait until every XA transaction prepared before now has ended. New ones may come: they are after W."""
    deadline = time.monotonic() + timeout
    _await_xa(session, _preparing(session), _preparing, deadline)
    _await_xa(session, prepared_xa(session), prepared_xa, deadline)


def _preparing(session: Session) -> frozenset[XaTransaction]:
    """XA PREPARE statements under way, which are logged a moment before XA RECOVER lists them."""
    used = session.row("SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'", doing="read the XA counter")
    if not used.number("Value"):
        return frozenset()
    # other users' sessions are shown only to users who may look at transactions
    session.rows("SELECT 1 AS one FROM information_schema.INNODB_TRX LIMIT 1", doing="see sessions in XA PREPARE")
    rows = session.rows("SHOW PROCESSLIST", doing="see sessions in XA PREPARE")
    running = (r for r in rows if str(r["Info"] or "").upper().split()[:2] == ["XA", "PREPARE"])
    return frozenset(XaTransaction(0, 0, 0, f"connection {r['Id']} in XA PREPARE") for r in running)


def _await_xa(
    session: Session,
    pending: frozenset[XaTransaction],
    look: Callable[[Session], frozenset[XaTransaction]],
    deadline: float,
) -> None:
    def ended() -> bool:
        if left := pending and pending & look(session):
            raise NotYet(", ".join(sorted(xa.name for xa in left)))
        return True

    try:
        poll_until(ended, timeout=deadline - time.monotonic(), interval=0.1, what="prepared XA transactions end")
    except DeadlineError as late:
        raise SourceSettingError(
            f"prepared XA transactions stay open, so no watermark can be taken: {late.last}",
            where=session.where,
            todo="End them with XA COMMIT or XA ROLLBACK, then try again.",
        ) from late


def wait_slice(session: Session, gtids: GtidSet, left: float) -> bool:
    """One bounded wait. The server's function takes whole seconds, and 0 would mean for ever."""
    seconds = max(1, min(math.ceil(left), int(QUICK_READ_S) // 2))
    row = session.row(
        "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s) AS late", (str(gtids), seconds), doing="wait for the watermark"
    )
    return row.number("late") == 0


def parse_time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def reading_init_statement(watermark: Watermark, version: ServerVersion) -> str:
    """See MySqlSource.init_statement; pure, so that a Spark driver can build it from JSON."""
    uuid, gtids = quote_set(watermark.server), mysql_position(watermark.position).gtids
    same = f"@@server_uuid = {uuid}"
    if gtids is not None:
        same += f" AND GTID_SUBSET({quote_set(str(gtids))}, @@GLOBAL.gtid_executed)"
    if version.can(Capability.ERROR_TEXT_IN_SET):
        # UUID_TO_BIN is evaluated only when the check fails, and its error then quotes this text
        text = f"CONCAT('server ', @@server_uuid, ' is not {watermark.server}, or lags behind it')"
        check = f"IF({same}, 1, UUID_TO_BIN({text}))"
    else:
        check = f"(SELECT 1 UNION ALL SELECT 2 FROM DUAL WHERE NOT ({same}))"
    return f"SET {', '.join([*session_pins(version), f'@cdc_check := {check}'])}"
