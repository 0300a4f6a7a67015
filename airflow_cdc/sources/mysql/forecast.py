"""When a server with a binary log removes the file of a stored position.

The server's own rule: at a rotation or a restart it removes, oldest first, every closed file that was last written to
longer than `binlog_expire_logs_seconds` ago. So a closed file is safe for that time after it was closed and goes with
the next rotation; the newest file must be rotated first. A PURGE by hand cannot be predicted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_cdc.core.amounts import span
from airflow_cdc.core.forecast import Forecast, PurgeForecast, Retention

# The next rotation may take longer than those seen: the interval's end allows this many times the longest.
_SLACK = 2.0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: `size` in bytes, `began` when its first event was written (epoch seconds; None: not read)."""

    name: str
    size: int
    began: float | None = None


def purge_forecast(retention: Retention, *, in_newest_file: bool) -> PurgeForecast | None:
    """The earliest time at which a position's file can be purged; None if it is unknown when the file was closed."""
    if retention.expire_s <= 0:
        return PurgeForecast(None, in_newest_file, "the server never removes log files automatically")
    if in_newest_file:
        why = f"the newest file: it is kept {span(retention.expire_s)} after it is rotated"
        return PurgeForecast(float(retention.expire_s), in_newest_file, why)
    if retention.written_until is None:
        return None
    left = max(0.0, retention.written_until + retention.expire_s - retention.now)
    age = retention.now - retention.written_until
    why = f"closed {span(max(0.0, age))} ago, kept {span(retention.expire_s)}, purged at the next rotation"
    return PurgeForecast(left, in_newest_file, why)


def forecast(retention: Retention, files: Sequence[LogFile], *, in_newest_file: bool, max_size: int = 0) -> Forecast:
    """When the file of the stored position will be purged: an interval from the server's rule and its file rotations.

    `files` are the newest ones, oldest first; `max_size` is max_binlog_size in bytes (0: not known).
    """
    rate, gaps = _rate(files), _gaps(files)
    mean = sum(gaps) / len(gaps) if gaps else None
    purge = purge_forecast(retention, in_newest_file=in_newest_file)
    if purge is None:
        return Forecast(
            0.0, None, rate, mean, "the time at which its file was closed cannot be read, so there is no forecast"
        )
    longest = _longest(gaps, max_size, rate)
    if purge.earliest_s is None or longest is None:
        return Forecast(purge.earliest_s, None, rate, mean, purge.basis)
    # one rotation removes it; the newest file must be closed by another one first
    rotations = 2 if in_newest_file else 1
    return Forecast(purge.earliest_s, purge.earliest_s + rotations * longest, rate, mean, purge.basis)


def _longest(gaps: Sequence[float], max_size: int, rate: float | None) -> float | None:
    """The longest time to the next rotation, by the rotations seen or by the time to fill a file at the rate seen."""
    filling = max_size / rate if max_size and rate else 0.0
    longest = max([*gaps, filling], default=0.0)
    return longest * _SLACK if longest else None


def _gaps(files: Sequence[LogFile]) -> list[float]:
    times = [file.began for file in files if file.began is not None]
    return [later - earlier for earlier, later in itertools.pairwise(times) if later > earlier]


def _rate(files: Sequence[LogFile]) -> float | None:
    """Bytes per second over the closed files, whose begin and end are known."""
    pairs = itertools.pairwise(files)
    timed = [(f.size, a.began - f.began) for f, a in pairs if f.began is not None and a.began is not None]
    seconds = sum(s for _, s in timed)
    return sum(size for size, _ in timed) / seconds if seconds > 0 else None
