"""Apply one batch of changes to stages exactly once: read from the stamp to a fixed end, decode, merge, stamp.

Each table is independent: its start is in its own newest stamp, its end in `upto`, and its single commit records how
far it came. A job that dies before that commit leaves nothing behind; the next one starts at the same stamp.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.errors import CdcError, SinkError, TransportError
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.position import Covered
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.apply.applied import Applied, LastChange
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.decisions.apply.start import Start, check_made_anew, check_same_topic, is_behind
from airflow_cdc.events.record import READ
from airflow_cdc.flows.carried import MOST_KEYS
from airflow_cdc.spark_apps.apply import changes, counts, schema_values, tombstones
from airflow_cdc.spark_apps.apply.context import (
    ApplyContext,
    ApplyTarget,
    Result,
    applied_after,
    check_counted,
    judged,
    result_of,
    start_from,
)
from airflow_cdc.spark_apps.apply.few import apply_few
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH, kept, sibling
from airflow_cdc.spark_apps.events import SIDES, headers_text, meta, offsets_in
from airflow_cdc.spark_apps.ports_few import CommitsFew, SmallCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_cdc.apply")

RECORDS_PER_FILE = 100_000
# Up to this many keys are broadcast to every task that scans the table; more are joined by shuffling both sides.
BROADCAST_RECORDS = 500_000
# a batch of so many records takes long enough for its size to be said first
MANY = 10_000
# Where brokers give topics no id: how many records before the stamp are compared with what was applied.
LOOK_BACK = 2_000


def apply_batch(
    ctx: ApplyContext,
    targets: Sequence[ApplyTarget[Stage]],
    upto: Mapping[str, Mapping[int, int]],
    *,
    always_stamp: bool = False,
) -> dict[str, Result]:
    """Apply everything up to `upto` (topic → partition → end) to the targets' stages. Returns table → result.

    All tables are tried; then the first error is raised, if there was one. `always_stamp`: a table without new
    records gets an empty stamped commit; otherwise it costs no Spark job. A result holds the counts of
    `counts.Counts`, `changed` (keys or distinct rows), `repeats`, `dead_letters`, `snapshot_id`, `offsets`,
    `behind` (INV 18: must not be published yet), `added` and `widened` columns, `seconds`.
    """
    outcomes = apply_each(ctx, targets, upto, always_stamp=always_stamp)
    for outcome in outcomes.values():
        if isinstance(outcome, CdcError):
            raise outcome
    return {table: outcome for table, outcome in outcomes.items() if not isinstance(outcome, CdcError)}


def apply_each(
    ctx: ApplyContext,
    targets: Sequence[ApplyTarget[Stage]],
    upto: Mapping[str, Mapping[int, int]],
    *,
    always_stamp: bool = False,
) -> dict[str, Result | CdcError]:
    """Apply each table. A table that fails has its error as its result and does not stop the others."""

    def one(target: ApplyTarget[Stage]) -> Result | CdcError:
        try:
            return apply_table(ctx, target, upto, always_stamp=always_stamp)
        except CdcError as error:
            log.warning("%s was not applied: %s", target.table.full_name, error)
            return error

    with ThreadPoolExecutor(max(1, min(ctx.threads, len(targets))), thread_name_prefix="apply") as pool:
        return dict(zip((t.table.full_name for t in targets), pool.map(one, targets), strict=True))


def apply_table(
    ctx: ApplyContext, target: ApplyTarget[Stage], upto: Mapping[str, Mapping[int, int]], *, always_stamp: bool = False
) -> Result:
    """Apply one table's batch to its stage in one commit."""
    began = time.monotonic()
    writer, place = ctx.writer, target.stage.identifier
    opened = writer.open_table(place) if isinstance(writer, CommitsFew) else None
    stamped = opened.stamped(target.stamp) if opened else writer.stamped(place, target.stamp)
    start = start_from(ctx, target.table, *stamped, upto)
    if start.current and not always_stamp and target.table_id in {None, start.applied.table_id}:
        return result_of(start, counts.Counts(), opened.version if opened else writer.version(target.stage), began)
    if opened and (done := apply_few(ctx, opened, start, target.table_id, target.defaults)) is not None:
        return done
    fingerprint = start.fingerprint
    definition = opened.definition(fingerprint) if opened else writer.definition(target.stage, fingerprint)
    start = judged(ctx, start, target.table_id, definition)
    if start.empty:
        version, columns = _apply_nothing(ctx, target, start, opened)
        return result_of(start, counts.Counts(), version, began, **columns)
    if (waiting := offsets_in(start.ranges)) >= MANY:
        log.info("%s: %s records are being applied", target.table.full_name, f"{waiting:,}")
    session = sibling(ctx.spark, SMALL_BATCH)
    if start.unproven:
        check_same_topic(start, _earlier(ctx, session, start))
    done = _apply_events(ctx, target, start, _decoded(ctx, session, start))
    return _result(ctx, target, start, began=began, **done)


