"""What a batch of decoded records changes, as DataFrame → DataFrame transforms without I/O.

Keyed tables: topic order is the truth, the last event of a key wins. Tables without a key are multisets: what counts
is the net number of copies of each distinct row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.spark_apps.adapters.debezium import CREATE, DELETE, READ, TOMBSTONE, TRUNCATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.sources.mysql.gtid import GtidSet
    from airflow_cdc.sources.mysql.position import MySqlPosition

# How far two clocks of one server's facts may be apart before "before W, yet committed after it" is believed.
CLOCK_SLACK_S = 60

# One record that is a repeat of another is the same in all of these.
IDENTITY = ("gtid", "server_id", "file", "pos", "row", "op")


def meta(name: str) -> Column:
    """A field of the decoded record's `cdc` struct."""
    return fn.col(f"cdc.`{name}`")


def origin() -> Column:
    """Whose numbering orders the record: the GTID's server (and tag), else the server id and its files' base name."""
    gtid = meta("gtid")
    # as it is: servers write UUIDs and tags in lower case, and Spark's lower() first loads all of Unicode
    source = fn.expr("regexp_extract(cdc.gtid, '^(.*):[0-9]+$', 1)")
    files = fn.concat_ws(
        "/", meta("server_id").cast("string"), fn.expr("regexp_extract(cdc.file, '^(.*)[.][0-9]+$', 1)")
    )
    return fn.when(gtid.isNotNull(), source).otherwise(files)


def rank() -> Column:
    """The record's place within its origin: struct(n, pos, row), n being the transaction's or the file's number."""
    number = fn.expr("try_cast(regexp_extract(cdc.gtid, ':([0-9]+)$', 1) AS bigint)")
    file_number = fn.expr("try_cast(regexp_extract(cdc.file, '[.]([0-9]+)$', 1) AS bigint)")
    n = fn.when(meta("gtid").isNotNull(), number).otherwise(file_number)
    return fn.struct(n.alias("n"), meta("pos").alias("pos"), meta("row").alias("row"))


def is_covered(watermark: Watermark | None) -> Column:
    """Whether the record's change is at or before W, and so in the snapshot already.

    Exact: the GTID is in W's set; without GTIDs, the position is before W's on the same server and files. A
    tombstone names no position and is never covered.
    """
    if watermark is None:
        return fn.lit(False)
    position = mysql_position(watermark.position)
    covered = _before(position) if position.gtids is None else _in_set(position.gtids)
    return fn.coalesce(covered, fn.lit(False))


def _in_set(gtids: GtidSet) -> Column:
    inside = fn.lit(False)
    for uuid, tag, intervals in gtids.items:
        inside = inside | ((origin() == fn.lit(f"{uuid}:{tag}" if tag else uuid)) & _in_intervals(intervals))
    return meta("gtid").isNotNull() & inside


def _in_intervals(intervals: Sequence[tuple[int, int]]) -> Column:
    """Whether the transaction's number is in one of the intervals: an array, as a set can have very many."""
    number = rank()["n"]
    spans = ", ".join(f"named_struct('lo', {lo}L, 'hi', {hi}L)" for lo, hi in intervals)
    return fn.exists(fn.expr(f"array({spans})"), lambda span: (number >= span["lo"]) & (number <= span["hi"]))


def _before(position: MySqlPosition) -> Column:
    place = position.place
    same = origin() == fn.lit(f"{position.server_id}/{place.base}")
    here = rank()
    older = (here["n"] < place.file_number) | ((here["n"] == place.file_number) & (here["pos"] < place.pos))
    return meta("gtid").isNull() & same & older


def is_contradictory(watermark: Watermark | None) -> Column:
    """Whether a record is before W by its position and after it by its time: someone moved the position."""
    position = None if watermark is None else mysql_position(watermark.position)
    if watermark is None or position is None or position.gtids is not None:
        return fn.lit(False)  # GTIDs are exact, whatever the clocks say
    late = meta("ts_ms") > fn.lit(int((watermark.taken_at.timestamp() + CLOCK_SLACK_S) * 1000))
    return fn.coalesce(_before(position) & late, fn.lit(False))


