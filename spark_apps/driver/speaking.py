"""A driver that is at work says so: a log that is silent for minutes looks like a process that hangs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from airflow_cdc.core.poll import SPEAK_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.progress")

OURS: Final = "airflow_cdc"
# done and all of something, such as the tasks of the Spark jobs that run now; None: nothing of that kind runs
Parts = Callable[[], tuple[int, int] | None]


class Speaking(logging.Handler):
    """Within the block a line is written whenever our loggers wrote none for `every` seconds.

    It says how long the work takes by now, and of Spark's running work how much is done and when that should end.
    """

    def __init__(
        self, doing: str, parts: Parts, every: float = SPEAK_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(logging.INFO)
        self._doing, self._parts, self._every, self._clock = doing, parts, every, clock
        self._began = self._last = clock()
        # what ran at the last look: its number of parts, and when it was first seen with how many done
        self._work: tuple[int, float, int] | None = None
        self._over = threading.Event()

    def emit(self, _record: logging.LogRecord) -> None:
        """Something was said, by us or by the work itself."""
        self._last = self._clock()

    def __enter__(self) -> Self:
        logging.getLogger(OURS).addHandler(self)
        threading.Thread(target=self._keep_speaking, name="speaking", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        logging.getLogger(OURS).removeHandler(self)

    def _keep_speaking(self) -> None:
        while not self._over.wait(min(1.0, self._every)):
            self.look()

    def look(self) -> None:
        """Say a line if it is time to."""
        if self._clock() - self._last >= self._every:
            log.info("%s: at work for %.0f s%s", self._doing, self._clock() - self._began, self._progress())

    def _progress(self) -> str:
        """How far Spark's running work is; "" if nothing runs or it can't be asked now."""
        parts = None
        with suppress(Exception):  # a session that ends meanwhile ends the work, too
            parts = self._parts()
        if not parts or not parts[1]:
            self._work = None
            return ""
        (done, total), now = parts, self._clock()
        if self._work is None or self._work[0] != total or done < self._work[2]:
            self._work = (total, now, done)
        _, since, at_first = self._work
        text = f"; {done:,} of {total:,} parts of the running Spark job are done"
        if done > at_first and done < total:
            text += f", about {(now - since) * (total - done) / (done - at_first):.0f} s left"
        return text


def spark_parts(made: Callable[[], SparkSession | None]) -> Parts:
    """Tasks that are done, and all of them, of the stages that run now. `made`: the session, None while there is none."""

    def parts() -> tuple[int, int] | None:
        session = made()
        if session is None:
            return None
        tracker = session.sparkContext.statusTracker()
        infos = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
        return sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)

    return parts
