"""How long a position stays in the source's log, and whether a snapshot fits into that time.

The server's own rule: at a rotation or a restart it removes, oldest first, every closed file that was last written to
longer than `binlog_expire_logs_seconds` ago. So a closed file is safe for that time after it was closed and goes with
the next rotation; the newest file must be rotated first. A PURGE by hand cannot be predicted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_cdc.core.duration import span

# The next rotation may take longer than those seen: the interval's end allows this many times the longest.
_SLACK = 2.0


@dataclass(frozen=True, slots=True)
class Retention:
    """When the server removes log files automatically.

    A file is removed at the first rotation or restart after `expire_s` seconds without a write to it; 0: never.
    `written_until` is when the stored position's file was closed, in epoch seconds; None while it is the newest file,
    or if that cannot be read. `now` is the server's clock, in epoch seconds.
    """

    expire_s: int
    now: float
    written_until: float | None = None


@dataclass(frozen=True, slots=True)
class Margin:
    """How many bytes of the server's kept log are before the stored position.

    That much can be purged before the position is lost. 0 of `log_bytes`: the next purge removes it, or one did.
    """

    margin_bytes: int
    log_bytes: int

    @property
    def left(self) -> float:
        """The margin as a share of the kept log, 0 to 1."""
        return self.margin_bytes / self.log_bytes if self.log_bytes else 0.0

    def to_json(self) -> dict[str, int]:
        """Plain JSON."""
        return {"margin_bytes": self.margin_bytes, "log_bytes": self.log_bytes}


@dataclass(frozen=True, slots=True)
class PurgeForecast:
    """The shortest time in seconds until the position may be purged (None: never automatically), and why."""

    earliest_s: float | None
    in_newest_file: bool
    basis: str


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: `size` in bytes, `began` when its first event was written (epoch seconds; None: not read)."""

    name: str
    size: int
    began: float | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the stored position will be purged, in seconds from now.

    Attributes:
        earliest_s: not before this; warnings use this value. None: never automatically.
        latest_s: by this time, if files are rotated as often as before; None: unknown, or never.
        write_bytes_s: bytes of log per second over the files seen; None with fewer than two times.
        rotation_s: mean seconds between rotations; None if no two are known.
        basis: the rule that was applied, in words.
    """

    earliest_s: float | None
    latest_s: float | None
    write_bytes_s: float | None
    rotation_s: float | None
    basis: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


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
    why = f"closed {span(max(0.0, age))} ago, kept {span(retention.expire_s)}, gone at a rotation after"
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


def snapshot_fits(retention: Retention, seconds: float) -> bool:
    """Whether a read of the source that takes `seconds` ends before W can be purged: W is in the newest file."""
    return retention.expire_s <= 0 or seconds < retention.expire_s


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
