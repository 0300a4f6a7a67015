"""Replication slots: the log that one keeps, whether it is still there, and moving, copying or dropping a slot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_cdc.core.amounts import span
from airflow_cdc.core.hold import HoldState, HoldStatus
from airflow_cdc.sources.postgres.errors import SlotError, SourceObjectMissingError
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.session import Session
from airflow_cdc.sources.row import Row

PLUGIN: Final = "pgoutput"

# to_jsonb, because each release adds columns to the view: a column that does not exist is then simply absent
_SLOTS: Final = "SELECT pg_catalog.to_jsonb(s) AS slot FROM pg_catalog.pg_replication_slots s"
_END: Final = "pg_catalog.pg_current_wal_lsn()"
REASON: Final = (
    "the connector's replication slot keeps the log, as long as max_slot_wal_keep_size allows; definitions are compared"
)


class WalStatus(StrEnum):
    """The state of the log that a slot needs, as the server reports it."""

    RESERVED = "reserved"  # within max_wal_size
    EXTENDED = "extended"  # beyond max_wal_size, kept for the slot
    UNRESERVED = "unreserved"  # still there, gone at the next checkpoint
    LOST = "lost"
    NONE = ""  # the slot has not reserved any log yet


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of pg_replication_slots.

    Attributes:
        restart: the oldest LSN that the server keeps for it; None before any log is reserved, and after the loss of it.
        confirmed: the LSN that its reader has confirmed; nothing before it is sent again. None for a physical slot.
        safe_bytes: bytes of log that can be written before the slot may be lost; None without a limit, negative once
            it is unreserved.
        invalidation: why the server invalidated it ("wal_removed", "idle_timeout", …); "" if it did not.
        inactive_s: seconds since its last reader left; None while it has a reader, and before PostgreSQL 17.
    """

    name: str
    plugin: str
    database: str
    active_pid: int | None = None
    temporary: bool = False
    restart: Lsn | None = None
    confirmed: Lsn | None = None
    wal_status: WalStatus = WalStatus.NONE
    safe_bytes: int | None = None
    invalidation: str = ""
    failover: bool = False
    synced: bool = False
    inactive_s: float | None = None

    @property
    def active(self) -> bool:
        """Whether a reader uses the slot now."""
        return self.active_pid is not None

    @property
    def invalidated(self) -> str:
        """Why the slot can never be read again; "" if it can."""
        if self.invalidation:
            return self.invalidation
        return "wal_removed" if self.wal_status is WalStatus.LOST else ""

    @property
    def survives_failover(self) -> bool:
        """Whether the slot, as a standby shows it, would survive that standby's promotion.

        A slot that was synchronised only recently is still temporary there.
        """
        return self.synced and not self.temporary and not self.invalidated

    def retained(self, end: Lsn) -> int | None:
        """Bytes of log up to `end` that the slot protects from removal; None if it protects none."""
        return None if self.restart is None else max(0, end - self.restart)

    def misfit(self, database: str, plugin: str = PLUGIN) -> str:
        """Why a connector on this database could not read the slot even if it is intact; "" if it could."""
        if not self.plugin:
            return "it is a physical slot"
        if self.plugin != plugin:
            return f"its plugin is {self.plugin}, not {plugin}"
        return f"it is of database {self.database}, not {database}" if self.database != database else ""

    @classmethod
    def from_row(cls, row: Row, inactive_s: float | None = None) -> Slot:
        """A slot from its row as JSON; columns that the server's release does not have are absent."""
        conflicting = "conflict" if row.get("conflicting") else ""
        return cls(
            name=str(row["slot_name"]),
            plugin=str(row.get("plugin") or ""),
            database=str(row.get("database") or ""),
            # for a moment a backend can hold the slot before its pid is shown
            active_pid=row.number("active_pid") if row.get("active_pid") else (0 if row.get("active") else None),
            temporary=bool(row.get("temporary")),
            restart=_lsn(row.get("restart_lsn")),
            confirmed=_lsn(row.get("confirmed_flush_lsn")),
            wal_status=WalStatus(str(row.get("wal_status") or "")),
            safe_bytes=None if row.get("safe_wal_size") is None else row.number("safe_wal_size"),
            invalidation=str(row.get("invalidation_reason") or conflicting),
            failover=bool(row.get("failover")),
            synced=bool(row.get("synced")),
            inactive_s=inactive_s,
        )


@dataclass(frozen=True, slots=True)
class SlotForecast:
    """When the log that a slot needs may be removed, or how fast it grows.

    Attributes:
        left_bytes: bytes of log that can be written before the slot may be lost; None without a limit.
        kept_bytes: bytes of log that the slot keeps now.
        bytes_s: bytes of log that the server writes per second; None if not known.
        left_s: seconds until the slot may be lost at that rate; None without a size limit, or if not known.
        idle_left_s: seconds until idle_replication_slot_timeout may invalidate the slot; None without that timeout, or
            while the slot has a reader.
    """

    left_bytes: int | None
    kept_bytes: int | None
    bytes_s: float | None
    left_s: float | None
    idle_left_s: float | None = None

    @property
    def earliest_s(self) -> float | None:
        """The smaller of `left_s` and `idle_left_s`; None if both are None."""
        return min((s for s in (self.left_s, self.idle_left_s) if s is not None), default=None)

    def __str__(self) -> str:
        kept = "nothing" if self.kept_bytes is None else f"{self.kept_bytes:,} bytes"
        left = "no limit" if self.left_bytes is None else f"{self.left_bytes:,} bytes left"
        rate = "" if self.bytes_s is None else f", {self.bytes_s * 3600:,.0f} bytes of log an hour"
        lasts = "" if self.earliest_s is None else f", may be lost in {span(self.earliest_s)}"
        return f"keeps {kept}, {left}{rate}{lasts}"