def _apply_nothing(
    ctx: ApplyContext, target: ApplyTarget[Stage], start: Start, opened: SmallCommit | None
) -> tuple[int, Result]:
    """A batch without events: the columns as they are now, and the stamp. Not worth a session of its own.

    Returns the version, and what changed in the columns.
    """
    check_made_anew(start, 0)
    unchanged, summary = SchemaChange(), start.summary(start.applied)
    # where no change is known because no definition is, the columns alone decide
    as_it_is = start.change is None or start.change == unchanged
    if opened is not None and as_it_is and (version := opened.nothing(start.table, summary)):
        return version, _columns(unchanged)
    fit = ctx.writer.fit(ctx.spark, target.stage, start, target.defaults)
    if fit.never_null:
        schema_values.check_never_null(ctx.writer.rows(ctx.spark, target.stage), start.table, fit)
    ctx.writer.nothing(ctx.spark, target.stage, summary)
    return ctx.writer.version(target.stage), _columns(fit)


def _columns(fit: SchemaChange) -> Result:
    return {"added": list(fit.added), "widened": list(fit.widened), "dropped": list(fit.dropped)}


def _decoded(ctx: ApplyContext, session: SparkSession, start: Start) -> DataFrame:
    """The batch, decoded once and kept for the count, the dead letters and the writes.

    A local checkpoint, not a cache, so that later plans do not carry the large plan of the decoding along.
    """
    raw = ctx.read(session, {start.topic: start.ranges})
    sides = SIDES if start.table.keyless else ("after",)
    return kept(ctx.events.decode(raw, start.decoded_as, sides), eager=False)


def _earlier(ctx: ApplyContext, session: SparkSession, start: Start) -> dict[int, list[tuple[LastChange, bool]]]:
    """Partition → the newest records before the stamp, as `decisions.apply.start.check_same_topic` compares them."""
    back = {p: (max(start.begins[p], at - LOOK_BACK), at) for p, (at, _) in start.ranges.items()}
    own = ctx.events.decode(ctx.read(session, {start.topic: back}), start.decoded_as, ())
    covered = changes.is_covered(ctx.log.covered(start.watermark)).alias("covered")
    rows = own.select(meta("partition").alias("p"), counts.last_change().alias("change"), covered)
    by_partition: dict[int, list[tuple[LastChange, bool]]] = {}
    for row in rows.where("change.origin IS NOT NULL").collect():
        by_partition.setdefault(row["p"], []).append((counts.read_change(row["change"]), row["covered"]))
    return by_partition


def _apply_events(ctx: ApplyContext, target: ApplyTarget[Stage], start: Start, decoded: DataFrame) -> Result:
    covered = ctx.log.covered(start.watermark)
    counted = counts.count(decoded, covered, start.table)
    check_counted(ctx, start, counted, target.defaults)
    if not ctx.write_behind and is_behind(start.applied.last, counted.last):
        return {"counted": counted, "skipped": True}
    fit = ctx.writer.fit(decoded.sparkSession, target.stage, start, target.defaults)
    if counted.bad:
        _keep_bad(ctx, start, decoded, counted)
    batch = _Batch(target.stage, start, covered, applied_after(start, counted), counted, fit)
    repeats = _apply_images(ctx, batch, decoded) if start.table.keyless else _apply_keys(ctx, batch, decoded)
    return {"counted": counted, **_columns(fit), "repeats": repeats}


