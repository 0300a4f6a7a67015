"""The hold interface for a server that keeps its log for a named reader: the slot itself is the hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.hold import HoldState, HoldStatus

REASON: Final = (
    "the connector's replication slot keeps the log, as long as max_slot_wal_keep_size allows; definitions are compared"
)


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
