"""The timeline of a run as bars: its steps, what took long inside each, and what passed between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from airflow_cdc.core.report import StepReport

BETWEEN: Final = "between the tasks: a driver's end, the scheduler, the executor"
# a gap that is shorter explains nothing
SHORTEST_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from `left`, of `width`, both in percent of the whole run. `inner`: what took long in it. `state`: a step's."""

    name: str
    seconds: float
    left: float
    width: float
    state: str = ""
    inner: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class _Lasted:
    """A step from its process's first sign to its end, in unix time."""

    step: StepReport
    at: float
    began: float
    ended: float

    @classmethod
    def of(cls, step: StepReport, at: float) -> _Lasted:
        first = min((part.after for part in step.parts), default=0.0)
        return cls(step, at, at + min(0.0, first), at + step.seconds)


def time_bars(steps: Sequence[StepReport]) -> list[Bar]:
    """A bar for each step, and for each gap in which none ran.

    Without start times all bars begin at the left, the longest has the full width, and there are no gaps.
    """
    known = all(step.started for step in steps)
    begins = [datetime.fromisoformat(step.started).timestamp() if known else 0.0 for step in steps]
    lasted = sorted(map(_Lasted.of, steps, begins), key=lambda one: one.began)
    origin = min((one.began for one in lasted), default=0.0)
    whole = max((one.ended - origin for one in lasted), default=0.0) or 1.0
    share, bars, reached = 100 / whole, list[Bar](), origin

    def bar(name: str, began: float, seconds: float, state: str = "", inner: tuple[Bar, ...] = ()) -> Bar:
        return Bar(name, seconds, share * (began - origin), share * seconds, state, inner)

    for one in lasted:
        if one.began - reached >= SHORTEST_S:
            bars.append(bar(BETWEEN, reached, one.began - reached))
        inner = tuple(bar(part.name, one.at + part.after, part.seconds) for part in one.step.parts)
        bars.append(bar(one.step.name, one.at, one.step.seconds, one.step.state, inner))
        reached = max(reached, one.ended)
    return bars


def as_text(bars: Sequence[Bar], width: int = 40) -> list[dict[str, str]]:
    """The bars as rows of a table, each drawn with `width` characters."""
    rows = []
    for bar in bars:
        rows.append(_row(bar, bar.name, "█", width))
        rows += [_row(part, f"  {part.name}", "▒", width) for part in bar.inner]
    return rows


def _row(bar: Bar, name: str, sign: str, width: int) -> dict[str, str]:
    left = round(bar.left * width / 100)
    drawn = " " * left + (sign if bar.name != BETWEEN else "·") * max(1, round(bar.width * width / 100))
    return {"step": name, "seconds": f"{bar.seconds:.1f}", "state": bar.state, "timeline": drawn[:width]}
