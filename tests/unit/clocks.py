"""A clock of a test's own: waits cost nothing, and a machine that stands still for a moment changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest

from airflow_cdc.core import poll


class Clock:
    """A clock that only sleeping moves. `sleeps`: each of them, in seconds; `on_sleep`: what happens meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []
        self.on_sleep: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.sleeps.append(seconds)
        self.now += seconds
        self.on_sleep()


def waiting(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> Clock:
    """Let these modules wait by a clock of their own."""
    clock = Clock()
    for module in modules:
        for wait in ("poll_until", "poll_while_moving"):
            if hasattr(module, wait):
                monkeypatch.setattr(module, wait, partial(getattr(poll, wait), clock=clock, sleep=clock.sleep))
    return clock