def forecast(slot: Slot, end: Lsn, bytes_s: float | None, idle_timeout_s: int = 0) -> SlotForecast:
    """How long a slot's log stays, by the server's own figures. `end`: of the log; `bytes_s`: log bytes per second."""
    left, rate = slot.safe_bytes, bytes_s if bytes_s and bytes_s > 0 else None
    by_size = None if left is None else 0.0 if left <= 0 else None if rate is None else left / rate
    idle = slot.inactive_s if idle_timeout_s > 0 else None
    by_idling = None if idle is None else max(0.0, idle_timeout_s - idle)
    return SlotForecast(left, slot.retained(end), bytes_s, by_size, by_idling)


def read_slots(session: Session) -> dict[str, Slot]:
    """All slots of the server by name, including physical ones and those of other databases. Raises SourceError."""
    return {slot.name: slot for slot in _read(session, "", ())}


def read_slot(session: Session, name: str) -> Slot | None:
    """The slot of that name, or None."""
    return next(iter(_read(session, " WHERE slot_name = %s", (name,))), None)


def _read(session: Session, where: str, args: tuple[str, ...]) -> list[Slot]:
    since = "inactive_since" if session.version >= 170000 else "NULL::timestamptz"
    idle = f"EXTRACT(epoch FROM pg_catalog.clock_timestamp() - {since})::float8 AS idle"
    rows = session.rows(
        _SLOTS.replace(" AS slot", f" AS slot, {idle}") + where, args, doing="read the replication slots"
    )
    return [Slot.from_row(row.row("slot"), row.real_or_null("idle")) for row in rows]


def advance(session: Session, name: str, to: Lsn) -> Slot:
    """Move an unused slot forward to `to`, and return its new state.

    The slot loses the changes before `to` for good. A slot that is already there stays. Never moves back, nor past the
    end of the log (the server itself would silently stop at the end). Raises SlotError.
    """
    slot = _usable(session, name)
    if slot.confirmed is not None and to < slot.confirmed:
        raise SlotError(
            f"slot {name!r} is at {slot.confirmed} and cannot go back to {to}",
            where=session.where,
            todo="What lies between is not sent again: read the tables again from a new slot.",
        )
    end = Lsn.parse(str(session.row(f"SELECT {_END} AS lsn", doing="read the end of the log")["lsn"]))
    if end < to:
        raise SlotError(f"{to} is beyond the end of the log, {end}", where=session.where, todo="Diagnose the pipeline.")
    if slot.confirmed != to:
        session.run(
            "SELECT pg_catalog.pg_replication_slot_advance(%s, %s::pg_lsn)",
            (name, str(to)),
            doing=f"advance slot {name!r}",
        )
    moved = _usable(session, name)
    if moved.confirmed is None or moved.confirmed < to:
        raise SlotError(
            f"slot {name!r} is at {moved.confirmed} after it was advanced to {to}",
            where=session.where,
            todo="See who else uses the slot, then clear the task.",
        )
    return moved


def drop(session: Session, name: str, *, database: str, plugin: str = PLUGIN) -> bool:
    """Drop an unused slot of this database and plugin; False if none has that name.

    Any role with REPLICATION may drop any slot, even another connector's. We therefore refuse to drop a slot that is in
    use or has another database or plugin. Raises SlotError.
    """
    slot = read_slot(session, name)
    if slot is None:
        return False
    if misfit := slot.misfit(database, plugin):
        raise SlotError(f"slot {name!r} is not dropped: {misfit}", where=session.where, todo="Check slot.name.")
    _refuse_active(session, slot)
    session.run("SELECT pg_catalog.pg_drop_replication_slot(%s)", (name,), doing=f"drop slot {name!r}")
    return True


def copy(session: Session, name: str, to: str) -> Slot:
    """Create a second slot `to` at the place of `name`; it keeps the log from there on. Raises SourceError."""
    _usable(session, name)
    session.run("SELECT pg_catalog.pg_copy_logical_replication_slot(%s, %s)", (name, to), doing=f"copy slot {name!r}")
    return _usable(session, to)


def _usable(session: Session, name: str) -> Slot:
    slot = read_slot(session, name)
    if slot is None:
        raise SourceObjectMissingError(
            f"replication slot {name!r} does not exist", where=session.where, todo="Check slot.name."
        )
    if slot.invalidated:
        raise SlotError(
            f"slot {name!r} was invalidated ({slot.invalidated})", where=session.where, todo="A new slot is needed."
        )
    _refuse_active(session, slot)
    return slot


def _refuse_active(session: Session, slot: Slot) -> None:
    if slot.active:
        raise SlotError(
            f"slot {slot.name!r} is in use by process {slot.active_pid}",
            where=session.where,
            todo="Stop its reader first.",
        )


def _lsn(value: object) -> Lsn | None:
    return None if value is None else Lsn.parse(str(value))


@dataclass(frozen=True, slots=True)
class SlotHolds:
    """A hold without a lock of its own. There is nothing to clean up, and only the slot itself can be lost."""

    label: str

    def acquire(self) -> HoldState:
        """The state UNSUPPORTED: there is no lock to take."""
        return HoldState(self.label, HoldStatus.UNSUPPORTED, REASON)

    def tick(self) -> HoldState:
        """See acquire."""
        return self.acquire()

    def release(self, reason: str = "") -> HoldState:  # noqa: ARG002 - nothing was held
        """See acquire."""
        return self.acquire()
