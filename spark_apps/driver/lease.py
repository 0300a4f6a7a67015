"""The pipeline's lease, held for a block of work by a process that may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_cdc.core.errors import LeaseHeldError, SinkError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.observation import OpenFacts
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.flows.lease import ended_by, kept
from airflow_cdc.flows.run import Run


@contextmanager
def leased(run: Run, wait: float = 0.0, *, beside: bool = False) -> Iterator[None]:
    """Hold the pipeline's lease and renew it while we live: a killed writer must not block the next one for long.

    Waits up to `wait` seconds for the current holder. Raises LeaseHeldError if `wait` is 0, DeadlineError after the
    wait, SinkError while a recovery is open, which publishes on its own and whose lease stays as it is, expired or not.

    `beside`: a recovery that leaves the connector's offset alone does not block us (INV 39) and keeps the lease; a
    writer working beside it must not touch its tables.
    """
    recovery = run.clients.control.facts().recovery
    if beside and recovery is not None and recovery.offset_kept:
        yield
        return
    _acquire(run, wait)
    try:
        with kept(run.clients.control, run.run_id, LEASE_SECONDS):
            yield
    finally:
        run.clients.control.release(run.run_id)


def _acquire(run: Run, wait: float) -> None:
    control = run.clients.control

    def no_recovery(recovery: OpenFacts | None) -> None:
        """Refuse beside a recovery, also one opened since this run began: its own run may be waiting for a slot now."""
        if recovery is not None:
            raise SinkError(
                f"the recovery of run {recovery.run_id} is open: it catches up, compares and publishes by itself",
                where=run.where,
                todo="Finish it, or give it up first: airflow cdc abandon.",
            )

    def attempt() -> bool:
        try:
            control.acquire(run.run_id, LEASE_SECONDS, ended=ended_by(run.lives), admit=no_recovery)
        except LeaseHeldError as held:
            if not wait:
                raise
            raise NotYet(str(held)) from held
        return True

    poll_until(attempt, timeout=wait, interval=0.5, what="the pipeline's lease to be free")
