"""The pipeline's lease, held for a block of work by a process that may be killed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_cdc.core.errors import CdcError, LeaseHeldError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.lease")

LEASE_SECONDS = 120


@contextmanager
def leased(run: Run, wait: float = 0.0) -> Iterator[None]:
    """Hold the pipeline's lease, renewed while we live: a killed writer must not keep the next one waiting for long.

    Waits up to `wait` seconds for its holder. Raises LeaseHeldError without a wait, DeadlineError after it.
    """
    control, over = run.clients.control, threading.Event()

    def renew() -> None:
        while not over.wait(LEASE_SECONDS / 3):
            try:
                control.renew(run.run_id, LEASE_SECONDS)
            except CdcError as error:  # the publish is safe without it; whoever took it is told by the log
                log.warning("the lease could not be renewed: %s", error)

    _acquire(run, wait)
    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        control.release(run.run_id)


def _acquire(run: Run, wait: float) -> None:
    control = run.clients.control

    def attempt() -> bool:
        try:
            control.acquire(run.run_id, LEASE_SECONDS)
        except LeaseHeldError as held:
            raise NotYet(str(held)) from held
        return True

    if wait:
        poll_until(attempt, timeout=wait, interval=0.5, what="the pipeline's lease to be free")
    else:
        control.acquire(run.run_id, LEASE_SECONDS)
