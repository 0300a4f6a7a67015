"""What main has, where a comparison catches up a copy of it: how far behind main is, and whether it can become that copy (INV 35).

A comparison applies the events that wait for main to a copy, and compares that. The report is about main all the same: its
rows, its snapshot, and what it lacks. An apply that would refuse the table never brings main there, so that is no MATCH.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_cdc.core.ports import Stage
from airflow_cdc.core.report import CaughtUp, ComparedAt, TableReport, Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.flows.appliable import Refused
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare.results import unproven
from airflow_cdc.spark_apps.compare.scan import Outcome, Subject
from airflow_cdc.spark_apps.compare.views import pinned
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.driver.systems import Systems
from airflow_cdc.spark_apps.events import offsets_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# a position is read first, the server's clock after it
CLOCK_SLACK: Final = timedelta(seconds=1)
COUNT_SECONDS: Final = 5.0
NEVER: Final = "apply refuses the events that wait ({count:,}), so main will not become what they make of it: {why}"


@dataclass(frozen=True, slots=True)
class Main:
    """A table's main when a comparison made its copy.

    Attributes:
        stage: the copy; its base is main's version.
        stamp: how far main was applied; None if that is not known.
        refused: what apply refuses of the table; () for nearly all.
    """

    run: Run
    spark: SparkSession
    systems: Systems
    table: Table
    stage: Stage
    stamp: Stamp | None
    refused: Sequence[Refused] = field(default=())

    @property
    def topic(self) -> str:
        return self.systems.events.routing.topic_of(self.table.full_name)

    def rows(self) -> int:
        """How many rows main has; they are counted where no summary says it."""
        version, place = self.stage.base_head, (self.stage.namespace, self.stage.table)
        count = self.run.clients.sink.row_count(*place, version)
        return pinned(self.spark, self.systems.writer, self.stage, version).count() if count is None else count

    def waiting(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Partition → the offsets from main's stamp to these ends, where there are any."""
        if self.stamp is None:
            return {}
        spans = {p: ((self.stamp.next_offset(self.topic, p) or 0), end) for p, end in ends.items()}
        return {p: span for p, span in spans.items() if span[0] < span[1]}

    def stands_still(self) -> TableReport | None:
        """The report of a table whose events wait and are refused by apply; None if it can be compared."""
        if not self.refused:
            return None
        state = self.run.clients.transport.topic_states([self.topic]).get(self.topic)
        waiting = self.waiting({p: end for p, (_, end) in state.partitions.items()} if state else {})
        if not waiting:
            return None
        source_rows = self.run.clients.source.count_rows(self.table.full_name, COUNT_SECONDS)
        return replace(
            unproven(self.table.full_name, self._never(offsets_in(waiting))),
            source_rows=source_rows or 0,
            sink_rows=self.rows(),
            compared_at=ComparedAt(self.stage.base_head, ""),
        )

    def caveats(self, outcome: Outcome) -> tuple[str, ...]:
        """Why equality of the copy says nothing of main: events came meanwhile that apply refuses."""
        if not self.refused or not (waiting := self.waiting(outcome.subject.ends)):
            return ()
        return (self._never(offsets_in(waiting)),)

    def reported(self, outcome: Outcome, report: TableReport, *, xa_open: bool = True) -> TableReport:
        """The report of the comparison, as one of main.

        `xa_open`: whether an XA transaction was open before it (or may have been): its rows may still have been about to
        change, so that a MATCH says nothing of a time.
        """
        subject = outcome.subject
        waiting = self.waiting(subject.ends)
        first = self._first_change(subject, waiting) if waiting else None
        reached = subject.position.taken_at - CLOCK_SLACK
        if report.verdict is Verdict.MATCH and self.stamp is not None and not xa_open:
            through = min(reached, first or reached).isoformat(timespec="milliseconds")
            report = replace(report, verified_through=through)
        if subject.sink.version == self.stage.base_head:
            return report
        since = first.isoformat(timespec="seconds") if first else ""
        return replace(
            report,
            sink_rows=self.rows(),
            compared_at=replace(report.compared_at, snapshot_id=self.stage.base_head),
            caught_up=CaughtUp(outcome.sink_rows, offsets_in(waiting), since),
        )

    def _never(self, count: int) -> str:
        return NEVER.format(count=count, why=" ".join(map(str, self.refused)))

    def _first_change(self, subject: Subject, waiting: Mapping[int, tuple[int, int]]) -> datetime | None:
        """The source's time of the earliest of these events; None if none carries a time."""
        if subject.topic is None:
            return None
        raw = subject.topic.read(sibling(self.spark, SMALL_BATCH), {self.topic: waiting})
        decoded = self.systems.events.decode(raw, subject.table, ())
        (row,) = decoded.selectExpr("min(cdc.ts_ms) AS first").collect()
        return None if row["first"] is None else datetime.fromtimestamp(row["first"] / 1000, UTC)
