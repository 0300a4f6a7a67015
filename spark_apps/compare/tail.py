"""The records of one table between two ends of its topic, read and decoded in one small job."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.applied import LastChange
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.changelog import Event, Tail
from airflow_cdc.decisions.compare.leaves import LeafScheme
from airflow_cdc.decisions.compare.verdict import Image
from airflow_cdc.events.record import TOMBSTONE
from airflow_cdc.spark_apps.canonical import arrow
from airflow_cdc.spark_apps.canonical.spark import key_text, row_hash
from airflow_cdc.spark_apps.compare import few
from airflow_cdc.spark_apps.compare.digest import ROWS
from airflow_cdc.spark_apps.driver.session import INTERPRETED, SMALL_BATCH, sibling
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.events import FEW, IN_RECORD, MOST_BYTES, SIDES, offsets_in
from airflow_cdc.spark_apps.ports import Bounds, DecodesFew, EventDecoder, ReadFew, ReadRanges, SourceLog
from airflow_cdc.spark_apps.types import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, Row, SparkSession

    from airflow_cdc.decisions.apply.applied import PlainChange

log = logging.getLogger("airflow_cdc.verify")

# for so few records, compiling code takes longer than interpreting the plan
INTERPRETED_RECORDS = 5_000
# How many records before the ends are read to learn which transactions they hold; more are read if these do not reach
# back to the source's position from before the ends.
LOOK_BACK = (200, 5_000, 100_000)
# columns of event_rows
FACTS, KEY = own_name("facts"), own_name("key")
# field of FACTS → where a decoded record has it. `own_events` reads fields by their place: by name, a row of Spark takes
# 100 µs longer, and there may be millions.
_FACTS = {
    "other_table": "other_table",
    "op": "op",
    "partition": "partition",
    "offset": "offset",
    "origin": "origin",
    "n": "place.n",
    "pos": "place.pos",
    "row": "place.row",
    "log": "log.name",
    "log_number": "log.n",
    "transaction": "transaction",
    "bad": "bad",
}
_FIELDS = {f"cdc.{path}": name for name, path in _FACTS.items()}
# the fields of FACTS that order the events of a topic
IN_TOPIC = tuple(_FIELDS[path] for path in ("cdc.partition", "cdc.offset", *IN_RECORD))


# in the place of a change that has none in the log
_UNPLACED = LastChange("", (0, 0, 0), "", 0, None, 0)


@dataclass(frozen=True, slots=True)
class Topic:
    """Where one table's events are, from the first offset still in the topic (`begins`) on. `few`: reads few in memory."""

    table: Table
    name: str
    begins: Mapping[int, int]
    log: SourceLog
    events: EventDecoder
    read: ReadRanges
    few: ReadFew | None = None


def read_tail(spark: SparkSession, topic: Topic, ranges: Bounds, position: Watermark) -> Tail:
    """The table's records in these ranges; `position` is before them. Costs nothing if there are none."""
    return _looked_back(spark, topic, ranges, position)[1] if offsets_in(ranges) else Tail()


def read_earlier(spark: SparkSession, topic: Topic, ranges: Bounds, position: Watermark) -> list[Event]:
    """The records before these ranges that show which of those in them are repeats."""
    return _looked_back(spark, topic, {p: (begin, begin) for p, (begin, _) in ranges.items()}, position)[0]


def _looked_back(spark: SparkSession, topic: Topic, ranges: Bounds, position: Watermark) -> tuple[list[Event], Tail]:
    """The records up to the ranges' ends, from ever further before them until they show what is a repeat, and their tail."""
    events, tail, passed = list[Event](), Tail(), topic.log.covered(position)
    start = {p: begin for p, (begin, _) in ranges.items()}
    for records in LOOK_BACK:
        back = {p: max(topic.begins.get(p, 0), begin - records) for p, begin in start.items()}
        events = list(read_events(spark, topic, {p: (back[p], end) for p, (_, end) in ranges.items()}, start))
        tail = Tail.of(events, start, passed)
        if tail.complete or all(back[p] <= topic.begins.get(p, 0) for p in ranges):
            break
    return events, tail


def read_events(spark: SparkSession, topic: Topic, ranges: Bounds, rows_from: Mapping[int, int]) -> Iterator[Event]:
    """The table's own records in these ranges, all held in memory. Those before `rows_from` may be without their rows."""
    if (plain := _in_memory(topic, ranges, rows_from)) is not None:
        return iter(plain)
    # No where() on decoded columns: Spark would push it below the decoding and spend half a minute planning that.
    session = sibling(spark, SMALL_BATCH | INTERPRETED if offsets_in(ranges) <= INTERPRETED_RECORDS else SMALL_BATCH)
    return own_events(event_rows(session, topic, ranges).collect())