@dataclass(frozen=True, slots=True)
class _Batch:
    """A counted batch on its way into its stage; `applied` is what its commit will record."""

    stage: Stage
    start: Start
    covered: Covered
    applied: Applied
    counted: counts.Counts
    fit: SchemaChange

    @property
    def files(self) -> int:
        """How many files the new rows are written to: one, unless the batch is large."""
        return 1 + self.counted.records // RECORDS_PER_FILE


def _apply_keys(ctx: ApplyContext, batch: _Batch, decoded: DataFrame) -> int:
    start, truncated_at = batch.start, batch.counted.truncated_at
    decoded = _without_covered_tombstones(ctx, batch, decoded)
    events = changes.after_truncate(changes.applicable(decoded, batch.covered), truncated_at)
    filled = schema_values.with_filled(changes.net_changes(events, len(start.ranges)), start.table, batch.fit)
    net = kept(filled.coalesce(batch.files), eager=False)
    if len(start.ranges) > 1:
        _check_order(net, start)
    if ctx.carried and ctx.carried.looks(start.table):
        keys = net.where(~fn.col("deleted")).select("key.*").selectExpr(key_text(start.table)).limit(MOST_KEYS + 1)
        ctx.carried.refuse(start.table, [row[0] for row in keys.collect()])
    schema_values.check_never_null(
        ctx.writer.rows(decoded.sparkSession, batch.stage),
        start.table,
        batch.fit,
        net,
        emptied=truncated_at is not None,
    )
    small = batch.counted.records <= BROADCAST_RECORDS
    ctx.writer.changes(
        batch.stage, start.table, net, start.summary(batch.applied), emptied=truncated_at is not None, small=small
    )
    return 0


def _without_covered_tombstones(ctx: ApplyContext, batch: _Batch, decoded: DataFrame) -> DataFrame:
    start, counted = batch.start, batch.counted
    back = tombstones.before_batch(start, batch.covered) if counted.tombstones else {}
    if not back and not counted.before_watermark:
        return decoded
    raw = ctx.read(decoded.sparkSession, {start.topic: back}) if back else None
    earlier = None if raw is None else ctx.events.decode(raw, start.decoded_as, ())
    return tombstones.without_covered_tombstones(decoded, batch.covered, earlier)


def _check_order(net: DataFrame, start: Start) -> None:
    """Refuse a batch in which a key's events are in several partitions, since we cannot tell which is newer."""
    rows = net.where("scattered").select(fn.to_json("key").alias("key")).limit(3).collect()
    if rows:
        keys = ", ".join(row["key"] for row in rows)
        raise TransportError(
            f"events of one key are in several partitions of the topic, so their order is lost: {keys}",
            where=f"table {start.table.full_name}, topic {start.topic}",
            todo="The bytes of its keys have changed: a key column was altered, or a setting of the key's converter."
            " Recover the table; key.converter.schemas.enable=false keeps types out of the keys.",
        )


def _apply_images(ctx: ApplyContext, batch: _Batch, decoded: DataFrame) -> int:
    """Apply to a table without a key, after removing repeats, which would count twice. Returns their number."""
    start, counted = batch.start, batch.counted
    events = changes.applicable(decoded, batch.covered)
    own = events.where(meta("op") == READ)
    logged = kept(changes.without_repeats(events.where(meta("op") != READ)), eager=False)
    fresh = _without_applied(ctx, batch, logged)
    high, rows, truncated_at = counts.highest(fresh)
    rows_after = changes.after_truncate(fresh.unionByName(own) if counted.reads else fresh, truncated_at)
    net = changes.net_images(rows_after).coalesce(batch.files)
    if ctx.carried and rows:
        ctx.carried.refuse(start.table, [""])
    raised = changes.Seen(batch.applied.high).raised(high).high
    summary = start.summary(replace(batch.applied, high=dict(raised)))
    ctx.writer.images(batch.stage, start.table, net, summary, emptied=truncated_at is not None)
    return counted.logged - rows


