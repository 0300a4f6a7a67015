"""The retention of a pipeline as a line over time, with the moment at which the position may be purged: an inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_cdc.alerting.severity import Severity, severity_of
from airflow_cdc.reports.stored import Sample, StoredObservation

WIDTH, HEIGHT = 640, 150
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 14, 24
# how far the axis extends beyond the newest observation if nothing is forecast, as a share of the observed time
_AHEAD = 0.15


@dataclass(frozen=True, slots=True)
class Tick:
    """A time on the axis: its place and its label."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The values that the template draws, in the SVG's units.

    Attributes:
        line: the observed points; ahead: the dashed line from the newest of them to the purge; "" without a forecast.
        last: the newest point. purge: the forecast moment on the axis, None without one.
        summary: the chart in words, for those who cannot see it.
    """

    line: str
    ahead: str
    last: tuple[float, float]
    start: Tick
    now: Tick
    purge: Tick | None
    summary: str


def retention_chart(observation: StoredObservation | None) -> Chart | None:
    """The chart of the stored samples; None if no retention was ever observed."""
    if observation is None or not observation.samples:
        return None
    purge = purge_at(observation)
    first, last = _time(observation.samples[0]), _time(observation.samples[-1])
    observed = max((last - first).total_seconds(), 60.0)
    end = last + timedelta(seconds=observed * _AHEAD)
    end = max(end, purge + timedelta(seconds=observed * _AHEAD)) if purge else end

    def x(moment: datetime) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (moment - first) / (end - first), 1)

    points = [(x(_time(one)), _y(one.left)) for one in observation.samples]
    ahead = _path([points[-1], (x(purge), _y(0.0))]) if purge else ""
    gone = Tick(x(purge), _clock(purge)) if purge else None
    newest = observation.samples[-1]
    summary = f"{100 * newest.left:.0f} percent of the log left at {_clock(last)} UTC"
    text = f"{summary}; may be purged from {gone.label} UTC" if gone else f"{summary}; no purge is forecast"
    return Chart(
        _path(points), ahead, points[-1], Tick(x(first), _clock(first)), Tick(x(last), _clock(last)), gone, text
    )


def purge_at(observation: StoredObservation) -> datetime | None:
    """The earliest moment at which the server may remove the stored position; None if none is forecast, or it is lost."""
    seconds = observation.forecast.earliest_s if observation.forecast else None
    lost = severity_of(observation.diagnosis.code, observation.diagnosis.strategies) is Severity.CRITICAL
    if seconds is None or lost:
        return None
    return datetime.fromisoformat(observation.taken_at).astimezone(UTC) + timedelta(seconds=seconds)


def _time(sample: Sample) -> datetime:
    return datetime.fromisoformat(sample.at).astimezone(UTC)


def _y(left: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - min(1.0, max(0.0, left))), 1)


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)


def _clock(moment: datetime) -> str:
    return moment.strftime("%m-%d %H:%M")
