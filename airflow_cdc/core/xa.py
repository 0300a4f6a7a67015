"""XA transactions that were rolled back after their rows had been sent (INV 32).

A connector may send rows at XA PREPARE and nothing at XA ROLLBACK, and no event says which rows belong to which XA
transaction. So the server's counters tell whether it may have happened, and a comparison of whole tables finds the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

# a start time is the clock minus an uptime in whole seconds
_SAME_START_S = 10


@dataclass(frozen=True, slots=True)
class XaState:
    """A server's information about its XA transactions at one time.

    Attributes:
        started_at: when the server was started, epoch seconds; its counters started then.
        prepares, rollbacks: XA PREPARE and XA ROLLBACK statements so far; rollbacks without a prepare count too.
        open: transactions prepared and not ended; () also if the user may not ask.
    """

    server_uuid: str
    started_at: float
    prepares: int
    rollbacks: int
    open: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "open", tuple(self.open))

    def same_count(self, other: XaState) -> bool:
        """Whether the counters of both began at the same start of the same server."""
        return self.server_uuid == other.server_uuid and abs(self.started_at - other.started_at) <= _SAME_START_S


def rollback_doubt(before: XaState | None, now: XaState | None, *, events: bool = True) -> str:
    """Why a table of the sink may hold rows of an XA transaction rolled back since `before`; "" if it cannot.

    `events`: whether any event of the table came since; without one, only transactions open then can have left rows.
    A server that was restarted in between counts from 0, so any sign of XA is then a doubt. A server whose XA state was
    not read before, and that has used no XA since, gives no doubt.
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
