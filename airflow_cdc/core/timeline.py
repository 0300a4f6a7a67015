"""Where the seconds of a step went: what this process did, and what it waited for, in the order in which it began.

A step's time alone doesn't say whether Spark read, the connector was waited for, or Python imported. Whatever takes long
says its name here, in whichever thread it runs; the step takes what was said with it into the ledger and the report.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

# what is shorter explains nothing, and of more parts nobody sees a picture
SHORTEST_S: Final = 0.05
MOST: Final = 40
# a process that waits for weeks and has no steps keeps no more than this
KEPT: Final = 2_000
LONGEST_NAME: Final = 100
# parts of one name that follow each other so closely are one: a thousand tables are read in one bar
_APART_S: Final = 0.1
# of a process that was there before, its start is no part of a step
LONGEST_START_S: Final = 120.0
STARTED: Final = "the process starts, and imports"


@dataclass(frozen=True, slots=True)
class Span:
    """Something with a name, from `began` (unix time) to `ended`."""

    name: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(slots=True)
class Timeline:
    """What one process did since it was last asked."""

    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=KEPT))
    lock: Lock = field(default_factory=Lock)
    begun: bool = False

    def add(self, name: str, began: float, ended: float) -> None:
        """Note something that is over."""
        with self.lock:
            self.spans.append(Span(shortened(name), began, ended))

    def first_step(self) -> None:
        """Note how long this process took until its first step; not of one that lives on between steps, as a triggerer does."""
        began, now = process_began(), time.time()
        if not self.begun and began is not None and now - began < LONGEST_START_S:
            self.add(STARTED, began, now)
        self.begun = True

    def take(self) -> tuple[Span, ...]:
        """What was noted since the last call, joined, without what explains nothing."""
        with self.lock:
            noted = list(self.spans)
            self.spans.clear()
        return longest(joined(noted))


THIS_PROCESS: Final = Timeline()


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Note what the block takes, however it ends, under this name."""
    began = time.time()
    try:
        yield
    finally:
        THIS_PROCESS.add(name, began, time.time())


def shortened(name: str) -> str:
    """A name that fits beside a bar: what is waited for may be a set of thousands of GTIDs."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def joined(spans: Sequence[Span]) -> list[Span]:
    """The spans by their beginning; those of one name that overlap or nearly touch are one.

    Worked case: three tables read side by side, from 0 to 4, 1 to 3 and 3.9 to 9, are one bar "read" from 0 to 9.
    """
    last: dict[str, int] = {}
    whole: list[Span] = []
    for span in sorted(spans, key=lambda one: one.began):
        at = last.get(span.name)
        if at is not None and span.began <= whole[at].ended + _APART_S:
            before = whole[at]
            whole[at] = Span(span.name, before.began, max(before.ended, span.ended))
        else:
            last[span.name] = len(whole)
            whole.append(span)
    return whole


def longest(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The longest MOST of them, in their order; none that is too short to explain anything."""
    kept = sorted((one for one in spans if one.seconds >= SHORTEST_S), key=lambda one: one.seconds, reverse=True)[:MOST]
    return tuple(one for one in spans if one in kept)


def process_began() -> float | None:
    """When this process was started (unix time, to a hundredth of a second); None where Linux's /proc is not to be had."""
    with suppress(OSError, ValueError, IndexError, AttributeError):
        # after the name, which may hold blanks and brackets; https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    return None
