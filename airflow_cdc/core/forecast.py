"""How long a position stays in the source's log, and whether a snapshot fits into that time."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_cdc.core.codec import Seconds


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


@dataclass(frozen=True, slots=True)
class PurgeForecast:
    """The shortest time in seconds until the position may be purged (None: never automatically), and why."""

    earliest_s: Seconds
    in_newest_file: bool
    basis: str


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


def snapshot_fits(retention: Retention, seconds: float) -> bool:
    """Whether a read of the source that takes `seconds` ends before W can be purged: W is in the newest file."""
    return retention.expire_s <= 0 or seconds < retention.expire_s
