"""How busy a server with a binary log is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.sources.mysql.replica import replication_status

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.sources.mysql.session import Session

_BEHIND: Final = ("seconds_behind_source", "seconds_behind_master")


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
    return max(0, int(row["Value"]) - 1)


def _behind(row: dict[str, Any]) -> float | None:
    """Of one channel; NULL while its applier or its receiver does not run."""
    value = next((row[name] for name in _BEHIND if name in row), None)
    return None if value is None else float(value)
