"""The events of a table with a key since the compared ends, in parts that a driver can hold (INV 24).

A few events are read into memory at once. Beyond EVENTS_AT_ONCE, Spark decodes them once and spills them to disk,
partitioned by a hash of the key, and the driver reads one part after the other in one pass. All events of a key are in
one part.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.changelog import Tail
from airflow_cdc.decisions.compare.leaves import LeafScheme, leaf_of
from airflow_cdc.decisions.compare.part import Part
from airflow_cdc.decisions.compare.verdict import Rows
from airflow_cdc.spark_apps.compare.scan import Reached, Subject
from airflow_cdc.spark_apps.compare.tail import (
    FACTS,
    IN_TOPIC,
    KEY,
    Topic,
    event_rows,
    own_events,
    read_earlier,
    read_tail,
)
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, parallelism, reads_by_part, sibling
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.events import offsets_in
from airflow_cdc.spark_apps.ports import Bounds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

# How many events a driver holds at a time, about 4 kB each.
EVENTS_AT_ONCE = 100_000
# Events of one key that are examined; a row that changes more often while its table is compared stays unproven.
EVENTS_OF_KEY = 100_000
_PART, _NUMBER = own_name("part"), own_name("number")

# (key texts, part of the table) → the sink's rows under them
SinkRows = Callable[[Collection[str], Part], Rows]


@dataclass(frozen=True, slots=True)
class Flight:
    """Some keys' events: `tail` has all events of each key, except those in `hot`. `sink` reads their sink rows."""

    tail: Tail
    sink: SinkRows
    hot: tuple[str, ...] = ()

    def caveats(self, *, placed: bool) -> tuple[str, ...]:
        """Why these events are not sound evidence; see Tail.caveats."""
        if not self.hot:
            return self.tail.caveats(placed=placed)
        often = f"a row changed more than {EVENTS_OF_KEY} times while the table was compared: {', '.join(self.hot[:3])}"
        return (*self.tail.caveats(placed=placed), often)


class Flights(Protocol):
    """All events of a table since the compared ends."""

    def each(self, only: Collection[str] | None = None) -> Iterator[Flight]:
        """Flight by flight; if there are several, `only` selects the events of these keys and those without a key."""
        ...


@dataclass(slots=True)
class TakenOut:
    """The keys taken out of the leaves, as 8-byte hashes.

    A hash collision is harmless: the key at rest is skipped, its leaf stays unexplained, and that counts as a doubt.
    """

    table: Table
    scheme: LeafScheme
    count: int = 0
    _hashes: dict[int, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))

    def add(self, keys: Collection[str]) -> None:
        """Note that these keys were taken out."""
        for key in keys:
            self._hashes[leaf_of(self.table, self.scheme, key)].append(hash(key))
        self.count += len(keys)

    def within(self, leaves: Iterable[int]) -> Callable[[str], bool]:
        """Whether a key of these leaves was taken out."""
        hashes = frozenset(chain.from_iterable(self._hashes.get(leaf, ()) for leaf in leaves))
        return lambda key: hash(key) in hashes

    def left(self, keys: Collection[str]) -> list[str]:
        """Those of the keys that were not taken out."""
        flies = self.within({leaf_of(self.table, self.scheme, key) for key in keys})
        return [key for key in keys if not flies(key)]


@contextmanager
def flights(subject: Subject, now: Reached) -> Iterator[Flights]:
    """The events around the compared ends, up to `now`: one flight if they are few."""
    ranges = subject.since(now)
    with ExitStack() as stack:
        if subject.topic is None or offsets_in(ranges) <= EVENTS_AT_ONCE:
            yield _Held(subject, ranges)
        else:
            yield _Spilled(subject, subject.topic, ranges, stack)


class _Held:
    """Few events, in memory."""

    def __init__(self, subject: Subject, ranges: Bounds) -> None:
        topic, spark = subject.topic, subject.sink.spark
        tail = Tail() if topic is None else read_tail(spark, topic, ranges, subject.begin[1])
        self.flight = Flight(tail, partial(subject.sink.images, subject.table))

    def each(self, only: Collection[str] | None = None) -> Iterator[Flight]:  # noqa: ARG002 - as Flights asks
        """See Flights."""
        yield self.flight


