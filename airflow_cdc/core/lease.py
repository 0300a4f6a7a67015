"""The lease of a pipeline: who may change it, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from airflow_cdc.core.amounts import LONGEST_SECONDS

# A process renews its lease RENEWALS times in this time, so two renewals may fail before the lease expires.
LEASE_SECONDS = 120.0
RENEWALS: Final = 3
# How long a lease lasts that does not say so: those of earlier versions.
_UNSAID_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Lease:
    """Held by `owner` (a run id, or the name of a command) for `seconds` after its last renewal.

    `expires_at` (ISO time) is by the clock of the owner's machine, which may be wrong: see `looks_expired`.
    `dag_id`: the DAG of the owner's run; "" if the owner is not a DAG run. `renewal`: differs after each renewal. Raises
    ValueError for another time.
    """

    owner: str
    expires_at: str
    dag_id: str = ""
    seconds: float = _UNSAID_SECONDS
    renewal: str = ""

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.expires_at).tzinfo is None or not 0 <= self.seconds <= LONGEST_SECONDS:
            raise ValueError("no lease: its time has no offset, or it lasts too long")

    def looks_valid(self, now: datetime) -> bool:
        """Whether it is valid by the owner's clock and ours, `now`, as far as these can agree.

        A lease that expires later than it can last was written by a clock ahead of ours, which says nothing here.
        """
        return now < datetime.fromisoformat(self.expires_at) <= now + timedelta(seconds=self.seconds)

    def looks_expired(self, now: datetime) -> bool:
        """Whether it has expired by the owner's clock and ours. Alone that proves nothing (INV 37, 46)."""
        return datetime.fromisoformat(self.expires_at) <= now

    def looks_attended(self, now: datetime, slack: float) -> bool:
        """Whether its owner may still work, if the two clocks differ by up to `slack` seconds."""
        left = (datetime.fromisoformat(self.expires_at) - now).total_seconds()
        return -slack < left <= self.seconds + slack
