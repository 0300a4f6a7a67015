"""What a crash of the server takes away, and how it shows.

A transaction with synchronous_commit = off is visible to readers before its commit is on disk, and every session may set
that for itself. After a crash the log ends earlier, and its last positions and transaction numbers are given out again. So
W is flushed when it is taken, and rows that were read count only if the server has not crashed since.

The server's start time does not show it: a crash of one process makes the server recover without a new start. But recovery
from a crash resets all of the server's statistics, and a clean stop keeps them.
"""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.postgres.errors import ServerCrashedError
from airflow_cdc.sources.postgres.position import postgres_position
from airflow_cdc.sources.postgres.session import Session

MARK: Final = "airflow_cdc"  # the prefix of our messages in the log
# its own commit waits for the disk, whatever the server's default is, and with it the whole log before it
_MARK: Final = """
SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
  THEN pg_catalog.set_config('synchronous_commit', 'local', true) END, pg_catalog.pg_logical_emit_message(true, %s, '')
"""
_COUNTED: Final = """
SELECT pg_catalog.concat_ws('|', (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter),
  (SELECT stats_reset FROM pg_catalog.pg_stat_archiver), (SELECT stats_reset FROM pg_catalog.pg_stat_wal)) AS counted_since
"""


def leave_mark(session: Session) -> None:
    """Write an empty message to the log, which the connector reads; the log up to it is on disk afterwards."""
    session.run(_MARK, (MARK,), doing="leave a mark in the log")


def read_counted_since(session: Session) -> str:
    """Since when the server's statistics of three kinds are counted."""
    return str(session.row(_COUNTED, doing="read since when the server counts")["counted_since"])


def crashed_between(before: str, now: str) -> bool:
    """Whether all statistics were reset in between. A person who resets one kind resets that kind only."""
    pairs = list(zip(before.split("|"), now.split("|"), strict=False))
    return bool(before and now) and all(one != other for one, other in pairs)


def require_no_crash(session: Session, watermark: Watermark, where: str) -> None:
    """Raise ServerCrashedError unless all that was read since W is on disk and the server has not crashed since W."""
    before = postgres_position(watermark.position).counted_since
    if not before:
        return
    leave_mark(session)
    if crashed_between(before, read_counted_since(session)):
        raise ServerCrashedError(
            f"the server has crashed since the watermark of {watermark.taken_at.isoformat()}: rows that were read since may"
            " not have survived",
            where=where,
            todo="Clear the task fence_and_watermark and all after it: a new watermark is taken, and all is read again.",
        )
