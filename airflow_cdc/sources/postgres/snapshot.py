"""W and the one view that matches it: a new slot with an exported snapshot, and the sessions that read under it.

`CREATE_REPLICATION_SLOT … (SNAPSHOT 'export')` gives a consistent point and a snapshot. The rows read under the
snapshot plus the changes after the point contain every row exactly once, even for tables without a key. The snapshot
exists as long as the replication connection that created it stays open and receives no other command.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.sources.errors import SourceOutOfTimeError
from airflow_cdc.sources.postgres.errors import SlotError, explain
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.quoting import text_literal
from airflow_cdc.sources.postgres.session import SESSION_PINS, PostgresEndpoint, Session, connect, open_connection
from airflow_cdc.sources.postgres.slot import PLUGIN, Slot, drop, read_slot

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn
    from psycopg.rows import TupleRow

_NAME: Final = re.compile(r"[a-z0-9_]{1,63}")
_SNAPSHOT: Final = re.compile(r"[0-9A-Fa-f-]{1,64}")
CREATE_TIMEOUT_S: Final = 300.0
_ENDS_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot that other sessions can use, and its LSN: it holds exactly the changes up to there."""

    name: str
    point: Lsn
    slot: str


class SnapshotOwner:
    """The replication connection that holds an exported snapshot. Close it when all reading is done, never before."""

    def __init__(self, connection: Connection[TupleRow], snapshot: ExportedSnapshot, where: str) -> None:
        self._connection = connection
        self._where = where
        self.snapshot = snapshot

    @property
    def alive(self) -> bool:
        """Whether the connection is open, as far as we know. Sends nothing: a command would end the snapshot."""
        return not self._connection.closed

    def close(self) -> None:
        """Release the snapshot; the slot stays."""
        with suppress(Exception):
            self._connection.close()


def create_slot(
    endpoint: PostgresEndpoint, name: str, *, failover: bool = False, timeout: float = CREATE_TIMEOUT_S
) -> SnapshotOwner:
    """Create the logical slot `name` (pgoutput) and keep its exported snapshot open.

    Waits at most `timeout` seconds for the transactions that are open now to end. `failover`: a standby synchronises
    the slot (PostgreSQL 17+). Raises SlotError if the name is taken or invalid, SourceOutOfTimeError naming the
    transactions that are still open, MissingPrivilegeError without REPLICATION.
    """
    if not _NAME.fullmatch(name):
        raise SlotError(f"{name!r} is not a slot name", where=endpoint.where, todo="Use a-z, 0-9 and _, at most 63.")
    connection = connect(endpoint, replication="database")
    try:
        command = create_command(name, connection.info.server_version, failover=failover)
        row = _execute(connection, command, endpoint.where, f"create slot {name!r}", timeout)
    except DeadlineError as error:
        raise SourceOutOfTimeError(
            f"slot {name!r} was not made within {timeout:g} s: open transactions must end first"
            f" ({_stop_waiting(endpoint, connection, name)})",
            where=endpoint.where,
            todo="End them, or try again when they are through.",
        ) from error
    except BaseException:
        connection.close()
        raise
    snapshot = ExportedSnapshot(str(row["snapshot_name"]), Lsn.parse(str(row["consistent_point"])), name)
    return SnapshotOwner(connection, snapshot, endpoint.where)


def create_command(name: str, version: int, *, failover: bool) -> str:
    """The replication command that creates a slot; since PostgreSQL 15 its options are in parentheses."""
    if version < 150000:
        return f'CREATE_REPLICATION_SLOT "{name}" LOGICAL {PLUGIN} EXPORT_SNAPSHOT'
    more = ", FAILOVER true" if failover and version >= 170000 else ""
    return f"CREATE_REPLICATION_SLOT \"{name}\" LOGICAL {PLUGIN} (SNAPSHOT 'export'{more})"


def replace_slot(
    endpoint: PostgresEndpoint, session: Session, name: str, *, timeout: float = CREATE_TIMEOUT_S
) -> SnapshotOwner:
    """Drop the slot if it exists and is unused, and create it again with an exported snapshot and its failover flag."""
    before = read_slot(session, name)
    drop(session, name, database=endpoint.database)
    return create_slot(endpoint, name, failover=before is not None and before.failover, timeout=timeout)


def wait_unused(session: Session, name: str, timeout: float) -> Slot | None:
    """Wait until no reader uses the slot, and return it; None if it does not exist. Raises DeadlineError."""

    def unused() -> tuple[Slot | None] | None:
        slot = read_slot(session, name)
        return None if slot is not None and slot.active else (slot,)

    return poll_until(unused, timeout=timeout, interval=0.2, what=f"slot {name!r} to be unused")[0]


