"""Compare every row of a table while both sides keep changing (INV 24, 25).

The sink is pinned to the snapshot S, which holds its topic up to the ends E. The source is digested in one read view
V: later than E, or, where a view says which changes it shows, opened before the sink caught up to E; a large table in
several views later than E (ranges.py). Keys that the log changed between E and V are taken out of both digests and judged
one by one by their state at E according to the log; the leaves of all the others must then be equal. So a busy table costs
no more than a quiet one, and the verdict is about exactly S.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyspark.sql import functions as fn

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.leaves import Leaf, LeafScheme, choose_scheme, compare, leads_with_integer, leaf_of
from airflow_cdc.decisions.compare.part import WHOLE, Part
from airflow_cdc.decisions.compare.verdict import (
    KEYS_HELD,
    RowCounts,
    Rows,
    Tally,
    count_caveats,
    table_verdict,
    without,
)
from airflow_cdc.spark_apps.compare import few
from airflow_cdc.spark_apps.compare.ranges import RANGE_ROWS, RangesView
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.session import parallelism
from airflow_cdc.spark_apps.ports import Bounds, RowReader, SourceView, connection_limit
from airflow_cdc.spark_apps.ports_few import ReadsFewRows

log = logging.getLogger("airflow_cdc.verify")

# How many rows of unequal leaves are held in memory at a time.
ROWS_AT_ONCE = 200_000
# views that are open at a time, each on a connection of its own, and how many small tables share one
CONNECTIONS = 8
TOGETHER = 16
# what a view digests in well under a second
SMALL_ROWS = 20_000
ROUNDS = 5
VISIBLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Reached:
    """A source position that the connector has read past, and the topics' ends taken after that (INV 6)."""

    position: Watermark
    ends: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One table to compare: its snapshot S holds everything before `ends`, and `position` is before them.

    `before`: topics' ends before which the view shows every change, and a position before them; None where the view was
    opened after `ends`. `topic` None: no events are examined. `rows`: the approximate row count of S, which determines
    the size of the leaves. `part`: only these rows are compared; a table without a key is always compared whole.
    """

    table: Table
    sink: SinkView
    topic: Topic | None
    ends: Mapping[int, int]
    position: Watermark
    rows: int = 0
    part: Part = WHOLE
    before: Reached | None = None

    @property
    def begin(self) -> tuple[Mapping[int, int], Watermark]:
        """Where the events that are examined begin (partition → offset), and a source position before that."""
        if self.before is None or self.topic is None:
            return self.ends, self.position
        return self.before.ends.get(self.topic.name, {}), self.before.position

    def since(self, now: Reached) -> Bounds:
        """The offsets of the events that are examined, up to `now`; {} where none are."""
        starts, ends = self.begin[0], now.ends.get(self.topic.name, {}) if self.topic is not None else {}
        return {p: (starts.get(p, 0), end) for p, end in ends.items()}

    @property
    def small(self) -> bool:
        """Whether its view may be shared, and others wait for it."""
        return self.rows <= SMALL_ROWS and not self.table.keyless


@dataclass(frozen=True, slots=True)
class Scanned:
    """Both digests of a table, and the keys whose columns outside the digest differ.

    `totals`: row counts of the whole source and sink tables, where only a part of them was digested.
    """

    subject: Subject
    view: SourceView
    scheme: LeafScheme
    source: Mapping[int, Leaf]
    sink: Mapping[int, Leaf]
    others: frozenset[str]
    totals: tuple[int, int] = (0, 0)

    @property
    def digests(self) -> Digests:
        """Both sides' leaves."""
        return self.source, self.sink

    @property
    def unequal(self) -> tuple[int, ...]:
        """Leaves that differ before anything is taken out."""
        return compare(self.source, self.sink).unequal


