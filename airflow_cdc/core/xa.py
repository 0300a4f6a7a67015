"""XA transactions that were rolled back after their rows had been sent (INV 32).

A connector may send rows at XA PREPARE and nothing at XA ROLLBACK, and no event says which rows belong to which XA
transaction. So the server's counters tell whether it may have happened, and a comparison of whole tables finds the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# a start time is the clock less an uptime in whole seconds
_SAME_START_S = 10


@dataclass(frozen=True, slots=True)
class XaState:
    """What a server says of its XA transactions at one time.

    Attributes:
        started_at: when the server was started, epoch seconds; its counters are of the time since then.
        prepares, rollbacks: statements XA PREPARE and XA ROLLBACK so far; a rollback of what was not prepared counts too.
        open: prepared and not ended; () also where the user may not ask.
    """

    server_uuid: str
    started_at: float
    prepares: int
    rollbacks: int
    open: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "open", tuple(self.open))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the control table."""
        return {**asdict(self), "open": list(self.open)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> XaState:
        """The inverse of `to_json`."""
        return cls(**value)

    def same_count(self, other: XaState) -> bool:
        """Whether the counters of both began with the same start of the same server."""
        return self.server_uuid == other.server_uuid and abs(self.started_at - other.started_at) <= _SAME_START_S


def rollback_doubt(before: XaState | None, now: XaState | None, *, events: bool = True) -> str:
    """Why rows of a rolled back XA transaction may stand in a table of the sink since `before`; "" if none can.

    `events`: whether any event of the table came since; without one only what was open then can have left rows there.
    A server that was restarted in between counts from 0, so any sign of XA is a doubt then. A server that nobody asked
    about XA before, and that used none since, gives no doubt.
    """
    if now is None or before is None:
        return ""
    if before.open:
        return f"XA transactions were open then: {', '.join(before.open)}"
    if not events:
        return ""
    if not before.same_count(now):
        used = before.prepares or now.prepares
        return "XA is used, and the server was restarted or replaced since then" if used else ""
    if now.prepares and now.rollbacks > before.rollbacks:
        return f"{now.rollbacks - before.rollbacks} XA ROLLBACK since then"
    return ""
