"""What a batch of decoded records changes, as DataFrame → DataFrame transforms without I/O.

Keyed tables: topic order is the truth, the last event of a key wins. Tables without a key are multisets: what counts
is the net number of copies of each distinct row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.decisions.apply.applied import Highest
from airflow_cdc.events.record import CREATE, DELETE, READ, TOMBSTONE, TRUNCATE, UPDATE
from airflow_cdc.spark_apps.events import IN_RECORD, meta

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_cdc.core.position import Covered

# How far apart two clocks for facts about one server may be before we believe "before W, yet committed after it".
CLOCK_SLACK_MS = 60_000

# A record and its repeat are equal in all of these.
IDENTITY = ("origin", "place", "log", "transaction", "op")


def is_covered(covered: Covered) -> Column:
    """Whether the record's change is at or before the watermark, and therefore in the snapshot already.

    The Spark counterpart of `Covered.holds`. A tombstone has no position and is never covered.
    """
    return fn.coalesce(_in_numbers(covered) | _is_below(covered), fn.lit(False))


def _in_numbers(covered: Covered) -> Column:
    inside = fn.lit(False)
    for name, spans in covered.numbers.items():
        inside = inside | ((meta("origin") == fn.lit(name)) & _in_spans(spans))
    return fn.coalesce(inside, fn.lit(False))


def _in_spans(spans: Sequence[tuple[int, int]]) -> Column:
    """Whether the transaction's number is in one of the spans: held in an array, because a set can have very many."""
    number = meta("place")["n"]
    pairs = ", ".join(f"named_struct('lo', {lo}L, 'hi', {hi}L)" for lo, hi in spans)
    return fn.exists(fn.expr(f"array({pairs})"), lambda span: (number >= span["lo"]) & (number <= span["hi"]))


def _is_below(covered: Covered) -> Column:
    here, below = meta("place"), fn.lit(False)
    for name, (n, pos) in covered.below.items():
        older = (here["n"] < n) | ((here["n"] == n) & (here["pos"] < pos))
        below = below | ((meta("origin") == fn.lit(name)) & older)
    return fn.coalesce(below, fn.lit(False))


def is_contradictory(covered: Covered) -> Column:
    """Whether a record is before W by position but after W by time, which means that someone moved the position."""
    return fn.coalesce(_is_below(covered) & (meta("ts_ms") > fn.lit(covered.taken_ms + CLOCK_SLACK_MS)), fn.lit(False))


def applicable(decoded: DataFrame, covered: Covered) -> DataFrame:
    """The records that may change the table: its own, readable, and after W.

    A tombstone may follow each delete, even in a table without a key. There it has no key and adds nothing to the
    delete.
    """
    own = meta("other_table").isNull() & meta("bad").isNull()
    says_nothing = (meta("op") == TOMBSTONE) & ~fn.lit("key" in decoded.columns)
    return decoded.where(own & ~is_covered(covered) & ~says_nothing)


def after_truncate(events: DataFrame, truncated_at: int | None) -> DataFrame:
    """The row changes after the last truncate (its offset; a truncated topic has one partition)."""
    rows = events.where(meta("op") != TRUNCATE)
    return rows if truncated_at is None else rows.where(meta("offset") > truncated_at)


def net_changes(events: DataFrame, partitions: int = 1) -> DataFrame:
    """Keyed table: the last event of each key in topic order → (key, deleted, after, cdc, scattered).

    A key goes to one partition, so offsets order its events; a delete and its tombstone are one delete. A changed
    key arrives as a delete of the old key and a create of the new one, which are independent. `scattered`: the key's
    events are in several of the topic's `partitions`, so their order is unknown (INV 33).
    """
    key = Window.partitionBy("key")
    last = key.orderBy(meta("partition").desc(), meta("offset").desc(), *map(fn.desc, IN_RECORD))
    many = fn.min(meta("partition")).over(key) < fn.max(meta("partition")).over(key)
    marked = events.select(
        "key",
        meta("op").isin(DELETE, TOMBSTONE).alias("deleted"),
        "after",
        "cdc",
        (many if partitions > 1 else fn.lit(False)).alias("scattered"),
        fn.row_number().over(last).alias("cdc_rank"),
    )
    return marked.where("cdc_rank = 1").drop("cdc_rank")


def net_images(events: DataFrame) -> DataFrame:
    """Keyless table: how many copies of each distinct row were added (+) or removed (-) → (image, n), n never 0."""
    came = events.where(meta("op").isin(CREATE, UPDATE, READ)).select(
        fn.col("after").alias("image"), fn.lit(1).alias("n")
    )
    went = events.where(meta("op").isin(UPDATE, DELETE)).select(fn.col("before").alias("image"), fn.lit(-1).alias("n"))
    return came.unionAll(went).groupBy("image").agg(fn.sum("n").alias("n")).where("n <> 0")


def identity() -> Column:
    """The exact identity of a change in the source's log; a repeat after a connector restart has the same identity."""
    return fn.struct(*(meta(name).alias(name) for name in IDENTITY))


def without_repeats(events: DataFrame) -> DataFrame:
    """Each change once: its first record, so that changes stay on their side of a truncate."""
    first = Window.partitionBy(identity()).orderBy(meta("partition"), meta("offset"))
    return events.withColumn("cdc_copy", fn.row_number().over(first)).where("cdc_copy = 1").drop("cdc_copy")


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest change applied so far per origin.

    A record above it is certainly new. Any other may be a repeat, or belong to a transaction that an earlier batch
    contained in part (its other rows came through another partition, or from another server's log).
    """

    high: Mapping[str, Highest]

    def is_doubtful(self) -> Column:
        """Whether a record may have been applied before; its exact identity then decides."""
        doubtful = fn.lit(False)
        here = meta("place")
        for name, high in self.high.items():
            top = f"named_struct('pos', {high.pos}L, 'row', {high.row})"
            inside = fn.struct(here["pos"], here["row"]) <= fn.expr(top)
            elsewhere = (meta("log")["name"] != fn.lit(high.log)) | (meta("log")["n"] != fn.lit(high.log_n))
            same = (here["n"] == high.n) & (elsewhere | inside)
            doubtful = doubtful | ((meta("origin") == fn.lit(name)) & ((here["n"] < high.n) | same))
        return fn.coalesce(doubtful, fn.lit(False))

    def raised(self, by: Mapping[str, Highest]) -> Seen:
        """A copy raised by a batch whose highest changes are `by`."""
        names = sorted({*self.high, *by})
        pairs = {name: [seen[name] for seen in (self.high, by) if name in seen] for name in names}
        return Seen({name: max(both) for name, both in pairs.items()})