@dataclass(slots=True)
class Outcome:
    """The result of a comparison. `source_rows` and `sink_rows` count the whole table as of the compared ends.

    `losses`: (column, why it can't be compared), of columns that the sink doesn't hold as the source does.
    """

    subject: Subject
    tally: Tally = field(default_factory=Tally)
    source_rows: int = 0
    sink_rows: int = 0
    leaves: int = 0
    leaves_rechecked: int = 0
    leaf_map: str = ""
    in_flight: int = 0
    caveats: tuple[str, ...] = ()
    losses: tuple[tuple[str, str], ...] = ()

    @property
    def rows(self) -> RowCounts:
        """Row counts of both sides; if only a part was compared, the source's count omits differences outside it."""
        if self.subject.part.whole:
            return RowCounts(self.source_rows, self.sink_rows)
        return RowCounts(self.sink_rows + self.tally.missing - self.tally.ghosts, self.sink_rows)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the table, or on the part that was compared."""
        return table_verdict(self.tally, self.caveats, self.rows)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the table cannot be called equal, apart from the keys that differ."""
        return (*self.caveats, *(count_caveats(self.tally, self.rows)))

    def add_caveats(self, *reasons: str) -> None:
        """Note why equality cannot be proven; each reason once."""
        self.caveats = tuple(dict.fromkeys((*self.caveats, *reasons)))

    @property
    def equal_by_digests(self) -> bool:
        """Whether the digests of all leaves were equal at once: no key was judged by the log or read again."""
        untouched = not (self.in_flight or self.leaves_rechecked)
        return untouched and self.subject.part.whole and self.verdict is Verdict.MATCH

    @property
    def elsewhere(self) -> bool:
        """Whether the row counts prove that rows differ outside the part that was compared."""
        gap = self.source_rows - self.sink_rows
        return not self.subject.part.whole and gap != self.tally.missing - self.tally.ghosts


class Judgement(Protocol):
    """A table after its scan: certain results are in `outcome`, the rest is examined again."""

    outcome: Outcome

    @property
    def pending(self) -> bool:
        """Whether another round is needed."""
        ...

    def read_again(self, view: SourceView) -> None:
        """Read the open keys or images in a newer view."""
        ...

    def decide(self, now: Reached) -> None:
        """Decide what the events up to `now` allow; `now` was reached after the last view was opened."""
        ...

    def give_up(self) -> None:
        """Count what is still open as unsettled."""
        ...


Judge = Callable[[Scanned, Reached], Judgement]


def compare_tables(
    reader: RowReader,
    subjects: Sequence[Subject],
    judge: Judge,
    reach: Callable[[], Reached],
    *,
    watermark: Watermark,
    start: Reached,
) -> list[Outcome]:
    """Compare the subjects; returns one outcome per subject.

    `reach` takes the source's current position and waits until the topics hold everything up to it. Every source
    connection proves that it reaches the server of `watermark` (INV 9).
    """
    # the views must show whatever the sink already holds: a commit can be read from the log before it is visible
    lots = shared(subjects)
    each = connections_of(reader, subjects, len(lots))
    with open_views(reader, lots, watermark, start.position, each) as opened:
        views = [opened[subject.table.full_name] for subject in subjects]
        judgements, now = compare_views(reader, subjects, views, judge, reach, watermark=watermark)
    return decided(reader, judgements, reach, watermark=watermark, now=now)


def few_in_memory(subjects: Sequence[Subject], most: int) -> list[Subject]:
    """The subjects, whose rows are read into memory where they are no more than `most`, which few.most_rows says."""
    return [replace(subject, sink=subject.sink.in_memory_up_to(most)) for subject in subjects]


def groups(subjects: Sequence[Subject], *, sharing: bool, connections: int = 0) -> Iterator[list[Subject]]:
    """Subjects to compare at a time, with views on at most so many connections (0, or more: CONNECTIONS).

    A group waits once until the connector has committed past its views, which takes up to a minute where Connect commits
    as it does by default. So small tables are many to a group, if views are shared.
    """
    group: list[Subject] = []
    free = room = min(connections or CONNECTIONS, CONNECTIONS) * TOGETHER
    for subject in subjects:
        takes = 1 if sharing and subject.small else TOGETHER
        if takes > free:
            yield group
            group, free = [], room
        group.append(subject)
        free -= takes
    if group:
        yield group


def shared(subjects: Sequence[Subject]) -> list[list[Table]]:
    """The tables, those of one view together: small ones share, each other table has its own."""
    small = [subject.table for subject in subjects if subject.small]
    alone = [[subject.table] for subject in subjects if not subject.small]
    return [*alone, *(small[at : at + TOGETHER] for at in range(0, len(small), TOGETHER))]


