"""The lease of a pipeline: who may change it, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from airflow_cdc.core.duration import LONGEST_SECONDS
from airflow_cdc.core.errors import MALFORMED

# A process renews its lease RENEWALS times in this time, so two renewals may fail before the lease expires.
LEASE_SECONDS = 120.0
RENEWALS: Final = 3
# How long a lease lasts that does not say so: those of earlier versions.
_UNSAID_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True)
class Lease:
    """Held by `owner` (a run id, or the name of a command) for `seconds` after its last renewal.

    `expires_at` (ISO time) is by the clock of the owner's machine, which may be wrong: see `looks_expired`.
    `dag_id`: the DAG of the owner's run; "" if the owner is not a DAG run. `renewal`: differs after each renewal.
    """

    owner: str
    expires_at: str
    dag_id: str = ""
    seconds: float = _UNSAID_SECONDS
    renewal: str = ""

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

    def to_json(self) -> dict[str, Any]:
        """The form that the control document stores."""
        value = {"owner": self.owner, "expires_at": self.expires_at}
        named = {**value, "dag_id": self.dag_id} if self.dag_id else value
        return {**named, "seconds": self.seconds, "renewal": self.renewal}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Lease:
        """The inverse of to_json(). Raises ValueError for anything else."""
        try:
            dag_id, renewal = (str(value.get(key) or "") for key in ("dag_id", "renewal"))
            seconds = float(value.get("seconds", _UNSAID_SECONDS))
            lease = cls(str(value["owner"]), str(value["expires_at"]), dag_id, seconds, renewal)
            readable = datetime.fromisoformat(lease.expires_at).tzinfo is not None and 0 <= seconds <= LONGEST_SECONDS
        except MALFORMED as error:
            raise ValueError(f"no lease: {type(error).__name__} {error}") from None
        if not readable:
            raise ValueError("no lease: its time has no offset, or it lasts too long")
        return lease
