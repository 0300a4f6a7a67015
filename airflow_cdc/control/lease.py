"""When a pipeline's lease is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.lease import Lease


def refuse_held(lease: Lease | None, owner: str, ended: Callable[[Lease], bool], now: datetime, where: str) -> None:
    """Raise LeaseHeldError unless `owner` may take the lease: no other run that holds it may be alive (INV 37)."""
    if lease is None or lease.owner == owner:
        return
    expired = lease.expired(now)
    if expired and ended(lease):
        return
    what = (
        f"the lease of {lease.owner} expired at {lease.expires_at}, but Airflow does not say that the run has ended"
        if expired
        else f"the pipeline is being changed by {lease.owner} until {lease.expires_at}"
    )
    raise LeaseHeldError(
        what,
        where=where,
        todo="Wait for that run, or end it (mark it failed in Airflow); its lease then expires.",
        owner=lease.owner,
        expires_at=lease.expires_at,
    )


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