def connections_of(reader: RowReader, subjects: Sequence[Subject], lots: int) -> dict[str, int]:
    """Large table → on how many connections it is digested, where so many `lots` of tables have at least one each.

    As many as Spark has tasks, as when rows are read; no more than CONNECTIONS for all, or what the reader is limited to.
    An exact view is one of a kind: its position is what decides about a key.
    """
    limit = min(connection_limit(reader) or CONNECTIONS, CONNECTIONS)
    large = [] if reader.exact_views else [subject for subject in subjects if subject.rows > RANGE_ROWS]
    return {
        subject.table.full_name: max(1, min(limit // lots, parallelism(subject.sink.spark)))
        for subject in large
        if subject.part.whole and leads_with_integer(subject.table)
    }


@contextmanager
def open_views(
    reader: RowReader,
    lots: Iterable[Sequence[Table]],
    watermark: Watermark,
    at: Watermark,
    connections: Mapping[str, int] | None = None,
) -> Iterator[dict[str, SourceView]]:
    """A read view of each table that shows everything up to `at`, by the table's name; closed at the end of the block.

    `connections`: table → how many views of it are opened; 1 for a table that is not in it. One with several has no other
    table in its lot.
    """
    reader.wait_visible(at, VISIBLE_SECONDS)
    views: dict[str, SourceView] = {}
    with ExitStack() as stack:
        for lot in lots:
            times = (connections or {}).get(lot[0].full_name, 1)
            opened = [stack.enter_context(reader.views(lot, at=watermark)) for _ in range(times)]
            views |= {table.full_name: view for table, view in zip(lot, opened[0], strict=True)}
            if times > 1:
                views[lot[0].full_name] = RangesView(lot[0], tuple(view for some in opened for view in some))
        yield views


def compare_views(
    reader: RowReader,
    subjects: Sequence[Subject],
    views: Sequence[SourceView],
    judge: Judge,
    reach: Callable[[], Reached],
    *,
    watermark: Watermark,
) -> tuple[list[Judgement], Reached]:
    """Compare every row in the views; uncertain keys then need further reads. Returns the position reached."""
    cores = os.cpu_count() or 1
    at_a_time = min(len(subjects), cores, connection_limit(reader) or cores)
    with ThreadPoolExecutor(max(1, at_a_time)) as pool:
        scans = list(pool.map(lambda pair: scan(reader, watermark, *pair), zip(subjects, views, strict=True)))
        now = reach()
        return list(pool.map(lambda scanned: judge(scanned, now), scans)), now


def decided(
    reader: RowReader,
    judgements: Sequence[Judgement],
    reach: Callable[[], Reached],
    *,
    watermark: Watermark,
    now: Reached,
) -> list[Outcome]:
    """Read what is open again, in newer views, until it is decided or the number of rounds is used up."""
    for _ in range(ROUNDS):
        open_ones = [judgement for judgement in judgements if judgement.pending]
        if not open_ones:
            break
        now = _another_round(reader, watermark, open_ones, reach, now)
    for judgement in judgements:
        judgement.give_up()
    return [judgement.outcome for judgement in judgements]


def _another_round(
    reader: RowReader,
    watermark: Watermark,
    judgements: Sequence[Judgement],
    reach: Callable[[], Reached],
    before: Reached,
) -> Reached:
    reader.wait_visible(before.position, VISIBLE_SECONDS)
    for judgement in judgements:
        with reader.view(judgement.outcome.subject.table, at=watermark) as view:
            judgement.read_again(view)
    now = reach()
    for judgement in judgements:
        judgement.decide(now)
    return now


def scan(reader: RowReader, watermark: Watermark, subject: Subject, view: SourceView) -> Scanned:
    """Digest both sides in parallel, and compare the columns outside the digest for all rows (INV 25)."""
    table, part = subject.table, subject.part
    bounds = None if part.scheme else view.bounds()
    scheme = part.scheme or choose_scheme(table, subject.rows, bounds, by=reader.key_hash)
    view = view.split(scheme, bounds) if isinstance(view, RangesView) else view
    with ThreadPoolExecutor(1) as beside:
        digesting = beside.submit(view.leaves, scheme, part)
        sink = subject.sink.leaves(table, scheme, part)
        if connection_limit(reader):
            wait([digesting])  # the columns outside the digest are read on another connection
        others = other_columns(reader, watermark, subject) if outside_hash(table) else frozenset()
        ours = digesting.result()
        totals = (0, 0) if part.whole else (view.count(), subject.sink.count())
        scanned = Scanned(subject, view, scheme, ours, sink, others, totals)
    log.info(
        "%s: %d leaves, %d differ before what is in flight is taken out",
        table.full_name,
        len(sink),
        len(scanned.unequal),
    )
    return scanned


def other_columns(reader: RowReader, watermark: Watermark, subject: Subject) -> frozenset[str]:
    """Key texts of rows whose columns outside the digest differ. Compares all rows; returns few more than KEYS_HELD."""
    table, part = subject.table, subject.part
    if (keys := _others_in_memory(reader, watermark, subject)) is not None:
        return keys
    rows = reader.outside_hash(subject.sink.spark, table, part, at=watermark)
    ours = rows.withColumn("copies", fn.lit(1))
    theirs = subject.sink.images_frame(table, part).drop("h").withColumn("copies", fn.lit(-1))
    grouped = ours.unionByName(theirs).groupBy("key_text", *(f"x{at}" for at in range(len(outside_hash(table)))))
    differ = grouped.agg(fn.sum("copies").alias("copies")).where("copies <> 0").select("key_text").distinct()
    return frozenset(str(row[0]) for row in differ.limit(KEYS_HELD + 1).collect())


def _others_in_memory(reader: RowReader, watermark: Watermark, subject: Subject) -> frozenset[str] | None:
    """As other_columns, for a small table; None if that is left to Spark."""
    table, sink = subject.table, subject.sink.small
    if sink is None or table.keyless or not subject.part.whole or not isinstance(reader, ReadsFewRows):
        return None
    # of the other columns, which the digests compare, some values can only be read by Spark
    names = frozenset((*table.key, *outside_hash(table)))
    narrow = replace(table, columns=tuple(column for column in table.columns if column.name in names))
    with reader.few_rows(at=watermark) as rows_of:
        ours = rows_of(narrow, most_rows=sink.most_rows, most_bytes=few.FEW_BYTES)
    return None if ours is None else few.differing_outside(table, ours, sink)


# the digests of source and sink
Digests = tuple[Mapping[int, Leaf], Mapping[int, Leaf]]


def taken_out(scanned: Scanned, digests: Digests, source: Rows, sink: Rows) -> tuple[dict[int, Leaf], dict[int, Leaf]]:
    """Both digests without the rows of these keys."""
    table, scheme = scanned.subject.table, scanned.scheme

    def rows(found: Rows) -> Iterator[tuple[int, str]]:
        for key, images in found.items():
            leaf = leaf_of(table, scheme, key)
            yield from ((leaf, str(image[0])) for image in images)

    return without(digests[0], rows(source)), without(digests[1], rows(sink))


def rows_in(leaves: Mapping[int, Leaf]) -> int:
    """Rows of all leaves."""
    return sum(leaf.n for leaf in leaves.values())


def leaf_groups(scanned: Scanned, leaves: Iterable[int]) -> Iterator[list[int]]:
    """Leaves in groups of about ROWS_AT_ONCE rows."""
    group: list[int] = []
    rows = 0
    for leaf in leaves:
        size = max(side.get(leaf, Leaf(0, 0, 0)).n for side in (scanned.source, scanned.sink))
        if group and rows + size > ROWS_AT_ONCE:
            yield group
            group, rows = [], 0
        group.append(leaf)
        rows += size
    if group:
        yield group


def row_hashes(scanned: Scanned, leaves: Sequence[int]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(key text, hash) of every row in these leaves: the source's, read while Spark reads the sink's."""
    subject, scheme, part = scanned.subject, scanned.scheme, scanned.subject.part
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(scanned.view.hashes, scheme, leaves, part)
        theirs = subject.sink.hashes(subject.table, scheme, leaves, part)
        return list(reading.result()), theirs
