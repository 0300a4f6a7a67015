"""The lease of a pipeline: who may change it, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Lease:
    """Held by `owner` (a run id, or the name of a command) until `expires_at` (ISO time).

    `dag_id`: the DAG of the owner's run; "" if the owner is not a DAG run.
    """

    owner: str
    expires_at: str
    dag_id: str = ""

    def expired(self, now: datetime) -> bool:
        """Whether it has expired. That alone does not prove that its owner has ended (INV 37)."""
        return datetime.fromisoformat(self.expires_at) <= now

    def to_json(self) -> dict[str, str]:
        """The form that the control document stores."""
        value = {"owner": self.owner, "expires_at": self.expires_at}
        return {**value, "dag_id": self.dag_id} if self.dag_id else value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Lease:
        """The inverse of to_json(). Raises KeyError for anything else."""
        return cls(str(value["owner"]), str(value["expires_at"]), str(value.get("dag_id") or ""))
