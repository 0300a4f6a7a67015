"""How far a connector has read its source's log, by the log's own clock, and when it will reach a given time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_cdc.core.duration import span


@dataclass(frozen=True, slots=True)
class Reading:
    """At `at` (seconds of any steady clock) the connector was reading changes written at `written` (epoch seconds)."""

    at: float
    written: float


def seconds_left(first: Reading, last: Reading, target: float) -> float | None:
    """Seconds until changes written at `target` are read, at the pace between the readings; None without progress."""
    gained, took = last.written - first.written, last.at - first.at
    if gained <= 0 or took <= 0:
        return None
    return max(0.0, (target - last.written) * took / gained)


def progress_text(first: Reading, last: Reading, target: float, now: datetime) -> str:
    """One line for a log: what the connector reads now, how old that is, and when it should be done."""
    written = datetime.fromtimestamp(last.written, UTC).isoformat(timespec="seconds")
    reads = f"the connector reads what was written at {written}, {span(max(0.0, target - last.written))} before the end"
    left = seconds_left(first, last, target)
    if left is None:
        return f"{reads}; when it will be there is not known yet"
    end = datetime.fromtimestamp(now.timestamp() + left, UTC).isoformat(timespec="seconds")
    return f"{reads}; expected to be there in {span(left)}, at {end}"
