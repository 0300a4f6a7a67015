"""Waiting for a condition with a deadline: the only implementation. Operators and triggers differ in how they sleep."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from airflow_cdc.core.errors import DeadlineError

T = TypeVar("T")


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
    deadline = clock() + timeout
    last = ""
    while True:
        try:
            answer = probe()
            if answer is not None:
                return answer
        except NotYet as state:
            last = str(state)
        left = deadline - clock()
        if left <= 0:
            raise _late(what, timeout, last)
        sleep(min(interval, left))


def _late(what: str, timeout: float, last: str) -> DeadlineError:
    suffix = f"; last seen: {last}" if last else ""
    return DeadlineError(f"{what}: not reached within {timeout:g} s{suffix}", timeout=timeout, last=last)


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

    The probe reports its state by NotYet. When the state has stayed the same for `standstill` seconds, raises
    DeadlineError, which names `what` and the state.
    """
    state, since = "", clock()
    while True:
        try:
            answer = probe()
            if answer is not None:
                return answer
            now = ""
        except NotYet as answered:
            now = str(answered)
        if now != state:
            state, since = now, clock()
        left = since + standstill - clock()
        if left <= 0:
            raise DeadlineError(
                f"{what}: nothing has moved for {standstill:g} s" + (f"; last seen: {state}" if state else ""),
                timeout=standstill,
                last=state,
            )
        sleep(min(interval, left))


def jittered(seconds: float) -> None:
    """Sleep for a random time of up to `seconds`, so that the losers of a race do not retry at the same instant."""
    time.sleep(seconds * random.uniform(0.1, 1.0))  # noqa: S311
