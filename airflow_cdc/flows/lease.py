"""The pipeline's lease: renewed by the process that works under it, and taken over only from a run that has ended.

A lease that is not renewed runs out, but that alone proves no death: a run may be waiting for a slot in Airflow, or its
machine may have been frozen. So before taking it over, a run asks Airflow about the holder as well (INV 37).
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

# A lease is renewed three times in its lifetime: two renewals may fail before it runs out.
RENEWALS: Final = 3

Lives = Callable[[str, str], bool | None]


class Renewable(Protocol):
    """What renews a lease: the control table."""

    def renew(self, owner: str, ttl: float) -> object:
        """Prolong `owner`'s lease by `ttl` seconds. Raises LeaseHeldError if it is lost."""


@contextmanager
def kept(control: Renewable, owner: str, seconds: float) -> Iterator[None]:
    """Renew `owner`'s lease now and for as long as the block runs, by a thread of its own.

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
        asked_at = time.time()  # a lease lasts in the time of the day, also while the machine sleeps
        self._control.renew(self._owner, self._seconds)
        self._renewed_at = asked_at

    def keep_on(self) -> None:
        """Renew three times in the lease's lifetime until the block is over."""
        while not self.over.wait(self._seconds / RENEWALS):
            try:
                self.once()
            except LeaseHeldError as error:  # for good: nothing more is renewed, and the block's end says so
                self._lost = error
                return
            except CdcError as error:  # the catalog may be back the next time
                log.warning("the lease could not be renewed: %s", error)

    def raise_if_lost(self) -> None:
        """Raise LeaseHeldError if the lease was lost.

        A process that was frozen may reach the end of its work before its thread has looked again, while another run
        took the lease that had run out: so the lease is asked for once more when it may have run out.
        """
        if self._lost is not None:
            raise self._lost
        if time.time() >= self._renewed_at + self._seconds:
            self.once()


def ended_by(lives: Lives | None) -> Callable[[Lease], bool]:
    """Whether the holder of a lease that has run out is known to have ended.

    `lives(dag_id, run_id)` asks Airflow; None from it means that it could not be asked, and then the run may live. Where
    there is no way of asking (`lives` is None), or the holder is no DAG run, its process has renewed nothing for the
    whole lease, and that has to do.
    """

    def ended(lease: Lease) -> bool:
        return not lease.dag_id or lives is None or lives(lease.dag_id, lease.owner) is False

    return ended
