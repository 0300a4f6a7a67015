"""Values about a hold, which keeps a source's log during a snapshot (INV 10): its limits and its current state."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class HoldStatus(StrEnum):
    """The state of a hold. Only HELD protects anything."""

    NEW = "NEW"
    HELD = "HELD"
    UNSUPPORTED = "UNSUPPORTED"
    REFUSED = "REFUSED"
    LOST = "LOST"
    RELEASED = "RELEASED"


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """When a hold must end. Seconds and bytes; `max_bytes` None: no limit.

    `lock_wait`: how long to wait for running DDL. `orphan_after`: the server frees a hold after its owner
    was silent for that long. `every`: seconds between two checks of the server.
    """

    max_seconds: float = 7200.0
    max_bytes: int | None = None
    lock_wait: float = 5.0
    orphan_after: float = 30.0
    every: float = 1.0


@dataclass(frozen=True, slots=True)
class WaitingStatement:
    """A session that waits because of the hold; `statement` has only its first words."""

    connection_id: int
    user: str
    seconds: int
    statement: str


@dataclass(frozen=True, slots=True)
class HoldState:
    """The current state of a hold. `blocks_purge` False: DDL is blocked, but files can still be purged."""

    label: str
    status: HoldStatus
    reason: str = ""
    connection_id: int = 0
    blocks_purge: bool = False
    held_s: float = 0.0
    kept_bytes: int | None = None
    waiting: tuple[WaitingStatement, ...] = ()

    @property
    def held(self) -> bool:
        """True while the lock is held."""
        return self.status is HoldStatus.HELD

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        return {**asdict(self), "status": str(self.status), "waiting": [asdict(w) for w in self.waiting]}