class InParts:
    """The rows of a frame, read part after part in one pass; partition n of the frame holds the rows of part n.

    `at`: where a row has its part; rows with NULL there are left out. Asked for a lower part than before, it begins a
    new pass. A filter for each part would scan all rows once for each.
    """

    def __init__(self, frame: DataFrame, at: int) -> None:
        self.frame, self.at = frame, at
        self._parts: Iterator[tuple[int, Iterator[Row]]] = iter(())
        self._rows: list[Row] = []
        self._number = self._next = -1

    def of(self, number: int) -> list[Row]:
        """The rows of a part. They are held until another part is asked for."""
        if number == self._number:
            return self._rows
        self._rows = []  # before more rows are read
        if not reads_by_part(self.frame):
            self._rows = self._by_a_job(number)
            self._number = number
            return self._rows
        if number < self._number or self._number < 0:
            self._begin()
        while self._next < number:
            self._advance()
        self._number = number
        if self._next == number:
            self._rows = list(self._group)
        return self._rows

    def _by_a_job(self, number: int) -> list[Row]:
        """Of a frame that is kept, only the part's own blocks are looked into, and by few tasks: a job for each part has many."""
        at, tasks = fn.col(quote_ident(self.frame.columns[self.at])), parallelism(self.frame.sparkSession)
        return list(self.frame.where(at == number).coalesce(tasks).collect())

    def _begin(self) -> None:
        rows = self.frame.toLocalIterator()
        self._parts = groupby((row for row in rows if row[self.at] is not None), itemgetter(self.at))
        self._next = -1

    def _advance(self) -> None:
        before = self._next
        self._next, self._group = next(self._parts, (sys.maxsize, iter(())))
        if self._next <= before:  # a part would be judged without some of its events
            raise RuntimeError(f"part {self._next} of the events in flight follows part {before}")


class _Spilled:
    """Events on disk, in parts by a hash of the key; deleted when `stack` closes."""

    def __init__(self, subject: Subject, topic: Topic, ranges: Bounds, stack: ExitStack) -> None:
        self.subject, self.topic, self.stack = subject, topic, stack
        self.session = sibling(subject.sink.spark, SMALL_BATCH)
        self.start, position = subject.begin
        self.parts = -(-offsets_in(ranges) // EVENTS_AT_ONCE)
        self.passed = topic.log.covered(position)
        self.earlier = read_earlier(self.session, topic, ranges, position)
        self.events = self._kept(self._cut(ranges))
        self.parted, self.rows = InParts(self.events, -2), dict[Part, InParts]()
        self.without = self.events.where(f"{quote_ident(_PART)} IS NULL").collect()

    def each(self, only: Collection[str] | None = None) -> Iterator[Flight]:
        """See Flights."""
        for number in range(self.parts):
            yield self._flight(number, only)  # no reference is held here while the next one is read

    def _flight(self, number: int, only: Collection[str] | None) -> Flight:
        """One part. Events without a readable key are in every flight, because they may concern any key."""
        rows = [*self.without, *self.parted.of(number)]
        often = [row for row in rows if row[-1] > EVENTS_OF_KEY]
        hot = {row[KEY] for row in often if row[KEY] is not None and row[FACTS]["other_table"] is None}
        wanted = rows if only is None else [row for row in rows if row[1] is None or row[1] in only]
        events = chain(self.earlier, own_events(wanted))
        tail = Tail.of(events, self.start, self.passed)
        return Flight(tail, partial(self.sink_rows, number), tuple(sorted(hot)))

    def sink_rows(self, number: int, keys: Collection[str], part: Part) -> Rows:
        """The sink's rows under these keys of one flight."""
        if part not in self.rows:
            self.rows[part] = InParts(self._kept(self._joined(part)), 0)
        by_key = defaultdict(list)
        for _, key, *image in self.rows[part].of(number):
            if key in keys:
                by_key[key].append(tuple(image))
        return dict(by_key)

    def _cut(self, ranges: Bounds) -> DataFrame:
        """The events with their part; at most EVENTS_OF_KEY + 1 of each key, and as many of those without a key."""
        rows, key, facts = event_rows(self.session, self.topic, ranges), fn.col(quote_ident(KEY)), quote_ident(FACTS)
        order = Window.partitionBy(key).orderBy(*(f"{facts}.{name}" for name in IN_TOPIC))
        numbered = self._in_parts(rows.withColumn(_PART, self._part(key)), key)
        numbered = numbered.withColumn(_NUMBER, fn.row_number().over(order))
        return numbered.where(f"{quote_ident(_NUMBER)} <= {EVENTS_OF_KEY + 1}")

    def _joined(self, part: Part) -> DataFrame:
        """The flight's number and the sink's row, for all sink rows under the events' keys, in one scan of the sink."""
        asked = self.events.where(f"{quote_ident(KEY)} IS NOT NULL").select(quote_ident(KEY)).distinct()
        sink = self.subject.sink.in_session(self.session).images_frame(self.subject.table, part)
        joined, key = sink.join(asked, fn.col("key_text") == fn.col(quote_ident(KEY))), fn.col("key_text")
        return self._in_parts(joined.select(self._part(key), *(quote_ident(name) for name in sink.columns)), key)

    def _part(self, key: Column) -> Column:
        """The part of a key, NULL if the key is: the partition that `_in_parts` gives it."""
        return fn.when(key.isNotNull(), fn.pmod(fn.hash(key), fn.lit(self.parts)))

    def _in_parts(self, rows: DataFrame, key: Column) -> DataFrame:
        return rows.repartition(self.parts, key)

    def _kept(self, frame: DataFrame) -> DataFrame:
        """Persist on disk, not in memory, until the stack closes."""
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self.stack.callback(kept.unpersist)
        return kept
