"""When a pipeline's lease is refused, and when a lease that is not renewed may be taken.

The machines that share a lease have clocks of their own, and any of them may be wrong (INV 46). So the time in a lease
only says when it is worth a look. What decides is what the taker sees on its own stopwatch: whether the lease is
renewed. Worked case, a lease of 120 s that is renewed every 40 s: to a taker whose clock is 130 s ahead it always looks
expired. The taker watches it for 60 s, sees a renewal, and leaves it alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.lease import RENEWALS, Lease

log = logging.getLogger("airflow_cdc.lease")

# A live owner renews its lease several times while a taker watches for this part of its lifetime.
WATCHED: Final = 0.5
LOOK_SECONDS: Final = 1.0
TODO: Final = "Wait for that run, or end it (mark it failed in Airflow); its lease then expires."

Ended = Callable[[Lease], bool]


def without_a_run(lease: Lease) -> bool:
    """Whether nobody but its process keeps this lease: a run of a DAG may be alive between two of its tasks (INV 37)."""
    return not lease.dag_id


@dataclass(slots=True)
class Sight:
    """The lease as this process last saw it, and since when, in seconds of `elapsed`, a stopwatch that nobody sets."""

    clock: Callable[[], datetime]
    elapsed: Callable[[], float] = time.monotonic
    lease: Lease | None = None
    since: float = 0.0

    def silence(self, lease: Lease) -> float:
        """For how many seconds we have seen this lease without a renewal."""
        now = self.elapsed()
        if lease != self.lease:
            self.lease, self.since = lease, now
        return now - self.since


class SilentLeaseError(LeaseHeldError):
    """The lease may have expired, and has to be watched for `left` more seconds before that is certain."""

    def __init__(self, lease: Lease, left: float, where: str) -> None:
        super().__init__(
            f"the lease of {lease.owner} looks expired since {lease.expires_at}, but has been renewed: a clock is wrong",
            where=where,
            todo=f"{TODO} Set the clocks of the machines that run this pipeline.",
            owner=lease.owner,
            expires_at=lease.expires_at,
        )
        self.lease = lease
        self.left = left


def refuse_held(lease: Lease | None, owner: str, ended: Ended, sight: Sight, where: str) -> None:
    """Raise LeaseHeldError unless `owner` may take the lease: no other run that holds it may be alive (INV 37)."""
    if lease is None or lease.owner == owner:
        return
    now, silence = sight.clock(), sight.silence(lease)
    expired = lease.looks_expired(now)
    over = silence >= lease.seconds
    if lease.looks_valid(now) and not over:
        raise _held(lease, f"the pipeline is being changed by {lease.owner} until {lease.expires_at}", where)
    if not ended(lease):
        what = (
            f"the lease of {lease.owner} expired at {lease.expires_at}, but Airflow does not say that the run has ended"
        )
        raise _held(lease, what, where)
    needed = lease.seconds * WATCHED if expired else lease.seconds
    if not over and silence < needed:
        raise SilentLeaseError(lease, needed - silence, where)


def watched(attempt: Callable[[], Lease], sleep: Callable[[float], None]) -> Lease:
    """The lease that `attempt` takes, after another's silent lease was watched for as long as that takes.

    Raises LeaseHeldError if the other lease is renewed meanwhile.
    """
    first: Lease | None = None
    while True:
        try:
            return attempt()
        except SilentLeaseError as silent:
            if first is None:
                first = silent.lease
                log.warning(
                    "watching for %.0f s whether %s renews its lease: %s", silent.left, first.owner, silent.where
                )
            elif first != silent.lease:
                raise
            sleep(min(LOOK_SECONDS, silent.lease.seconds / RENEWALS / 4, silent.left))


def refuse_lost(lease: Lease | None, owner: str, where: str) -> None:
    """Raise LeaseHeldError unless `owner` holds the lease."""
    if lease is not None and lease.owner == owner:
        return
    raise LeaseHeldError(
        f"the lease of {owner} is lost" + (f": {lease.owner} holds it" if lease else ""),
        where=where,
        todo="Stop this run; nothing that it wrote is published. Clear its first task to start again.",
        owner=lease.owner if lease else "",
        expires_at=lease.expires_at if lease else "",
    )


def _held(lease: Lease, what: str, where: str) -> LeaseHeldError:
    return LeaseHeldError(what, where=where, todo=TODO, owner=lease.owner, expires_at=lease.expires_at)
