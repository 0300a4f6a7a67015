"""The events of a table with a key since the compared ends, in parts that a driver can hold (INV 24).

As long as there are few of them they are read into memory at once. Beyond EVENTS_AT_ONCE Spark decodes them once, spills
them to disk cut by a hash of the key, and the driver sees one part after the other. All events of a key are in one part.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.compare.changelog import Event, Tail
from airflow_cdc.core.compare.leaves import LeafScheme, leaf_of
from airflow_cdc.core.compare.part import Part
from airflow_cdc.core.compare.verdict import Rows
from airflow_cdc.core.table import Table
from airflow_cdc.spark_apps.compare.scan import Reached, Subject
from airflow_cdc.spark_apps.compare.tail import (
    FACTS,
    KEY,
    Topic,
    event_rows,
    own_events,
    read_earlier,
    read_tail,
    records_between,
)
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Events that a driver holds at a time, about 2 kB each.
EVENTS_AT_ONCE = 100_000
# Events of one key that are looked at; of a row that changes more often while its table is compared nothing is proven.
EVENTS_OF_KEY = 100_000
_PART, _NUMBER = own_name("part"), own_name("number")

# (key texts, part of the table) → the sink's rows under them
SinkRows = Callable[[Collection[str], Part], Rows]


@dataclass(frozen=True, slots=True)
class Flight:
    """Some keys' events: `tail` has all of each key's. `sink` reads the rows under these keys. `caveats`: see Tail."""

    tail: Tail
    sink: SinkRows
    caveats: tuple[str, ...] = ()


@dataclass(slots=True)
class TakenOut:
    """Which keys were taken out of the leaves, by 8 bytes each.

    Two keys with one hash do no harm: the one at rest is passed over with its leaf left unexplained, which is a doubt.
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


@contextmanager
def flights(subject: Subject, now: Reached, only: Collection[str] | None = None) -> Iterator[Iterator[Flight]]:
    """The events from the compared ends to `now`, `only` those of these keys where there are many; one flight if few."""
    topic, stop = subject.topic, {} if subject.topic is None else now.ends.get(subject.topic.name, {})
    with ExitStack() as stack:
        if topic is None:
            yield iter(())
        elif records_between(subject.ends, stop) <= EVENTS_AT_ONCE:
            tail = read_tail(subject.sink.spark, topic, subject.ends, stop, subject.position)
            yield iter((Flight(tail, partial(subject.sink.images, subject.table), tail.caveats()),))
        else:
            spill = _Spill(subject, topic, sibling(subject.sink.spark, SMALL_BATCH), stop, stack)
            yield spill.flights(only)


class _Spill:
    """Events on disk, cut into parts by a hash of the key; `stack` forgets them at its end."""

    def __init__(
        self, subject: Subject, topic: Topic, session: SparkSession, stop: Mapping[int, int], stack: ExitStack
    ) -> None:
        self.subject, self.topic, self.session, self.stack = subject, topic, session, stack
        self.parts = -(-records_between(subject.ends, stop) // EVENTS_AT_ONCE)
        self.earlier = read_earlier(session, topic, subject.ends, stop, subject.position)
        self.events = self._kept(self._cut(stop))
        self.rows: dict[Part, DataFrame] = {}

    def flights(self, only: Collection[str] | None) -> Iterator[Flight]:
        """One flight per part. What names no key is in every part: it may be about any."""
        passed = self.topic.log.covered(self.subject.position)
        for number in range(self.parts):
            rows = self.events.where(f"{quote_ident(_PART)} = {number} OR {quote_ident(_PART)} IS NULL").collect()
            hot = sorted({row[KEY] for row in rows if row[_NUMBER] > EVENTS_OF_KEY and row[KEY] is not None})
            wanted = rows if only is None else [row for row in rows if row[KEY] is None or row[KEY] in only]
            found: Iterable[Event] = own_events(self.topic.table, wanted)
            tail = Tail.of(chain(self.earlier, found), self.subject.ends, passed)
            yield Flight(tail, partial(self.sink_rows, number), (*tail.caveats(), *_hot_caveats(hot)))

    def sink_rows(self, number: int, keys: Collection[str], part: Part) -> Rows:
        """The sink's rows under these keys of one part."""
        if part not in self.rows:
            self.rows[part] = self._kept(self._joined(part))
        found = defaultdict(list)
        for key, *image, _ in self.rows[part].where(f"{quote_ident(_PART)} = {number}").collect():
            if key in keys:
                found[key].append(tuple(image))
        return dict(found)

    def _cut(self, stop: Mapping[int, int]) -> DataFrame:
        """The events with their part; of each key, and of what names none, no more than EVENTS_OF_KEY and one."""
        ranges = {p: (self.subject.ends.get(p, 0), end) for p, end in stop.items()}
        rows = event_rows(self.session, self.topic, ranges)
        key = fn.col(quote_ident(KEY))
        part = fn.when(key.isNotNull(), fn.pmod(fn.xxhash64(key), fn.lit(self.parts)))
        facts = quote_ident(FACTS)
        order = Window.partitionBy(quote_ident(_PART), key).orderBy(f"{facts}.partition", f"{facts}.offset")
        numbered = rows.withColumn(_PART, part).repartition(quote_ident(_PART))
        numbered = numbered.withColumn(_NUMBER, fn.row_number().over(order))
        return numbered.where(f"{quote_ident(_NUMBER)} <= {EVENTS_OF_KEY + 1}")

    def _joined(self, part: Part) -> DataFrame:
        """The sink's rows under the events' keys, with each one's part of the events: one scan of the sink."""
        keys = self.events.where(f"{quote_ident(KEY)} IS NOT NULL").select(quote_ident(KEY), quote_ident(_PART))
        sink = self.subject.sink.in_session(self.session).images_frame(self.subject.table, part)
        joined = sink.join(keys.distinct(), sink["key_text"] == keys[quote_ident(KEY)]).drop(quote_ident(KEY))
        return joined.repartition(quote_ident(_PART)).sortWithinPartitions(quote_ident(_PART))

    def _kept(self, frame: DataFrame) -> DataFrame:
        """On disk, not in memory, until the stack ends."""
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self.stack.callback(kept.unpersist)
        return kept


def _hot_caveats(keys: Sequence[str]) -> tuple[str, ...]:
    if not keys:
        return ()
    return (f"a row changed more than {EVENTS_OF_KEY} times while the table was compared: {', '.join(keys[:3])}",)
