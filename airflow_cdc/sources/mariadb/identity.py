"""Which MariaDB server answers (INV 9). MariaDB has no server_uuid, so we name a run of the server instead.

The name holds server_id, host, port, server_uid (made from the machine's network address and the port) and the second
in which the server was started. No two runs can share all of these. To put other data behind the same address, a server
must be stopped and started, which changes the name; so a watermark belongs to one run of one server.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import WrongServerError
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from airflow_cdc.sources.mysql.server_log import ServerIdentity, read_identity
from airflow_cdc.sources.mysql.session import Session

_AGE_S: Final = 1
# uptime runs from the start to this statement's own time, both in whole seconds, so the difference is constant
STARTED: Final = (
    "UNIX_TIMESTAMP() - (SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS"
    " WHERE VARIABLE_NAME = 'UPTIME')"
)
NAME: Final = f"LOWER(CONCAT_WS('/', @@server_id, @@hostname, @@port, @@server_uid, {STARTED}))"


def read_named_identity(session: Session) -> ServerIdentity:
    """The server that answers, named by its run. Raises SourceError, also for a server without server_uid.

    If the server was started within the current second, we wait: its next run must not begin in the same second.
    """
    row = session.row(f"SELECT {NAME} AS name", doing="read which server this is (server_uid, since MariaDB 10.11)")
    answering = poll_until(
        lambda: _aged(session), timeout=_AGE_S * 5, interval=0.1, what="the server to be a second old"
    )
    return replace(answering, server_uuid=str(row["name"]))


def _aged(session: Session) -> ServerIdentity | None:
    identity = read_identity(session)
    set_back = identity.uptime_s < 0
    return identity if set_back or identity.uptime_s >= _AGE_S else None


def require_same_run(now: ServerIdentity, watermark: Watermark, where: str) -> None:
    """Raise WrongServerError or ServerRestartedError unless W was taken on this server since its last start."""
    if now.server_uuid == watermark.server:
        return
    here, _, _ = now.server_uuid.rpartition("/")
    there, _, _ = watermark.server.rpartition("/")
    if here == there:
        raise ServerRestartedError(
            f"the server was restarted {now.uptime_s} s ago, after the watermark of {watermark.taken_at}",
            where=where,
            todo="Clear the task fence_and_watermark and all after it: a new watermark is taken, and all is read again.",
        )
    raise WrongServerError(
        f"the connection reaches server {now.server_uuid}, not {watermark.server}",
        where=where,
        todo="Point the connection at the server itself, or start a new recovery on this one.",
    )


def same_run_sql(watermark: Watermark) -> str:
    """An SQL condition that is true only on the run of the server on which W was taken."""
    if not set(watermark.server) <= _IN_NAMES:
        raise SourceError(
            f"{watermark.server[:80]!r} is not the name of a MariaDB server",
            todo="Take a new watermark: recover again.",
        )
    return f"{NAME} = '{watermark.server}'"


_IN_NAMES: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.:/+=")