def _without_applied(ctx: ApplyContext, batch: _Batch, logged: DataFrame) -> DataFrame:
    """Remove changes that an earlier batch of this epoch applied, looking their exact identity up in the topic."""
    start = batch.start
    applied = changes.Seen(start.applied.high)
    counts.check_origins(logged, applied, start)
    doubtful = logged.where(applied.is_doubtful())
    if not applied.high or doubtful.isEmpty():
        return logged
    if any(start.begins[p] > low for p, (low, high) in start.past.items() if high > low):
        raise TransportError(
            "the connector repeats changes, and the topic no longer holds the records that show which were applied",
            where=f"table {start.table.full_name}, topic {start.topic}",
            todo="Recover the table: it has no key by which repeats could be recognised.",
        )
    raw = ctx.read(logged.sparkSession, {start.topic: start.past})
    past = changes.applicable(ctx.events.decode(raw, start.table), batch.covered)
    identities = (
        past.select(changes.identity().alias("cdc_identity"), meta("transaction").alias("cdc_transaction"))
        .distinct()
        .persist()
    )
    try:
        counts.check_servers(doubtful, identities, start)
        marked = logged.withColumn("cdc_identity", changes.identity())
        # decided before the merge reads it more than once
        return kept(marked.join(identities.select("cdc_identity"), "cdc_identity", "left_anti").drop("cdc_identity"))
    finally:
        identities.unpersist()


def _newest_of_each_row(bad: DataFrame, table: Table) -> DataFrame:
    """The newest doubted record of each key: a dead letter asks for its row to be read, so one per key is enough."""
    same = Window.partitionBy("cdc.partition", fn.to_json("key")).orderBy(fn.desc("cdc.offset"))
    doubted = fn.expr(counts.is_doubted(table))
    newest = bad.where(doubted).withColumn("newest", fn.row_number().over(same)).where("newest = 1").drop("newest")
    return bad.where(~doubted).unionByName(newest)


def _keep_bad(ctx: ApplyContext, start: Start, decoded: DataFrame, counted: counts.Counts) -> None:
    """Write the batch's bad records, unchanged, before any offset past them is stamped."""
    bad = decoded.where(meta("bad").isNotNull() & meta("other_table").isNull())
    if counted.doubted:
        bad = _newest_of_each_row(bad, start.table)
    which = bad.select(
        meta("partition").alias("partition"),
        meta("offset").alias("offset"),
        meta("bad").alias("reason"),
    ).dropDuplicates(["partition", "offset"])
    raw = ctx.read(decoded.sparkSession, {start.topic: start.ranges}).where(fn.col("topic") == start.topic)
    rows = raw.join(fn.broadcast(which), ["partition", "offset"]).select(
        "topic",
        fn.lit(start.topic_id).alias("topic_id"),
        "partition",
        "offset",
        "key",
        "value",
        headers_text(raw),
        fn.lit(start.table.full_name).alias("table"),
        "reason",
    )
    ctx.letters.record(rows)


def _result(
    ctx: ApplyContext,
    target: ApplyTarget[Stage],
    start: Start,
    counted: counts.Counts,
    began: float,
    **extra: object,
) -> Result:
    """The batch's result, after checking that the stage's head carries the stamp this batch ends with."""
    skipped = extra.pop("skipped", False)
    stamp = ctx.writer.stamp(target.stage)
    offsets = TopicOffsets.after(start.topic_id, start.ranges)
    stamped = None if stamp is None else stamp.offsets.get(start.topic)
    if not skipped and (stamped is None or stamped.next != offsets.next):
        text = None if stamped is None else stamped.to_json()
        raise SinkError(
            f"the commit does not carry its stamp: {json.dumps(text)} instead of {json.dumps(offsets.to_json())}",
            where=f"table {start.table.full_name}",
            todo="Nothing was published; run the job again.",
        )
    return result_of(start, counted, ctx.writer.version(target.stage), began, **extra)
