"""A batch of few records with nothing unusual in it: netted in memory and written in one commit, without Spark's jobs.

Counting, netting and writing such a batch by Spark costs a second of processor time for each table, nearly all of it for
plans. Anything else than creates, updates and deletes that can all be read, of a table whose definition stays as it is, is
left to the jobs (apply/batch.py), which also say what is wrong with it. Nothing is written before that is decided.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_cdc.core.errors import MALFORMED
from airflow_cdc.decisions.apply.applied import Applied
from airflow_cdc.decisions.apply.net import net_images
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.decisions.apply.start import is_behind
from airflow_cdc.events.record import CREATE, DELETE, TOMBSTONE, UPDATE
from airflow_cdc.spark_apps.apply.changes import CLOCK_SLACK_MS, Seen
from airflow_cdc.spark_apps.apply.context import Result, applied_after, check_counted, judged, result_of
from airflow_cdc.spark_apps.apply.counts import Counts
from airflow_cdc.spark_apps.apply.tombstones import before_batch, has_tombstone
from airflow_cdc.spark_apps.canonical.arrow import key_texts
from airflow_cdc.spark_apps.events import FEW, MOST_BYTES, offsets_in
from airflow_cdc.spark_apps.ports import DecodesFew, ReadFew
from airflow_cdc.spark_apps.ports_few import SmallCommit
from airflow_cdc.spark_apps.types import arrow_rows

if TYPE_CHECKING:
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.position import Covered
    from airflow_cdc.decisions.apply.applied import LastChange, PlainChange
    from airflow_cdc.decisions.apply.net import NetImages
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.spark_apps.apply.context import ApplyContext
    from airflow_cdc.spark_apps.ports import PlainDecoder

log = logging.getLogger("airflow_cdc.apply")

# (partition, op, its place in the log, whether a converter may have replaced NULLs) of a record
Change = tuple[int, str, "LastChange | None", bool]


@dataclass(frozen=True, slots=True)
class Few:
    """A batch in memory: its counts, the keys that it changes, and the rows that they have at its end.

    `images`: of a table without a key, whose whole rows are the `keys`, and which loses `copies` of each.
    """

    counted: Counts
    keys: pa.Table
    rows: pa.Table
    images: NetImages | None = None

    @property
    def copies(self) -> Sequence[int] | None:
        """How many rows under each key go; None: all."""
        return None if self.images is None else list(self.images.lost.values())

    @property
    def repeats(self) -> int:
        """How many changes were sent twice."""
        return 0 if self.images is None else self.counted.logged - self.images.changes

    def applied(self, start: Start) -> Applied:
        """What the commit records."""
        applied = applied_after(start, self.counted)
        if self.images is None:
            return applied
        return replace(applied, high=dict(Seen(applied.high).raised(self.images.high).high))


def apply_few(
    ctx: ApplyContext,
    opened: SmallCommit,
    start: Start,
    table_id: str | None,
    defaults: Mapping[str, str | None] | None,
) -> Result | None:
    """Apply a batch to a table, or a stage, in one commit; None if it is left to Spark's jobs, and nothing was written.

    `start` is of the table as `opened`. The result is that of batch.apply_table; a batch that is `behind` is written only
    where that is asked for (INV 18). Raises what apply_table raises for a batch that must not be applied, and StaleHeadError if the table has
    changed since it was opened.
    """
    began = time.monotonic()
    if ctx.few is None or not _is_few(start) or not opened.takes(start.table):
        return None
    start = judged(ctx, start, table_id, opened.definition(start.fingerprint))
    if start.change is None or start.change != SchemaChange():
        return None
    batch = _netted(ctx, ctx.few, start)
    if batch is None:
        return None
    check_counted(ctx, start, batch.counted, defaults)
    if ctx.carried and ctx.carried.looks(start.table):
        keys = [""] * batch.keys.num_rows if start.table.keyless else key_texts(start.table, batch.keys)
        ctx.carried.refuse(start.table, keys)
    extra: Result = {"added": [], "widened": [], "dropped": [], "repeats": batch.repeats}
    if not ctx.write_behind and is_behind(start.applied.last, batch.counted.last):
        return result_of(start, batch.counted, None, began, **extra)
    summary = start.summary(batch.applied(start))
    version = opened.write(start.table, batch.keys, batch.rows, summary, copies=batch.copies)
    return None if version is None else result_of(start, batch.counted, version, began, **extra)


def _is_few(start: Start) -> bool:
    """Whether the batch is small enough, and of a topic that is surely the table's own."""
    return not start.unproven and 0 < offsets_in(start.ranges) <= FEW


