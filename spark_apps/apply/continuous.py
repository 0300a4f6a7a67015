"""Apply batch after batch in one driver: `apply: {mode: continuous}` in pipelines.yaml.

Each batch is the same as in a scheduled run, under its own lease, and all its state is in the tables' stamps. So a
driver that is killed at any point leaves the same as a killed scheduled run, and there is no checkpoint to keep.
Between two batches the lease is free long enough for a waiting recovery, repair or backfill to get it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_cdc.core.errors import CdcError, LeaseHeldError
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.apply_changes")

# A waiting process asks for the lease twice a second.
LEASE_FREE_S: Final = 1.0
# Checking the topics' ends costs one request. Changes without an event (a TRUNCATE that is not sent, letters that can
# be replayed, another setting of the connector) are checked less often.
WHOLE_LOOK_S: Final = 30.0
LONGEST_WAIT_S: Final = 60.0

Result = dict[str, Any]
Outcomes = Mapping[str, Result | CdcError]
Ends = Mapping[str, Mapping[int, tuple[int, int]]]
Batch = Callable[[Run], Outcomes]


@dataclass(frozen=True, slots=True)
class Stop:
    """A table that failed in its last `tries` batches, the last time with `error`; it is tried again at `due` (seconds)."""

    error: CdcError
    tries: int
    due: float


@dataclass(slots=True)
class Stopped:
    """The tables whose last batch failed. Each is tried again after 1, 2, 4 … 60 s and does not stop the others."""

    tables: dict[str, Stop] = field(default_factory=dict)

    @property
    def errors(self) -> dict[str, CdcError]:
        """Table → what stops it."""
        return {table: stop.error for table, stop in self.tables.items()}

    def note(self, outcomes: Outcomes, now: float) -> None:
        """Record the outcomes of a batch that ended at `now` (seconds)."""
        for table, outcome in outcomes.items():
            before = self.tables.pop(table, None)
            if isinstance(outcome, CdcError):
                tries = before.tries + 1 if before else 1
                self.tables[table] = Stop(outcome, tries, now + min(LONGEST_WAIT_S, 2.0 ** (tries - 1)))

    def to_try(self, tables: Collection[str], now: float, *, new: bool) -> tuple[str, ...]:
        """The tables for a batch at `now`: failed ones whose wait is over, and the others if there is anything new."""
        return tuple(table for table in tables if (self.tables[table].due <= now if table in self.tables else new))


@dataclass(slots=True)
class Looks:
    """The topics' ends when the last batch began, and the time of the last complete check."""

    topics: Sequence[str] = ()
    ends: Ends | None = None
    whole_at: float = float("-inf")

    def anything_new(self, run: Run, now: float) -> bool:
        """Whether a batch may find something: the topics have new records, or a complete check is due."""
        whole = now >= self.whole_at + WHOLE_LOOK_S
        if whole:
            self.topics, self.whole_at = settings(run).topics_about(run.tables), now
        states = run.clients.transport.gathered(self.topics)
        ends: Ends = {name: state.partitions for name, state in states.items()}
        new, self.ends = whole or ends != self.ends, ends
        return new

    def forget(self) -> None:
        """Make the next check find something new, because a batch could not publish everything that it read."""
        self.ends = None


@dataclass(slots=True)
class Loop:
    """Batches of one run, one after the other.

    Attributes:
        waited_for: whether the task that started this driver lives; a driver that outlived its task ends.
        sums: table → its last batch's result, with the records of all batches.
    """

    run: Run
    batch: Batch
    waited_for: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    stopped: Stopped = field(default_factory=Stopped)
    looks: Looks = field(default_factory=Looks)
    sums: dict[str, Result] = field(default_factory=dict)
    batches: int = 0

    def go_on(self) -> None:
        """Apply until the run is over: its time is up, its task is gone, or a recovery begins, which catches up."""
        until = self.clock() + self.run.pipeline.apply.lasts
        while self.clock() < until and self.waited_for() and not self._recovering():
            if not self._once():
                log.info("another run has the lease: %s", self.run.where)
            self.sleep(LEASE_FREE_S)

    @property
    def outcomes(self) -> Outcomes:
        """Table → the sums of its batches, or the error that still stops it."""
        return {**self.sums, **self.stopped.errors}

    def _once(self) -> bool:
        """Apply one batch, if there is work for it. False if another run has the lease."""
        tables = self.run.tables
        try:
            new = self.looks.anything_new(self.run, self.clock())
            tables = self.stopped.to_try(tables, self.clock(), new=new)
            outcomes = self.batch(_only(self.run, tables)) if tables else {}
        except LeaseHeldError:
            self.looks.forget()
            return False
        except CdcError as error:
            log.warning("the batch was not begun, and is tried again: %s", error)
            outcomes = dict.fromkeys(tables, error)
        self._note(outcomes)
        return True

    def _note(self, outcomes: Outcomes) -> None:
        self.stopped.note(outcomes, self.clock())
        results = {table: result for table, result in outcomes.items() if not isinstance(result, CdcError)}
        self.batches += any(result["records"] for result in results.values())
        for table, result in results.items():
            self.sums[table] = _summed(self.sums.get(table, {}), result)
            if result["records"] and not result["published"]:
                self.looks.forget()

    def _recovering(self) -> bool:
        """Whether an open recovery leaves nothing to apply (INV 39)."""
        try:
            recovery = self.run.clients.control.facts().recovery
        except CdcError as error:  # the next batch will raise it, too
            log.warning("whether a recovery is open could not be asked: %s", error)
            return False
        if recovery is None or recovery.offset_kept:
            return False
        log.info("the recovery of run %s is open, and applies by itself: this run ends", recovery.run_id)
        self.stopped = Stopped()  # the recovery now deals with the tables that stopped
        return True


def _only(run: Run, tables: tuple[str, ...]) -> Run:
    return replace(run, options=replace(run.options, tables=tables))


def _summed(before: Result, now: Result) -> Result:
    """A table's results combined: records and `published` over all batches, everything else from the last."""
    published = bool(before.get("published")) or bool(now["published"])
    return {**before, **now, "records": before.get("records", 0) + now["records"], "published": published}
