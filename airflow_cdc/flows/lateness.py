"""Which of the events that wait are too old, by the clock that gave them their times.

A worker's clock may be hours off, and no worker's clock has anything to do with an event's time (INV 46).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, TransportError
from airflow_cdc.decisions.diagnosis.lag import now_of, shown
from airflow_cdc.reports.store import ReportStore

if TYPE_CHECKING:
    from airflow_cdc.core.observation import Capture, Shown
    from airflow_cdc.flows.run import Run
    from airflow_cdc.reports.stored import StoredObservation

# topic → partition → the first event that is young enough; None: none is
Young = Mapping[str, Mapping[int, int | None]]


def load_observation(run: Run) -> StoredObservation | None:
    """The stored observation of the run's pipeline; None if there is none that this version can read."""
    try:
        return ReportStore(run.report_dir).observation(run.pipeline.name)
    except CdcError:
        return None


def young_events(
    run: Run, parts: Mapping[str, Iterable[int]], capture: Capture | None, at: str
) -> tuple[Young, Shown | None]:
    """The events of these partitions that are no older than the policy's max_lag, at `at` (ISO), and the clock that says so.

    A clock that nothing tells makes no event old. Raises TransportError.
    """
    if not parts:
        return {}, None
    look = load_observation(run)
    clock = shown(_now_ms(run, [*parts], capture), look.clock if look else None, at)
    since = now_of(clock, at) - int(run.pipeline.policy.max_lag * 1000) if clock else 0
    return run.clients.transport.offsets_since(parts, max(0, since)), clock


def _now_ms(run: Run, topics: list[str], capture: Capture | None) -> int | None:
    """Heartbeats tell the time although no row changes."""
    transport, beats = run.clients.transport, capture.heartbeat_topic if capture else ""
    if beats:
        try:
            return transport.now_ms([*topics, beats])
        except TransportError:  # nobody has to let us read heartbeats
            pass
    return transport.now_ms(topics)