def _netted(ctx: ApplyContext, few: ReadFew, start: Start) -> Few | None:
    covered = ctx.log.covered(start.watermark)
    records = few(start.topic, start.ranges, MOST_BYTES)
    back = before_batch(start, covered) if records and has_tombstone(records) else {}
    earlier = few(start.topic, back, MOST_BYTES) if back else ()
    if records is None or earlier is None:
        return None
    records = [*earlier, *records]
    decoder = ctx.events.plain(start.table) if isinstance(ctx.events, DecodesFew) else None
    return None if decoder is None else read(decoder, records, start, covered)


def read(decoder: PlainDecoder, records: Sequence[TopicRecord], start: Start, covered: Covered) -> Few | None:
    """The batch decoded and netted without Spark; None if anything in it is not plain.

    Records before the batch only say whether a tombstone in it follows a covered delete; of the others nothing differs.
    """
    ordered, table = sorted(records, key=lambda record: (record.partition, record.offset)), start.table
    try:
        starts = {p: begin for p, (begin, _) in start.ranges.items()}
        batch = decoder.decode(ordered, before=table.keyless, rows_from=starts)
        own = [one for one in batch if _is_own(start, one.partition, one.offset)]
        changes = [(one.partition, one.op, one.change, one.defaulted) for one in own]
        if any(_is_contradictory(covered, change) for _, _, change, _ in changes):
            return None
        net = _netted_images if table.keyless else _netted_keys
        return net(batch, start, covered, _counts(changes, covered))
    except (*MALFORMED, ArithmeticError, pa.ArrowException) as error:
        log.info("%s: left to Spark's jobs, as not all records are plain: %r", table.full_name, error)
        return None


def _netted_keys(batch: Sequence[PlainChange], start: Start, covered: Covered, counted: Counts) -> Few | None:
    keys = [(one.partition, one.key) for one in batch]
    live = _live(keys, [(one.op, one.change) for one in batch], covered)
    last = _last_of_keys(keys, [at for at in live if _is_own(start, batch[at].partition, batch[at].offset)])
    if last is None:
        return None
    newest = [batch[at] for at in last]
    rows = arrow_rows(start.table.mirrored, [one.after for one in newest if one.after is not None])
    return Few(counted, arrow_rows(start.table.key_columns, [one.key for one in newest]), rows)


def _netted_images(batch: Sequence[PlainChange], start: Start, covered: Covered, counted: Counts) -> Few | None:
    net = net_images([one for one in batch if not _is_covered(covered, one.change)], start.applied.high)
    if net is None:
        return None
    gone, came = (arrow_rows(start.table.mirrored, net.rows(side)) for side in (dict.fromkeys(net.lost, 1), net.gained))
    return Few(counted, gone, came, net)


def _is_own(start: Start, partition: int, offset: int) -> bool:
    """Whether a record is of the batch, not of those before it."""
    return offset >= start.ranges[partition][0]


def _is_covered(covered: Covered, change: LastChange | None) -> bool:
    return change is not None and covered.holds(change.origin, change.place)


def _is_contradictory(covered: Covered, change: LastChange | None) -> bool:
    """As changes.is_contradictory; such a batch is refused by the jobs."""
    below = None if change is None else covered.below.get(change.origin)
    if change is None or below is None or change.place[:2] >= below:
        return False
    return change.ts_ms > covered.taken_ms + CLOCK_SLACK_MS


# (partition, key) of a record
Keyed = tuple[int, tuple[object, ...]]


def _live(keys: Sequence[Keyed], changes: Sequence[tuple[str, LastChange | None]], covered: Covered) -> list[int]:
    """The indices of the records that may change the table: as changes.applicable and tombstones.without_covered_tombstones."""
    live, gone = list[int](), set[tuple[object, ...]]()
    for at, ((_, key), (op, change)) in enumerate(zip(keys, changes, strict=True)):
        inside = _is_covered(covered, change)
        if not inside and not (op == TOMBSTONE and key in gone):
            live.append(at)
        (gone.add if inside and op == DELETE else gone.discard)(key)
    return live


def _last_of_keys(keys: Sequence[Keyed], live: Sequence[int]) -> list[int] | None:
    """The index of each key's last live record; None if a key has such records in several partitions, so that none is the last.

    `keys` are in order within a partition.
    """
    last: dict[tuple[object, ...], int] = {}
    for at in live:
        partition, key = keys[at]
        before = last.get(key)
        if before is not None and keys[before][0] != partition:
            return None
        last[key] = at
    return sorted(last.values())


def _counts(changes: Sequence[Change], covered: Covered) -> Counts:
    live = [one for one in changes if not _is_covered(covered, one[2])]
    ops = Counter(op for _, op, _, _ in live)
    return Counts(
        records=len(changes),
        creates=ops[CREATE],
        updates=ops[UPDATE],
        deletes=ops[DELETE],
        tombstones=ops[TOMBSTONE],
        before_watermark=len(changes) - len(live),
        defaulted=sum(defaulted for _, _, _, defaulted in live),
        last={str(partition): change for partition, _, change, _ in changes if change is not None},
    )
