"""Progress of a snapshot as lines in the task's log: rows, rows per second, percent, tables."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

log = logging.getLogger("airflow_cdc.progress")


class Progress:
    """Counts over all tables; safe to use from several threads.

    `estimates`: table → the server's estimate of its rows; a percentage stays below 100 until the table is done.
    """

    def __init__(self, estimates: Mapping[str, int], clock: Callable[[], float] = time.monotonic) -> None:
        self._estimates = dict(estimates)
        self._read = dict.fromkeys(estimates, 0)
        self._done: set[str] = set()
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()

    def estimate(self, table: str) -> int:
        """The server's estimate of the table's rows."""
        return self._estimates.get(table, 0)

    def rows(self, table: str, total: int) -> None:
        """`total` rows of the table have been read so far."""
        with self._lock:
            self._read[table] = max(total, self._read.get(table, 0))
            log.info("%s: %s", table, self._line())

    def done(self, table: str, total: int) -> None:
        """The table is read completely; it has `total` rows."""
        with self._lock:
            self._done.add(table)
            self._read[table] = total
            log.info("%s: done; %s", table, self._line())

    def _line(self) -> str:
        rows = sum(self._read.values())
        seconds = max(self._clock() - self._began, 1e-3)
        return (
            f"{rows:,} rows read, {rows / seconds:,.0f} rows/s, about {self.percent()} %, "
            f"{len(self._done)} of {len(self._read)} tables"
        )

    def percent(self) -> int:
        """Percentage read, according to the estimates."""
        if len(self._done) == len(self._read):
            return 100
        expected = sum(max(self._estimates.get(t, 0), r) if t not in self._done else r for t, r in self._read.items())
        return min(99, round(100 * sum(self._read.values()) / expected)) if expected else 0