def _in_memory(topic: Topic, ranges: Bounds, rows_from: Mapping[int, int]) -> list[Event] | None:
    """The events decoded without Spark; None if they are not few, or if one of them is not plain.

    Those before `rows_from` only say what is a repeat. A DDL may stand between, so their rows are not decoded.
    """
    table, events = topic.table, topic.events
    decoder = events.plain(table) if isinstance(events, DecodesFew) else None
    if topic.few is None or decoder is None or offsets_in(ranges) > FEW:
        return None
    records = topic.few(topic.name, ranges, MOST_BYTES)
    if records is None:
        return None
    try:
        return plain_events(table, decoder.decode(records, before=True, rows_from=rows_from))
    except (*few.UNREADABLE, SchemaError) as error:
        log.info("%s: events are decoded by Spark, as not all are plain: %r", table.full_name, error)
        return None


def plain_events(table: Table, decoded: Sequence[PlainChange]) -> list[Event]:
    """Plain changes as `own_events` gives them."""
    changes = [(one, one.change or _UNPLACED) for one in decoded if one.op != TOMBSTONE]
    keys = _keys(table, [one.key for one, _ in changes])
    sides = [_images(table, [side(one) for one, _ in changes]) for side in (attrgetter("before"), attrgetter("after"))]
    return [
        Event(
            one.partition, one.offset, one.op, change.origin or None, change.place, (change.log, change.log_n), change.transaction,
            key, before, after,
        )
        for (one, change), key, before, after in zip(changes, keys, *sides, strict=True)
    ]  # fmt: skip


def _keys(table: Table, keys: Sequence[tuple[object, ...]]) -> Sequence[str | None]:
    return [None] * len(keys) if table.keyless else arrow.key_texts(table, arrow_rows(table.key_columns, keys))


def _images(table: Table, rows: Sequence[tuple[object, ...] | None]) -> list[Image | None]:
    """The image of each row, None where there is none."""
    there = arrow_rows(table.mirrored, [row for row in rows if row is not None])
    images = iter(arrow.images(table, there))
    return [None if row is None else next(images) for row in rows]


def event_rows(session: SparkSession, topic: Topic, ranges: Bounds) -> DataFrame:
    """The records in these ranges as rows that `own_events` reads: FACTS, KEY, the row before, the row after."""
    raw = topic.read(session, {topic.name: ranges})
    return images(topic.table, topic.events.decode(raw, topic.table))


def own_events(rows: Iterable[Row]) -> Iterator[Event]:
    """The records of this very table. One without an op is not a change event, and is kept as a caveat."""
    for facts, key, before, after, *_ in rows:
        other_table, op, partition, offset, origin, n, pos, row, log, log_number, transaction, bad = facts
        if other_table is None and op != TOMBSTONE:
            yield Event(
                partition,
                offset,
                op,
                origin,
                (n or 0, pos or 0, row or 0),
                (log or "", log_number or 0),
                transaction,
                key,
                None if before is None else tuple(before),
                None if after is None else tuple(after),
                bad or "",
            )


def touched_leaves(raw: DataFrame, table: Table, events: EventDecoder, scheme: LeafScheme) -> frozenset[int]:
    """The leaves of all keys in raw records. A record whose key cannot be read gives none."""
    leaf = f"IF({_key_is_read(table)}, {ROWS.leaf(scheme, table)}, NULL) AS leaf"
    leaves = events.decode(raw, table, ()).select("key.*").selectExpr(leaf)
    return frozenset(int(row["leaf"]) for row in leaves.distinct().collect() if row["leaf"] is not None)


def images(table: Table, events: DataFrame) -> DataFrame:
    """Decoded records with the key's text and the row images in the comparison's form, in columns of our own names."""
    facts = fn.struct(*(fn.col(f"cdc.{path}").alias(name) for name, path in _FACTS.items())).alias(FACTS)
    sides = (fn.col(side).alias(own_name(side)) for side in SIDES)
    opened = events.select(facts, *sides, *(["key.*"] if table.key else []))
    # the text of a key that cannot be read would be that of NULLs, a key like any other
    key = fn.when(fn.expr(_key_is_read(table)), fn.expr(key_text(table))) if table.key else fn.lit(None)
    texts = opened.select(*_columns(FACTS, *map(own_name, SIDES)), key.alias(KEY))
    for side in SIDES:
        texts = _with_image(texts, own_name(side), table)
    return texts


def _key_is_read(table: Table) -> str:
    """SQL condition: no column of a key is NULL in the source, so NULL stands for what cannot be read."""
    return " AND ".join(f"{quote_ident(name)} IS NOT NULL" for name in table.key)


def _columns(*names: str) -> list[Expression]:
    return [fn.col(quote_ident(name)) for name in names]


def _with_image(frame: DataFrame, side: str, table: Table) -> DataFrame:
    """Replace the struct `side` by an array of its hash and the columns outside it, or NULL."""
    kept = _columns(*(name for name in frame.columns if name != side))
    there = own_name("there")
    opened = frame.select(*kept, fn.col(quote_ident(side)).isNotNull().alias(there), fn.col(f"{quote_ident(side)}.*"))
    parts = fn.array(fn.expr(row_hash(table)), *_columns(*outside_hash(table)))
    return opened.select(*kept, fn.when(fn.col(quote_ident(there)), parts).alias(side))
