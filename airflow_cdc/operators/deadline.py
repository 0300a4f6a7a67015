"""A time limit on a step that Airflow's own `execution_timeout` cannot have: one DAG recovers pipelines with limits of their own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Timer
from types import TracebackType
from typing import Self


class Deadline:
    """Calls `end` once, if the block is still running after `seconds`; `passed` says whether it did."""

    def __init__(self, seconds: float | None, end: Callable[[], object]) -> None:
        self._end = end
        self._rang = Event()
        self._timer = Timer(seconds, self._ring) if seconds else None

    @property
    def passed(self) -> bool:
        return self._rang.is_set()

    def _ring(self) -> None:
        self._rang.set()
        self._end()

    def __enter__(self) -> Self:
        if self._timer:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer:
            self._timer.cancel()
