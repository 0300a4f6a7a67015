"""The pipeline's lease: renewed by the process that works under it, and taken over only from a run that has ended.

A lease that is not renewed expires, but that alone does not prove that its run is dead: the run may be waiting for a
slot in Airflow, or its machine may have been frozen. So before a run takes over a lease, it also asks Airflow about the
holder (INV 37). Whether a lease is renewed is measured by the taker: see control/lease.py (INV 46).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from airflow_cdc.control.lease import without_a_run
from airflow_cdc.core.errors import CdcError, LeaseHeldError
from airflow_cdc.core.lease import LEASE_SECONDS, RENEWALS, Lease

if TYPE_CHECKING:
    from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.lease")

Lives = Callable[[str, str], bool | None]


class Renewable(Protocol):
    """What renews a lease: the control table."""

    def renew(self, owner: str, ttl: float) -> object:
        """Extend `owner`'s lease by `ttl` seconds. Raises LeaseHeldError if it is lost."""


@contextmanager
def kept(control: Renewable, owner: str, seconds: float) -> Iterator[None]:
    """Renew `owner`'s lease now and, in a thread, for as long as the block runs.

    Raises LeaseHeldError at the beginning, or at the end of a successful block, if another run has the lease.
    """
    renewal = _Renewal(control, owner, seconds)
    renewal.once()
    thread = threading.Thread(target=renewal.keep_on, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        renewal.over.set()
        thread.join()
    renewal.raise_if_lost()


class _Renewal:
    """The renewals of one block of work: when the last one succeeded, and whether the lease was lost meanwhile."""

    def __init__(self, control: Renewable, owner: str, seconds: float) -> None:
        self.over = threading.Event()
        self._control, self._owner, self._seconds = control, owner, seconds
        self._renewed_at = 0.0
        self._lost: LeaseHeldError | None = None

    def once(self) -> None:
        """Renew now. Raises LeaseHeldError if somebody else has the lease."""
        asked_at = _stopwatch()
        self._control.renew(self._owner, self._seconds)
        self._renewed_at = asked_at

    def keep_on(self) -> None:
        """Renew three times in the lease's lifetime until the block is over."""
        while not self.over.wait(self._seconds / RENEWALS):
            try:
                self.once()
            except LeaseHeldError as error:  # final: no more renewals, and the end of the block raises it
                self._lost = error
                return
            except CdcError as error:  # the catalog may be back the next time
                log.warning("the lease could not be renewed: %s", error)

    def raise_if_lost(self) -> None:
        """Raise LeaseHeldError if the lease was lost.

        A process that was frozen may reach the end of its work before its thread checks again, while another run has
        taken the lease. So it is renewed once more if a renewal is overdue, which is before another run may take it.
        """
        if self._lost is not None:
            raise self._lost
        if _stopwatch() >= self._renewed_at + self._seconds / RENEWALS:
            self.once()


def _stopwatch() -> float:
    """Seconds that nobody sets, and that pass while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ended_by(lives: Lives | None) -> Callable[[Lease], bool]:
    """Whether the holder of a lease that is not renewed is known to have ended.

    `lives(dag_id, run_id)` asks Airflow; it returns None if Airflow could not be asked, and then the run may be alive.
    Who has no way of asking (`lives` is None: a Spark driver) takes no lease of a DAG run; the task that starts a
    driver frees it first, see `free_dead`. If the holder is not a DAG run, nobody but its process keeps the lease.
    """

    def ended(lease: Lease) -> bool:
        return without_a_run(lease) or (lives is not None and lives(lease.dag_id, lease.owner) is False)

    return ended


def free_dead(run: Run) -> None:
    """Free the lease of a DAG run that has ended, for a driver that is about to start and cannot ask Airflow itself.

    Does nothing while a recovery is open, which the next recovery takes over together with its lease.
    """
    control = run.clients.control
    facts, ended = control.facts(), ended_by(run.lives)
    lease = facts.lease
    if lease is None or without_a_run(lease) or lease.owner == run.run_id or facts.recovery or not ended(lease):
        return
    try:
        control.acquire(run.run_id, LEASE_SECONDS, dag_id=run.dag_id, ended=ended)
    except LeaseHeldError as held:  # the driver says the same if it needs the lease
        log.info("%s", held)
        return
    log.warning("freed the lease of %s, which has ended: %s", lease.owner, run.where)
    control.release(run.run_id)