def applicable(decoded: DataFrame, watermark: Watermark | None) -> DataFrame:
    """The records that may change the table: its own, readable, and after W.

    Debezium sends a tombstone after each delete, for a table without a key too. There it has no key and says nothing
    that the delete did not say.
    """
    own = meta("stranger").isNull() & meta("bad").isNull()
    says_nothing = (meta("op") == TOMBSTONE) & ~fn.lit("key" in decoded.columns)
    return decoded.where(own & ~is_covered(watermark) & ~says_nothing)


def without_covered_tombstones(decoded: DataFrame, watermark: Watermark | None) -> DataFrame:
    """The records of a keyed table but the tombstones whose delete is at or before W: they name no position themselves.

    A connector that goes on from where it was, before W, sends the delete and the new creation of a key that came back
    before W. Both are in the snapshot; the tombstone between them alone would delete the row that the snapshot holds.
    """
    in_order = Window.partitionBy("key").orderBy(meta("partition"), meta("offset"))
    delete_before = fn.lag(is_covered(watermark) & (meta("op") == DELETE)).over(in_order)
    covered = (meta("op") == TOMBSTONE) & fn.coalesce(delete_before, fn.lit(False))
    return decoded.withColumn("cdc_covered", covered).where(~fn.col("cdc_covered")).drop("cdc_covered")


def after_truncate(events: DataFrame, truncated_at: int | None) -> DataFrame:
    """The row changes after the last truncate (its offset; a truncated topic has one partition)."""
    rows = events.where(meta("op") != TRUNCATE)
    return rows if truncated_at is None else rows.where(meta("offset") > truncated_at)


def net_changes(events: DataFrame, partitions: int = 1) -> DataFrame:
    """Keyed table: the last event of each key in topic order → (key, deleted, after, cdc, scattered).

    A key lands in one partition, so offsets order its events; a delete and its tombstone are one delete. A changed
    key comes as a delete of the old and a create of the new key, each of which stands for itself. `scattered`: the
    key's events lie in several of the topic's `partitions`, so that nothing orders them (INV 33).
    """
    key = Window.partitionBy("key")
    last = key.orderBy(meta("partition").desc(), meta("offset").desc())
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
    """Keyless table: how many copies of each distinct row came (+) or went (-) → (image, n), n never 0."""
    came = events.where(meta("op").isin(CREATE, UPDATE, READ)).select(
        fn.col("after").alias("image"), fn.lit(1).alias("n")
    )
    went = events.where(meta("op").isin(UPDATE, DELETE)).select(fn.col("before").alias("image"), fn.lit(-1).alias("n"))
    return came.unionAll(went).groupBy("image").agg(fn.sum("n").alias("n")).where("n <> 0")


def identity() -> Column:
    """The exact identity of a change in the source's log; a repeat after a connector restart has the same."""
    return fn.struct(*(meta(name).alias(name) for name in IDENTITY))


def without_repeats(events: DataFrame) -> DataFrame:
    """Each change once: its first record, so that what came before and after a truncate stays there."""
    first = Window.partitionBy(identity()).orderBy(meta("partition"), meta("offset"))
    return events.withColumn("cdc_copy", fn.row_number().over(first)).where("cdc_copy = 1").drop("cdc_copy")


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest change applied so far per origin: [n, pos, row, server_id].

    A record above it is new without any doubt. Any other may be a repeat, or belong to a transaction of which an
    earlier batch held a part (its other rows came through another partition, or from another server).
    """

    high: Mapping[str, list[int]]

    def is_doubtful(self) -> Column:
        """Whether a record may have been applied before; to be settled by its exact identity."""
        doubtful = fn.lit(False)
        here = rank()
        for name, (n, pos, row, server_id) in self.high.items():
            inside = fn.struct(here["pos"], here["row"]) <= fn.expr(f"named_struct('pos', {pos}L, 'row', {row})")
            same = (here["n"] == n) & ((meta("server_id") != server_id) | inside)
            doubtful = doubtful | ((origin() == fn.lit(name)) & ((here["n"] < n) | same))
        return fn.coalesce(doubtful, fn.lit(False))

    def raised(self, by: Mapping[str, list[int]]) -> Seen:
        """The same after a batch whose highest changes are `by`."""
        nothing = [0, 0, 0, 0]
        names = sorted({*self.high, *by})
        return Seen({name: max(list(self.high.get(name, nothing)), list(by.get(name, nothing))) for name in names})
