"""The pipeline's lease: renewed by the process that works under it, and taken over only from a run that has ended.

A lease that is not renewed expires, but that alone does not prove that its run is dead: the run may be waiting for a
slot in Airflow, or its machine may have been frozen. So before a run takes over a lease, it also asks Airflow about the
holder (INV 37).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from airflow_cdc.core.errors import CdcError, LeaseHeldError
from airflow_cdc.core.lease import Lease

log = logging.getLogger("airflow_cdc.lease")

# A lease is renewed three times in its lifetime, so two renewals may fail before it expires.
RENEWALS: Final = 3

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
        asked_at = time.time()  # a lease is measured in wall-clock time, which passes while the machine sleeps
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
        taken the expired lease. So the lease is renewed once more if it may have expired.
        """
        if self._lost is not None:
            raise self._lost
        if time.time() >= self._renewed_at + self._seconds:
            self.once()


def ended_by(lives: Lives | None) -> Callable[[Lease], bool]:
    """Whether the holder of an expired lease is known to have ended.

    `lives(dag_id, run_id)` asks Airflow; it returns None if Airflow could not be asked, and then the run may be alive.
    Without a way of asking (`lives` is None), or if the holder is not a DAG run, the expired lease itself has to be
    enough: the holder's process has not renewed it for the whole lifetime.
    """

    def ended(lease: Lease) -> bool:
        return not lease.dag_id or lives is None or lives(lease.dag_id, lease.owner) is False

    return ended
