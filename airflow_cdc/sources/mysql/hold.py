"""Keep binlog files and the schema unchanged while a snapshot runs: LOCK INSTANCE FOR BACKUP (INV 10).

The lock lives as long as its connection, so the connection has a short wait_timeout: it ends soon after
its owner dies. The owner asks each second whether anybody waits for the global read lock, and if so
releases at once: hold → ALTER waits → a backup's FLUSH TABLES WITH READ LOCK waits → every UPDATE waits.
It releases as soon if a statement that waits for it keeps others from a table. An ALTER doesn't, but TRUNCATE, DROP,
RENAME and OPTIMIZE TABLE wait with their table locked: whoever reads or writes it waits, our own snapshot, too.

A hold that is refused, lost or not supported is a value, not an exception: the recovery goes on, and
checks the watermark and the table definitions again instead.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from airflow_cdc.core.errors import MissingPrivilegeError, SourceError
from airflow_cdc.core.hold import HoldLimits, HoldState, HoldStatus, WaitingStatement
from airflow_cdc.sources.errors import SourceLockTimeoutError
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session, open_connection
from airflow_cdc.sources.row import Row

_GLOBAL_READ_LOCK: Final = "waiting for global read lock"
_BACKUP_LOCK: Final = "waiting for backup lock"
_TABLE_LOCK: Final = "waiting for table metadata lock"
_BYTES_EVERY_S: Final = 15.0
_MARGIN_S: Final = 10.0


class Hold:
    """One hold, owned by one thread at a time. Its methods return the state and raise nothing."""

    def __init__(self, endpoint: MySqlEndpoint, label: str, limits: HoldLimits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._session: Session | None = None
        self._since = 0.0
        self._bytes_at = 0.0
        self._bytes_before = 0
        self.state = HoldState(label, HoldStatus.NEW)

    def acquire(self) -> HoldState:
        """Take the lock, waiting at most `lock_wait` for running DDL."""
        if self.state.status is HoldStatus.HELD:
            return self.state
        try:
            self._session = self._open()
            self._lock(self._session)
        except MissingPrivilegeError as error:
            return self._end(HoldStatus.REFUSED, str(error))
        except SourceLockTimeoutError:
            return self._end(HoldStatus.REFUSED, f"running DDL kept the lock for {self._limits.lock_wait:g} s")
        except _UnsupportedError as error:
            return self._end(HoldStatus.UNSUPPORTED, str(error))
        except SourceError as error:
            return self._end(HoldStatus.REFUSED, str(error))
        return self.state

    def tick(self) -> HoldState:
        """Check once: keeps the connection alive, and releases the hold if it must. Call it about every second."""
        session = self._session
        if session is None or not self.state.held:
            return self.state
        try:
            waiting = _waiting(session)
            kept_bytes = self._kept_bytes(session)
        except SourceError as error:
            return self._end(HoldStatus.LOST, str(error))
        self.state = replace(
            self.state,
            held_s=round(time.monotonic() - self._since, 3),
            kept_bytes=kept_bytes,
            waiting=_in_state(waiting, _BACKUP_LOCK),
        )
        behind = [one for one in _in_state(waiting, _TABLE_LOCK) if one.seconds] if self.state.waiting else []
        reason = self._must_end(_in_state(waiting, _GLOBAL_READ_LOCK), behind)
        return self._end(HoldStatus.RELEASED, reason) if reason else self.state

    def release(self, reason: str = "no longer needed") -> HoldState:
        """Release the hold. One that has already ended keeps its reason."""
        return self._end(HoldStatus.RELEASED, reason) if self._session else self.state

    def _open(self) -> Session:
        wait = self._limits.lock_wait + _MARGIN_S
        session = Session(open_connection(self._endpoint, read_timeout=wait), self._endpoint.where)
        self._session = session
        # the server ends an orphaned hold: the owner checks every second, so silence means that it is gone
        session.run(
            "SET @@SESSION.wait_timeout = %s, @@SESSION.lock_wait_timeout = %s",
            (max(1, int(self._limits.orphan_after)), max(1, int(self._limits.lock_wait))),
            doing="set up the hold",
        )
        return session

    def _lock(self, session: Session) -> None:
        if not session.version.can(Capability.INSTANCE_LOCK):
            raise _UnsupportedError(f"server {session.version.text} has no LOCK INSTANCE FOR BACKUP")
        # without PROCESS the hold cannot see the sessions that it blocks
        session.rows("SELECT 1 AS one FROM information_schema.INNODB_TRX LIMIT 1", doing="see waiting sessions")
        _mark(session, self.state.label, self._limits.lock_wait)
        self._bytes_before = self._total_bytes(session)
        session.run("LOCK INSTANCE FOR BACKUP", doing="hold the binlog")
        self._since = self._bytes_at = time.monotonic()
        self.state = HoldState(
            self.state.label,
            HoldStatus.HELD,
            connection_id=session.id,
            blocks_purge=session.version.can(Capability.INSTANCE_LOCK_BLOCKS_PURGE),
        )

    def _must_end(self, blocked: Sequence[WaitingStatement], behind: Sequence[WaitingStatement]) -> str:
        """Why the hold ends now: sessions `blocked` from the global read lock, or `behind` a statement that waits for us."""
        if blocked:
            return f"another session waits for the global read lock ({_who(blocked)})"
        if behind:
            return f"{_who(self.state.waiting)} waits for it and keeps others from a table ({_who(behind)})"
        if time.monotonic() - self._since > self._limits.max_seconds:
            return f"the limit of {self._limits.max_seconds:g} s is reached"
        limit, kept_bytes = self._limits.max_bytes, self.state.kept_bytes
        return f"the limit of {limit} bytes of binlog is reached" if limit and kept_bytes and kept_bytes > limit else ""

    def _total_bytes(self, session: Session) -> int:
        if self._limits.max_bytes is None:
            return 0
        rows = session.rows("SHOW BINARY LOGS", doing="list the binlog files")
        return sum(row.number("File_size") for row in rows)

    def _kept_bytes(self, session: Session) -> int | None:
        """Bytes written to the log under the hold. The listing opens every file, so this is not done each second."""
        if self._limits.max_bytes is None:
            return None
        if self.state.kept_bytes is None or time.monotonic() - self._bytes_at > _BYTES_EVERY_S:
            self._bytes_at = time.monotonic()
            return max(0, self._total_bytes(session) - self._bytes_before)
        return self.state.kept_bytes

    def _end(self, status: HoldStatus, reason: str) -> HoldState:
        if self._session is not None:
            self._session.close()
            self._session = None
        held_s = round(time.monotonic() - self._since, 3) if self._since else 0.0
        self.state = replace(self.state, status=status, reason=reason, held_s=held_s)
        return self.state


class _UnsupportedError(SourceError):
    """The server has no such lock."""


def hold_name(label: str) -> str:
    """The user-level lock that marks a hold, by which other processes see whether it is alive."""
    return f"cdc_hold:{hashlib.sha256(label.encode()).hexdigest()[:32]}"


def hold_owner(session: Session, label: str) -> int | None:
    """The id of the connection that holds `label` now, or None. A step in another process checks a hold with it."""
    row = session.row("SELECT IS_USED_LOCK(%s) AS owner", (hold_name(label),), doing="look for the hold")
    return row.number_or_null("owner")


@contextmanager
def run_hold(hold: Hold) -> Iterator[Hold]:
    """Acquire, keep ticking in a thread, release at the end of the block."""
    stop = threading.Event()
    hold.acquire()
    thread = threading.Thread(target=_keep, args=(hold, stop), name="cdc-hold", daemon=True)
    thread.start()
    try:
        yield hold
    finally:
        stop.set()
        thread.join()
        hold.release()


def _keep(hold: Hold, stop: threading.Event) -> None:
    while hold.tick().held and not stop.wait(hold._limits.every):  # noqa: SLF001 - one module, one owner
        pass


def _mark(session: Session, label: str, timeout: float) -> None:
    row = session.row("SELECT GET_LOCK(%s, %s) AS mine", (hold_name(label), timeout), doing="mark the hold")
    if row["mine"] != 1:
        owner = hold_owner(session, label)
        raise SourceError(
            f"connection {owner} already holds {label!r}",
            where=session.where,
            todo="End that hold, or wait until it ends.",
        )


def _waiting(session: Session) -> list[tuple[str, WaitingStatement]]:
    """Sessions that wait for the global read lock, for our lock, or for a table, as (state, statement)."""
    rows = session.rows("SHOW PROCESSLIST", doing="look for waiting sessions")
    states = (_GLOBAL_READ_LOCK, _BACKUP_LOCK, _TABLE_LOCK)
    return [(state, _statement(row)) for row in rows if (state := str(row["State"] or "").lower()) in states]


def _in_state(waiting: Iterable[tuple[str, WaitingStatement]], state: str) -> tuple[WaitingStatement, ...]:
    return tuple(one for its_state, one in waiting if its_state == state)


def _who(waiting: Sequence[WaitingStatement]) -> str:
    return ", ".join(f"{one.user}: {one.statement}" for one in waiting[:3])


def _statement(row: Row) -> WaitingStatement:
    # only the first words, because a statement can hold values and passwords
    words = " ".join(str(row["Info"] or "").split()[:3])
    return WaitingStatement(row.number("Id"), str(row["User"]), row.number_or_null("Time") or 0, words[:80])
