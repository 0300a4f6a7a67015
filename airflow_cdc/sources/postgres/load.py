"""How busy a PostgreSQL server is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.core.throttle import SourceLoad

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.sources.postgres.session import Session

# the state of other users' sessions is NULL without the right to see it
_RUNNING: Final = """
SELECT count(*) FILTER (WHERE state = 'active') AS running, count(*) FILTER (WHERE state IS NULL) AS hidden
FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_catalog.pg_backend_pid()
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
    return SourceLoad(running, float(lag["seconds"]) if lag["standby"] else None)


def _running(session: Session) -> int:
    row = session.row(_RUNNING, doing="ask how busy the server is")
    if row["hidden"]:
        raise MissingPrivilegeError(
            f"policy.throttle.threads_running is set, and {row['hidden']} sessions of other users are hidden",
            where=session.where,
            todo="GRANT pg_read_all_stats to the user, or remove the limit.",
            privilege="pg_read_all_stats",
        )
    return int(row["running"])
