"""The metrics that pipelines send through Airflow's own (`[metrics]` in airflow.cfg): StatsD, Datadog or OpenTelemetry.

| metric | kind | tags | unit |
|---|---|---|---|
| `cdc.step` | timing | pipeline, step, state | milliseconds |
| `cdc.healthy` | gauge | pipeline, problem | 1 healthy, 0 not, unknown included |
| `cdc.position_age` | gauge | pipeline | seconds since the last event that the connector has read |
| `cdc.transactions_behind` | gauge | pipeline | transactions executed beyond the stored position |
| `cdc.events_waiting` | gauge | pipeline | events that are sent and not applied, those in front of a stream included |
| `cdc.retention_left` | gauge | pipeline | bytes that can be purged before the position is lost |
| `cdc.time_to_purge` | gauge | pipeline | seconds until the server may remove the position by itself; never: not sent |
| `cdc.verified_through` | gauge | pipeline, table | source time up to which main is proven equal, unix seconds |
| `cdc.rows_verified`, `cdc.rows_unequal` | gauge | pipeline | rows of the last report |

Unknown values are not sent: a gauge without new values says nothing, while an invented 0 would be false.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_cdc.airflow_version import stats
from airflow_cdc.names import uri_part

if TYPE_CHECKING:
    from airflow_cdc.core.report import RecoveryReport, TableReport
    from airflow_cdc.reports.stored import StoredObservation

HEALTHY = "HEALTHY"


@contextmanager
def timed_step(pipeline: str, step: str) -> Iterator[None]:
    """Time the block as one step of a pipeline, whether it succeeds or not."""
    began, state = time.monotonic(), "failed"
    try:
        yield
        state = "done"
    finally:
        tags = {"pipeline": pipeline, "step": step, "state": state}
        stats().timing("cdc.step", 1000 * (time.monotonic() - began), tags=tags)


def of_observation(observation: StoredObservation) -> None:
    """Send the known values of an observation."""
    code = observation.diagnosis.code
    stats().gauge("cdc.healthy", int(code == HEALTHY), tags={"pipeline": observation.pipeline, "problem": code})
    taken_s = datetime.fromisoformat(observation.taken_at).timestamp()
    known = {
        "cdc.position_age": None if observation.position_ts is None else max(0.0, taken_s - observation.position_ts),
        "cdc.transactions_behind": observation.behind,
        "cdc.events_waiting": observation.waiting,
        "cdc.retention_left": observation.retention.margin_bytes if observation.retention else None,
        "cdc.time_to_purge": observation.forecast.earliest_s if observation.forecast else None,
    }
    _send(observation.pipeline, known)


def of_report(report: RecoveryReport) -> None:
    """Send a report's counts; nothing if no table was compared."""
    if report.tables:
        rows, unequal = (sum(read(t) for t in report.tables) for read in _COUNTS)
        _send(report.pipeline, {"cdc.rows_verified": rows, "cdc.rows_unequal": unequal})
    for table in report.tables:
        if table.verified_through:
            through = datetime.fromisoformat(table.verified_through).timestamp()
            stats().gauge(
                "cdc.verified_through", through, tags={"pipeline": report.pipeline, "table": uri_part(table.table)}
            )


_COUNTS: tuple[Callable[[TableReport], int], ...] = (lambda table: table.source_rows, lambda table: table.unequal_rows)


def _send(pipeline: str, known: dict[str, float | None]) -> None:
    for name, value in known.items():
        if value is not None:
            stats().gauge(name, value, tags={"pipeline": pipeline})