def reading_statements(snapshot: str) -> tuple[str, ...]:
    """The first statements of a reading session: ONE read-only transaction, under `snapshot` unless it is ""."""
    begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    return (begin, f"SET TRANSACTION SNAPSHOT '{_checked(snapshot)}'") if snapshot else (begin,)


def same_server_sql(server: str) -> str:
    """A statement that fails, and says why, on another cluster or timeline than the watermark's (INV 9)."""
    system, _, timeline = server.partition("/")
    here = "(SELECT system_identifier::text FROM pg_catalog.pg_control_system())"
    # a standby writes no log file, so it is never the primary that a watermark names
    on = "pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)"
    same = f"{here} = {text_literal(system)} AND {on} = '{int(timeline or 0):08X}'"
    why = text_literal(f"the connection reaches another server than the watermark's, {server}: ")
    return f"SELECT CASE WHEN {same} THEN 0 ELSE pg_catalog.concat({why}, {here})::int END"


def pin_statements() -> tuple[str, ...]:
    """The session pins as SET statements, for a driver that accepts only text."""
    return tuple(f"SET {name} TO {text_literal(value)}" for name, value in SESSION_PINS.items())


@contextmanager
def read_view(endpoint: PostgresEndpoint, snapshot: ExportedSnapshot | None) -> Iterator[Session]:
    """A session inside one read-only transaction, under the exported snapshot or, with None, a view of its own.

    Raises SnapshotGoneError if the snapshot's owner has closed it.
    """
    session = Session(open_connection(endpoint), endpoint.where)
    try:
        session.run("BEGIN", doing="begin a read view")
        for statement in reading_statements(snapshot.name if snapshot else ""):
            session.run(statement, doing="take on the snapshot" if snapshot else "begin a read view")
        yield session
    finally:
        session.close()


def open_transactions(session: Session) -> tuple[str, ...]:
    """The transactions that have an id now, oldest first: user and age, but no statement, which may hold values."""
    sql = (
        "SELECT pid, usename, state, EXTRACT(epoch FROM pg_catalog.clock_timestamp() - xact_start)::int AS seconds"
        " FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start LIMIT 5"
    )
    rows = session.rows(sql, doing="list the open transactions")
    return tuple(
        f"process {row['pid']} of {row['usename']}, {row['state']}, open for {row['seconds']} s" for row in rows
    )


def _stop_waiting(endpoint: PostgresEndpoint, connection: Connection[TupleRow], name: str) -> str:
    """End the server's side of a command that we gave up, and return a text of what it waited for.

    Closing the connection is not enough: the server would keep waiting, and the slot's name would stay taken.
    """
    session = Session(open_connection(endpoint, read_timeout=endpoint.quick_read), endpoint.where)
    try:
        waited = "; ".join(open_transactions(session)) or "none that can be seen"
        session.run("SELECT pg_catalog.pg_terminate_backend(%s)", (connection.info.backend_pid,), doing="stop waiting")
        poll_until(
            lambda: read_slot(session, name) is None or None,
            timeout=_ENDS_WITHIN_S,
            interval=0.1,
            what=f"slot {name!r} to be gone",
        )
    finally:
        session.close()
        connection.close()
    return waited


def _execute(connection: Connection[TupleRow], sql: str, where: str, doing: str, timeout: float) -> dict[str, str]:
    """Run a command on a replication connection, which has only the simple protocol and no statement_timeout.

    Raises SourceError, or DeadlineError after `timeout` seconds; the command then still runs.
    """
    import psycopg

    pg = connection.pgconn
    try:
        pg.send_query(sql.encode())
        _wait_for_answer(pg, time.monotonic() + timeout, what=doing)
        result = pg.get_result()
        while pg.get_result() is not None:
            pass
        if result is None or result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result) if result else psycopg.OperationalError("no answer")
    except (psycopg.Error, OSError) as error:
        raise explain(error, where=where, doing=doing) from error
    names = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
    return dict(zip(names, [(result.get_value(0, at) or b"").decode() for at in range(result.nfields)], strict=True))


def _wait_for_answer(pg: PGconn, deadline: float, *, what: str) -> None:
    while True:
        pg.consume_input()
        if not pg.is_busy():
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineError(
                f"could not {what} in time", todo="See what the server is busy with, then run the step again."
            )
        select.select([pg.socket], [], [], left)


def _checked(name: str) -> str:
    if not _SNAPSHOT.fullmatch(name):
        raise SlotError(f"{name!r} is not a snapshot's name")
    return name
