"""Waiting for a condition with a deadline: the only implementation. Operators and triggers differ in how they sleep."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from airflow_cdc.core.errors import DeadlineError
from airflow_cdc.core.timeline import timed

log = logging.getLogger("airflow_cdc.waits")

T = TypeVar("T")

# how often a wait says what it waits for: a log that is silent for minutes looks like a process that hangs
SPEAK_S: Final = 15.0


class NotYet(Exception):  # noqa: N818 - it is an answer of a probe, not a fault
    """A probe raises it instead of returning None, to report the state that it saw."""


def poll_until(
    probe: Callable[[], T | None],
    *,
    timeout: float,
    interval: float = 0.5,
    what: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call `probe` until it returns something other than None, and return that.

    `timeout` and `interval` are in seconds. The probe is always called at least once, and once more
    at the deadline. Raises DeadlineError naming `what` and the last state (see NotYet).
    """
    with timed(f"waiting for {what}"):
        return _poll(probe, timeout, interval, what=what, clock=clock, sleep=sleep, moving=False)


def poll_while_moving(
    probe: Callable[[], T | None],
    *,
    standstill: float,
    interval: float = 0.5,
    what: str,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Call `probe` until it returns something other than None, however long that takes while its state changes.

    Raises DeadlineError with the state that the probe reports by NotYet, once that was the same for `standstill` seconds.
    """
    with timed(f"waiting for {what}"):
        return _poll(probe, standstill, interval, what=what, clock=clock, sleep=sleep, moving=True)


def _poll(
    probe: Callable[[], T | None],
    seconds: float,
    interval: float,
    *,
    what: str,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    moving: bool,
) -> T:
    """Both waits: `seconds` count from the beginning or, with `moving`, from the last change of the state."""
    began = spoke = since = clock()
    last = ""
    while True:
        now = ""
        try:
            answer = probe()
            if answer is not None:
                return answer
        except NotYet as state:
            now = str(state)
        if moving and now != last:
            since = clock()
        last = now if moving else now or last
        left = since + seconds - clock()
        if left <= 0:
            why = "nothing has moved for" if moving else "not reached within"
            seen = f"; last seen: {last}" if last else ""
            # what is left of somebody's deadline is 29.9994 s, and people said 30
            text = f"{what}: {why} {round(seconds, 1):g} s{seen}"
            raise DeadlineError(text, timeout=seconds, last=last, todo="See what holds it up, then run the step again.")
        if clock() - spoke >= SPEAK_S:
            spoke = clock()
            log.info("waiting for %.0f s: %s%s", spoke - began, what, f"; now: {last}" if last else "")
        sleep(min(interval, left))


def jittered(seconds: float) -> None:
    """Sleep for a random time of up to `seconds`, so that the losers of a race do not retry at the same instant."""
    time.sleep(seconds * random.uniform(0.1, 1.0))  # noqa: S311
