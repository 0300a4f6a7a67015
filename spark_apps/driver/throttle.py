"""Reading the source no faster than policy.throttle allows: a RowReader that asks first, and waits while it is too busy.

It waits before each group of chunks, before a view is opened and before a table is digested or read whole, never while a
table is locked. The lease is renewed, and the log is held, by others meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import DeadlineError, SourceError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.decisions.compare.chunk import Chunk, Key, TableSize
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.throttle import figures, too_busy
from airflow_cdc.spark_apps.ports_few import ReadsFewRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.core.ports import SourceLoad
    from airflow_cdc.core.position import Covered, JsonObject, Position, Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.ddl import Ddl
    from airflow_cdc.decisions.apply.schema_change import SchemaChange
    from airflow_cdc.decisions.compare.leaves import KeyHash, Leaf, LeafScheme
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.spark_apps.ports import Defaults, RowReader, SourceView
    from airflow_cdc.spark_apps.ports_few import FewRowsReader

log = logging.getLogger("airflow_cdc.throttle")

ASK_SECONDS = 1.0
# So few rows are looked up by their keys in one statement: nobody waits for that.
FEW_KEYS = 1000


@dataclass(slots=True)
class Gate:
    """Lets a read begin once the source is no busier than `limits` allow.

    Attributes:
        load: asks the source. Raises SourceError.
        seconds: for how long reads may be held back, all together.
        waited: for how long they have been.
    """

    load: Callable[[ThrottlePolicy], SourceLoad]
    limits: ThrottlePolicy
    seconds: float
    where: str
    waited: float = 0.0
    _one: Lock = field(default_factory=Lock)

    @property
    def closed(self) -> bool:
        """Whether a read would have to wait now."""
        return self.limits.waits and bool(too_busy(self.limits, self.load(self.limits)))

    def wait(self, table: str) -> None:
        """Return when the table may be read. One thread asks at a time, the others wait for it.

        Raises SourceError when reads have been held back for `seconds`.
        """
        if self.limits.waits:
            with self._one:
                self._wait(table)

    def _wait(self, table: str) -> None:
        began, why = time.monotonic(), ""

        def open_now() -> SourceLoad:
            nonlocal why
            load = self.load(self.limits)
            reason = too_busy(self.limits, load)
            if reason and not why:
                log.info("%s: reading waits: %s", table, reason)
            why = reason or why
            if reason:
                raise NotYet(reason)
            return load

        left = max(0.0, self.seconds - self.waited)
        try:
            load = poll_until(open_now, timeout=left, interval=ASK_SECONDS, what="a quieter source")
        except DeadlineError as error:
            raise self._too_long(error.last, table) from None
        finally:
            self.waited += time.monotonic() - began if why else 0.0
        if why:
            now = figures(self.limits, load)
            log.info("%s: reading goes on after %.0f s: %s", table, time.monotonic() - began, now)

    def _too_long(self, reason: str, table: str) -> SourceError:
        return SourceError(
            f"the source was too busy to be read for {self.seconds:.0f} s, nine tenths of policy.max_duration: {reason}",
            where=f"{self.where}, table {table}",
            todo="Nothing was published. Clear the task when the source is quieter, or raise the limit under"
            " policy.throttle (or policy.max_duration) in pipelines.yaml and start again.",
        )


@dataclass(frozen=True, slots=True)
class GatedView:
    """A SourceView whose table is digested once the gate is open."""

    view: SourceView
    gate: Gate
    table: str

    @property
    def position(self) -> Watermark | None:
        """See ports.SourceView."""
        return self.view.position

    def leaves(self, scheme: LeafScheme, part: Part) -> Mapping[int, Leaf]:
        """See ports.SourceView."""
        self.gate.wait(self.table)
        return self.view.leaves(scheme, part)

    def count(self) -> int:
        """See ports.SourceView."""
        return self.view.count()

    def bounds(self) -> tuple[int, int] | None:
        """See ports.SourceView."""
        return self.view.bounds()

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part) -> list[tuple[str, str]]:
        """See ports.SourceView."""
        return self.view.hashes(scheme, leaves, part)

    def images(self, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """See ports.SourceView."""
        return self.view.images(keys, part)


class ThrottledReader:
    """A RowReader that waits at a gate, and reads each table on at most `each` connections at a time (None: any number).

    `connections`: how many all tables together may use; 0: any number.
    """

    def __init__(self, reader: RowReader, gate: Gate, each: int | None = None) -> None:
        self.reader, self.gate, self.each = reader, gate, each

    @property
    def connections(self) -> int:
        """See ports.LimitsConnections."""
        return self.gate.limits.connections

    def chunks(
        self, table: Table, after: Key | None, rows: int, *, at: Watermark, ahead: int, beside: bool = True
    ) -> Generator[list[Chunk]]:
        """See ports.RowReader. While it waits, no connection and no read view is open."""
        ahead, beside = (ahead, beside) if self.each is None else (min(ahead, self.each), False)
        while True:
            self.gate.wait(table.full_name)
            with closing(self.reader.chunks(table, after, rows, at=at, ahead=ahead, beside=beside)) as groups:
                for group in groups:
                    yield group
                    after = group[-1].hi
                    if after is None:
                        return
                    if self.gate.closed:
                        break

    def rows(self, spark: SparkSession, table: Table, chunks: Sequence[Chunk], *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        return self._few_tasks(self.reader.rows(spark, table, chunks, at=at))

    def rows_of_keys(
        self, spark: SparkSession, table: Table, keys: Sequence[str], *, at: Watermark | None
    ) -> DataFrame:
        """See ports.RowReader."""
        if len(keys) > FEW_KEYS:
            self.gate.wait(table.full_name)
        return self._few_tasks(self.reader.rows_of_keys(spark, table, keys, at=at))

    def rows_at_exactly(
        self, spark: SparkSession, table: Table, use: Callable[[DataFrame], None], *, at: Watermark
    ) -> Watermark:
        """See ports.RowReader. Waits before the table is locked."""
        self.gate.wait(table.full_name)
        return self.reader.rows_at_exactly(spark, table, lambda frame: use(self._few_tasks(frame)), at=at)

    def outside_hash(self, spark: SparkSession, table: Table, part: Part, *, at: Watermark) -> DataFrame:
        """See ports.RowReader."""
        self.gate.wait(table.full_name)
        return self.reader.outside_hash(spark, table, part, at=at)

    @contextmanager
    def view(self, table: Table, *, at: Watermark) -> Iterator[SourceView]:
        """See ports.RowReader. Waits before the view is opened, which locks a table without a key."""
        self.gate.wait(table.full_name)
        with self.reader.view(table, at=at) as view:
            yield GatedView(view, self.gate, table.full_name)

    @contextmanager
    def views(self, tables: Sequence[Table], *, at: Watermark) -> Iterator[Sequence[SourceView]]:
        """See ports.RowReader and `view`."""
        self.gate.wait(tables[0].full_name)
        with self.reader.views(tables, at=at) as views:
            yield [GatedView(view, self.gate, table.full_name) for view, table in zip(views, tables, strict=True)]

    def _few_tasks(self, frame: DataFrame) -> DataFrame:
        """Each partition is read on a connection of its own, and a task reads one after the other."""
        return frame if self.each is None else frame.coalesce(self.each)

    # ---- what reads no rows

    @property
    def key_hash(self) -> KeyHash:
        """See ports.RowReader."""
        return self.reader.key_hash

    @property
    def exact_views(self) -> bool:
        """See ports.RowReader."""
        return self.reader.exact_views

    def bounds(self, table: Table) -> tuple[int, int] | None:
        """See ports.RowReader."""
        return self.reader.bounds(table)

    def wait_visible(self, at: Watermark, timeout: float) -> None:
        """See ports.RowReader."""
        self.reader.wait_visible(at, timeout)

    def sizes(self, tables: Sequence[Table]) -> Mapping[str, TableSize]:
        """See ports.RowReader."""
        return self.reader.sizes(tables)

    def defaults(self, tables: Sequence[Table]) -> Mapping[str, Defaults]:
        """See ports.RowReader."""
        return self.reader.defaults(tables)

    def read_position(self, value: JsonObject) -> Position:
        """See ports.SourceLog."""
        return self.reader.read_position(value)

    def covered(self, watermark: Watermark | None) -> Covered:
        """See ports.SourceLog."""
        return self.reader.covered(watermark)

    def judge_ddl(self, stored: Table | None, statements: Sequence[Ddl], now: Table) -> SchemaChange | None:
        """See ports.SourceLog."""
        return self.reader.judge_ddl(stored, statements, now)


class ThrottledFewReader(ThrottledReader):
    """Of a reader that can read a small table without Spark."""

    def __init__(self, reader: RowReader, gate: Gate, each: int | None, few: ReadsFewRows) -> None:
        super().__init__(reader, gate, each)
        self._few = few

    @contextmanager
    def few_rows(self, *, at: Watermark) -> Iterator[FewRowsReader]:
        """See ports_few.ReadsFewRows. While it waits, no connection is open, so each table has one of its own."""

        def read(table: Table, *, most_rows: int, most_bytes: int) -> pa.Table | None:
            self.gate.wait(table.full_name)
            with self._few.few_rows(at=at) as few:
                return few(table, most_rows=most_rows, most_bytes=most_bytes)

        yield read


def throttled(reader: RowReader, gate: Gate, each: int | None = None) -> RowReader:
    """The reader as it is if nothing is limited."""
    if not (gate.limits.waits or gate.limits.connections):
        return reader
    if isinstance(reader, ReadsFewRows):
        return ThrottledFewReader(reader, gate, each, reader)
    return ThrottledReader(reader, gate, each)
