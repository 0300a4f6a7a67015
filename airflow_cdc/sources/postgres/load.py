"""How busy a PostgreSQL server is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.core.ports import SourceLoad

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.sources.postgres.session import Session

# without the right to see them, sessions of other users, and the server's own, have neither a state nor a type
_RUNNING: Final = """
SELECT count(*) FILTER (WHERE state = 'active' AND backend_type = 'client backend') AS running,
  count(*) FILTER (WHERE backend_type IS NULL) AS hidden
FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid()
"""
# A standby that has replayed all it has received is not behind, however long ago the primary last wrote; without a
# receiver it does not know what it lacks.
_LAG: Final = """
SELECT pg_catalog.pg_is_in_recovery() AS standby,
  CASE WHEN pg_catalog.pg_last_wal_receive_lsn() = pg_catalog.pg_last_wal_replay_lsn()
      AND EXISTS (SELECT FROM pg_catalog.pg_stat_wal_receiver) THEN 0
    ELSE extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()) END AS seconds
"""


def read_load(session: Session, limits: ThrottlePolicy) -> SourceLoad:
    """What the limits are about. Raises MissingPrivilegeError if other users' sessions are hidden."""
    running = _running(session) if limits.threads_running else None
    if not limits.replica_lag:
        return SourceLoad(running)
    lag = session.row(_LAG, doing="ask how far the server is behind its primary")
    if lag["standby"] and lag["seconds"] is None:
        return SourceLoad(running, lag_unknown="it has replayed no transaction since it was started")
    return SourceLoad(running, lag.real("seconds") if lag["standby"] else None)


def _running(session: Session) -> int:
    row = session.row(_RUNNING, doing="ask how busy the server is")
    if row["hidden"]:
        raise MissingPrivilegeError(
            "policy.throttle.threads_running is set, and what other users' sessions execute is hidden",
            where=session.where,
            todo="GRANT pg_read_all_stats to the user, or remove the limit.",
            privilege="pg_read_all_stats",
        )
    return row.number("running")
