"""Positions in a MariaDB server's log, each exactly that of what a read shows.

START TRANSACTION WITH CONSISTENT SNAPSHOT opens a view that holds all transactions up to one place in the log and none
after it, and the session's status says which place: nothing is locked, rotated or waited for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.errors import SourceSettingError
from airflow_cdc.sources.mysql.server_log import ServerIdentity
from airflow_cdc.sources.mysql.session import Session

OPEN_VIEW: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
_FILE: Final = "BINLOG_SNAPSHOT_FILE"
_POS: Final = "BINLOG_SNAPSHOT_POSITION"


def status_sql(name: str) -> str:
    """A subquery: one value of the session's own status."""
    return f"(SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = '{name}')"


VIEW_PLACE: Final = f"{status_sql(_FILE)} AS snapshot_file, {status_sql(_POS)} AS snapshot_pos"


def open_view(session: Session) -> tuple[str, int]:
    """Open a read view; its (file, position) in the log. Raises SourceError."""
    session.run(OPEN_VIEW, doing="open a read view")
    row = session.row(f"SELECT {VIEW_PLACE}", doing="read the position of the read view")
    if not row["snapshot_file"]:
        raise SourceSettingError(
            "the binary log is off", where=session.where, todo="Start the server with --log-bin; CDC reads it."
        )
    return str(row["snapshot_file"]), int(row["snapshot_pos"])


def position_at(session: Session, file: str, pos: int) -> MariaDbPosition:
    """The transactions before a place in the log. Raises SourceError, also where the file is gone or names none."""
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


def visible(session: Session) -> MariaDbPosition:
    """The position of what a read that starts now shows."""
    place = open_view(session)
    session.run("COMMIT", doing="close the read view")
    return position_at(session, *place)


def as_watermark(position: MariaDbPosition, identity: ServerIdentity) -> Watermark:
    """A position on the server that answers, at its own time."""
    return Watermark(replace(position, server_id=identity.server_id), identity.server_uuid, identity.now)
