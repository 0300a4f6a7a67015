"""Waiting for a condition, once, with a deadline. Operators and triggers only sleep differently."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from airflow_cdc.core.errors import DeadlineError

T = TypeVar("T")


class NotYet(Exception):  # noqa: N818 - it is an answer of a probe, not a fault
    """Raised by a probe instead of returning None, to say which state it saw."""


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
    seen = f"; last seen: {last}" if last else ""
    return DeadlineError(f"{what}: not reached within {timeout:g} s{seen}", timeout=timeout, last=last)
