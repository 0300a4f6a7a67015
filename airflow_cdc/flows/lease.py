"""The pipeline's lease: kept by the process that works under it, and taken over only from a run that has ended.

A lease that is not renewed runs out, but that alone proves no death: a run may be waiting for a slot in Airflow, or its
machine may have been frozen. So whoever would take it over asks Airflow about the run as well (INV 37).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from airflow_cdc.core.errors import CdcError, LeaseHeldError

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

    Raises LeaseHeldError at the beginning, or at the end of a block that went well, if somebody else has it.
    """
    over = threading.Event()
    lost: list[LeaseHeldError] = []
    control.renew(owner, seconds)
    thread = threading.Thread(
        target=_keep_renewing, args=(control, owner, seconds, over, lost), name="lease", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if lost:
        raise lost[0]


def _keep_renewing(
    control: Renewable, owner: str, seconds: float, over: threading.Event, lost: list[LeaseHeldError]
) -> None:
    while not over.wait(seconds / RENEWALS):
        try:
            control.renew(owner, seconds)
        except LeaseHeldError as error:  # for good: nothing more is renewed, and the block's end says so
            lost.append(error)
            return
        except CdcError as error:  # the catalog may be back the next time
            log.warning("the lease could not be renewed: %s", error)


def ended_by(lives: Lives | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether the holder of a lease that has run out is known to have ended.

    `lives(dag_id, run_id)` asks Airflow; None from it means that it could not be asked, and then the run may live. Where
    there is no way of asking (`lives` is None), or the holder is no DAG run, its process has renewed nothing for the
    whole lease, and that has to do.
    """

    def ended(lease: Mapping[str, Any]) -> bool:
        dag_id = str(lease.get("dag_id") or "")
        return not dag_id or lives is None or lives(dag_id, str(lease["owner"])) is False

    return ended
