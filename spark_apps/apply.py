"""One batch of changes applied to stages: read from the stamp to a fixed end, decode, merge, stamp. Once, exactly.

Each table is on its own: its start is in its own newest stamp, its end in `upto`, and its one commit says how far it
came. A job that dies before that commit leaves nothing behind; the next one starts at the same stamp.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as fn

from airflow_cdc.core.apply_start import (
    Applied,
    Bounds,
    Start,
    check_ddl,
    check_made_anew,
    check_same_ddl,
    check_same_topic,
    is_behind,
    plan_ddl,
    plan_start,
)
from airflow_cdc.core.connector_config import ConnectorSettings
from airflow_cdc.core.ddl import Ddl
from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import CdcError, SinkError, TransportError
from airflow_cdc.core.observation import TopicState
from airflow_cdc.core.schema_change import SchemaChange, stored_definition
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import TableDef
from airflow_cdc.spark_apps import changes, counts, dead_letters, schema_values
from airflow_cdc.spark_apps.envelope import READ, SIDES, decode
from airflow_cdc.spark_apps.io import Ranges
from airflow_cdc.spark_apps.merge import append_nothing, write_by_key, write_images
from airflow_cdc.spark_apps.session import SMALL_BATCH, sibling
from airflow_cdc.spark_apps.stage_fit import fit_stage
from airflow_cdc.systems.lake import Lake
from airflow_cdc.systems.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("airflow_cdc.apply")

RECORDS_PER_FILE = 100_000
# Up to so many keys are sent to every task that scans the table; more are joined by shuffling both sides.
BROADCAST_RECORDS = 500_000
# So many records before the stamp are compared with what was applied where brokers give topics no id.
LOOK_BACK = 2_000

# (session, ranges) → raw records; read_topics with the endpoint bound, or rows that a test made.
RangeReader = Callable[["SparkSession", Ranges], "DataFrame"]
# (topic, partition → (first offset, end offset)) → the schema changes there, oldest first.
DdlReader = Callable[[str, Bounds], Sequence[Ddl]]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """What all tables of a batch share.

    Attributes:
        epochs: of the control table; a stage whose stamp is not of its table's epoch is refused (INV 1, 2).
        topics: the topics as they were when `upto` was taken.
        threads: how many tables are merged side by side.
        max_dead_letters: more bad records than this in one table's batch mean that all of it is read wrongly; of more
            rows than this with characters that the connector reads wrongly a person must know.
    """

    spark: SparkSession
    lake: Lake
    pipeline: str
    epochs: Epochs
    settings: ConnectorSettings
    topics: Mapping[str, TopicState]
    read: RangeReader
    read_ddl: DdlReader
    threads: int = 4
    max_dead_letters: int = 1_000


@dataclass(frozen=True, slots=True)
class ApplyTarget:
    """One table and the stage its changes go to.

    Attributes:
        stamp: the control table's mirror, used when no snapshot of the stage carries a stamp any more.
        defaults: the source's default of each column; None: not known, so no column can be added.
        table_id: the source engine's own number of the table, None if it does not say.
    """

    table: TableDef
    stage: Stage
    stamp: Stamp | None = None
    defaults: Mapping[str, str | None] | None = None
    table_id: str | None = None


def apply_batch(
    ctx: ApplyContext,
    targets: Sequence[ApplyTarget],
    upto: Mapping[str, Mapping[int, int]],
    *,
    always_stamp: bool = False,
) -> dict[str, Result]:
    """Apply everything up to `upto` (topic → partition → end) to the targets' stages. Returns table → result.

    All tables are tried; then the first error is raised, if there was one. `always_stamp`: a table without new
    records gets an empty stamped commit; otherwise it costs no Spark job. A result holds the counts of
    `counts.Counts`, `changed` (keys or distinct rows), `repeats`, `dead_letters`, `snapshot_id`, `offsets`,
    `behind` (INV 18: not fit to be published yet), `added` and `widened` columns, `seconds`.
    """
    outcomes = apply_each(ctx, targets, upto, always_stamp=always_stamp)
    for outcome in outcomes.values():
        if isinstance(outcome, CdcError):
            raise outcome
    return {table: outcome for table, outcome in outcomes.items() if not isinstance(outcome, CdcError)}


def apply_each(
    ctx: ApplyContext,
    targets: Sequence[ApplyTarget],
    upto: Mapping[str, Mapping[int, int]],
    *,
    always_stamp: bool = False,
) -> dict[str, Result | CdcError]:
    """The same, with a table's error in the place of its result: one table that stops does not stop the others."""

    def one(target: ApplyTarget) -> Result | CdcError:
        try:
            return apply_table(ctx, target, upto, always_stamp=always_stamp)
        except CdcError as error:
            log.warning("%s was not applied: %s", target.table.full_name, error)
            return error

    with ThreadPoolExecutor(max(1, min(ctx.threads, len(targets))), thread_name_prefix="apply") as pool:
        return dict(zip((t.table.full_name for t in targets), pool.map(one, targets), strict=True))


def find_start(ctx: ApplyContext, target: ApplyTarget, upto: Mapping[str, Mapping[int, int]]) -> Start:
    """What there is to read for a target, from its stage's newest stamp. Raises as core.apply_start.plan_start."""
    return start_of(ctx, target.table, target.stage.identifier, upto, target.stamp)


def start_of(
    ctx: ApplyContext,
    table: TableDef,
    identifier: tuple[str, str],
    upto: Mapping[str, Mapping[int, int]],
    mirror: Stamp | None = None,
) -> Start:
    """The same for any table of the lake (namespace, name), such as a target that has no stage yet."""
    ctx.settings.check_table(table)
    topic = ctx.settings.topic_of(table.full_name)
    found = ctx.lake.stamp_or_mirror(*identifier, mirror)
    summary = ctx.lake.stamped_summary(*identifier)
    changes_of = ctx.settings.ddl_topic
    ddl = plan_ddl(found, changes_of, ctx.topics.get(changes_of), upto.get(changes_of, {}))
    state, ends = ctx.topics.get(topic), upto.get(topic, {})
    return plan_start(
        table, ctx.epochs.of(table.full_name), found, summary, topic=topic, state=state, upto=ends, ddl=ddl
    )


def apply_table(
    ctx: ApplyContext, target: ApplyTarget, upto: Mapping[str, Mapping[int, int]], *, always_stamp: bool = False
) -> Result:
    """Apply one table's batch to its stage in one commit."""
    began = time.monotonic()
    start = find_start(ctx, target, upto)
    if start.current and not always_stamp and target.table_id in {None, start.applied.table_id}:
        return _result(ctx, target, start, counts.Counts(), began)
    statements = [] if start.ddl.empty else ctx.read_ddl(start.ddl.topic, start.ddl.ranges)
    if statements and start.ddl.before:
        check_same_ddl(start, ctx.read_ddl(start.ddl.topic, start.ddl.before))
    stored = stored_definition(ctx.lake.table(*target.stage.identifier).properties, start.fingerprint)
    start = check_ddl(start, statements, target.table_id, stored, truncates_seen=ctx.settings.truncates_seen)
    session = sibling(ctx.spark, SMALL_BATCH)
    if start.empty:
        return _result(ctx, target, start, counts.Counts(), began, **_apply_nothing(ctx, session, target, start))
    if start.unproven:
        check_same_topic(start, _earlier(ctx, session, start))
    done = _apply_events(ctx, target, start, _decoded(ctx, session, start))
    return _result(ctx, target, start, began=began, **done)


def _apply_nothing(ctx: ApplyContext, session: SparkSession, target: ApplyTarget, start: Start) -> Result:
    """A batch without events: the columns as they are now, and the stamp."""
    check_made_anew(start, 0)
    name = target.stage.spark_name(ctx.lake.name)
    fit = _fit(ctx, session, target, start)
    schema_values.check_never_null(session, name, start.table, fit)
    append_nothing(session, name, start.summary(start.applied))
    return _columns(fit)


def _fit(ctx: ApplyContext, session: SparkSession, target: ApplyTarget, start: Start) -> SchemaChange:
    """The stage with the columns of the definition, and old rows with what they hold in new ones."""
    fit = fit_stage(ctx.lake, target.stage, start, target.defaults)
    schema_values.fill(session, target.stage.spark_name(ctx.lake.name), start.table, fit)
    return fit


def _columns(fit: SchemaChange) -> Result:
    return {"added": list(fit.added), "widened": list(fit.widened), "dropped": list(fit.dropped)}


def _decoded(ctx: ApplyContext, session: SparkSession, start: Start) -> DataFrame:
    """The batch, parsed once: kept for the count, the dead letters and the writes.

    A local checkpoint and no cache: what is planned on top of it need not carry the decoding's large plan along.
    """
    raw = ctx.read(session, {start.topic: start.ranges})
    needed = SIDES if start.table.keyless else ("after",)
    return decode(raw, start.decoded_as, ctx.settings, needed).localCheckpoint(eager=False)


def _earlier(ctx: ApplyContext, session: SparkSession, start: Start) -> dict[int, list[dict[str, Any]]]:
    """Partition → the newest records before the stamp, as `core.apply_start.check_same_topic` compares them."""
    back = {p: (max(start.begins[p], at - LOOK_BACK), at) for p, (at, _) in start.ranges.items()}
    own = decode(ctx.read(session, {start.topic: back}), start.decoded_as, ctx.settings, ())
    places = [changes.meta(name).alias(name) for name in ("partition", "server_id", "file", "pos", "row", "gtid")]
    rows = own.select(*places, changes.is_covered(start.watermark).alias("covered")).where("file IS NOT NULL").collect()
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["partition"], []).append(row.asDict())
    return found


def _apply_events(ctx: ApplyContext, target: ApplyTarget, start: Start, decoded: DataFrame) -> Result:
    counted = counts.count(decoded, start.watermark, start.table)
    counts.check(counted, start, ctx.settings, ctx.max_dead_letters)
    counts.check_nulls(counted, start.table, target.defaults)
    check_made_anew(start, counted.truncates)
    fit = _fit(ctx, decoded.sparkSession, target, start)
    if counted.bad:
        _keep_bad(ctx, start, decoded, counted)
    applied = replace(
        start.applied,
        last={**start.applied.last, **counted.last},
        snapshots=start.applied.snapshots + counted.snapshots_begun,
    )
    batch = _Batch(target.stage.spark_name(ctx.lake.name), start, applied, counted, fit)
    repeats = _apply_images(ctx, batch, decoded) if start.table.keyless else _apply_keys(batch, decoded)
    return {"counted": counted, **_columns(fit), "repeats": repeats}


@dataclass(frozen=True, slots=True)
class _Batch:
    """A counted batch on its way into the stage of the quoted `name`; `applied` is what its commit will remember."""

    name: str
    start: Start
    applied: Applied
    counted: counts.Counts
    fit: SchemaChange

    @property
    def files(self) -> int:
        """Into how many files the new rows go: one, unless the batch is large."""
        return 1 + self.counted.records // RECORDS_PER_FILE


def _apply_keys(batch: _Batch, decoded: DataFrame) -> int:
    start, truncated_at = batch.start, batch.counted.truncated_at
    if batch.counted.before_watermark:
        decoded = changes.without_covered_tombstones(decoded, start.watermark)
    events = changes.after_truncate(changes.applicable(decoded, start.watermark), truncated_at)
    filled = schema_values.with_filled(changes.net_changes(events, len(start.ranges)), start.table, batch.fit)
    net = filled.coalesce(batch.files).localCheckpoint(eager=False)
    if len(start.ranges) > 1:
        _check_order(net, start)
    schema_values.check_never_null(
        decoded.sparkSession, batch.name, start.table, batch.fit, net, emptied=truncated_at is not None
    )
    small = batch.counted.records <= BROADCAST_RECORDS
    write_by_key(
        batch.name, start.table, net, start.summary(batch.applied), emptied=truncated_at is not None, small=small
    )
    return 0


def _check_order(net: DataFrame, start: Start) -> None:
    """Refuse a batch in which a key's events lie in several partitions: which of them is newer cannot be told."""
    scattered = net.where("scattered").select(fn.to_json("key").alias("key")).limit(3).collect()
    if scattered:
        keys = ", ".join(row["key"] for row in scattered)
        raise TransportError(
            f"events of one key lie in several partitions of the topic, so that their order is lost: {keys}",
            where=f"table {start.table.full_name}, topic {start.topic}",
            todo="The bytes of its keys have changed: a key column was altered, or a setting of the key's converter."
            " Recover the table; key.converter.schemas.enable=false keeps types out of the keys.",
        )


def _apply_images(ctx: ApplyContext, batch: _Batch, decoded: DataFrame) -> int:
    """A table without a key: repeats are settled first, because each would count once more. Returns how many."""
    start, counted = batch.start, batch.counted
    events = changes.applicable(decoded, start.watermark)
    own = events.where(changes.meta("op") == READ)
    logged = changes.without_repeats(events.where(changes.meta("op") != READ)).localCheckpoint(eager=False)
    fresh = _without_applied(ctx, start, logged)
    high, rows, truncated_at = counts.highest(fresh)
    rows_after = changes.after_truncate(fresh.unionByName(own) if counted.reads else fresh, truncated_at)
    net = changes.net_images(rows_after).coalesce(batch.files)
    raised = changes.Seen(batch.applied.high).raised(high).high
    summary = start.summary(replace(batch.applied, high=dict(raised)))
    write_images(batch.name, start.table, net, summary, emptied=truncated_at is not None)
    return counted.logged - rows


def _without_applied(ctx: ApplyContext, start: Start, logged: DataFrame) -> DataFrame:
    """Take out changes that an earlier batch of this epoch applied, by their exact identity in the topic itself."""
    seen = changes.Seen(start.applied.high)
    counts.check_origins(logged, seen, start)
    doubtful = logged.where(seen.is_doubtful())
    if not seen.high or doubtful.isEmpty():
        return logged
    if any(start.begins[p] > low for p, (low, high) in start.past.items() if high > low):
        raise TransportError(
            "the connector repeats changes, and the topic no longer holds the records that say which were applied",
            where=f"table {start.table.full_name}, topic {start.topic}",
            todo="Recover the table: it has no key to tell repeats by.",
        )
    raw = ctx.read(logged.sparkSession, {start.topic: start.past})
    past = changes.applicable(decode(raw, start.table, ctx.settings), start.watermark)
    known = (
        past.select(changes.identity().alias("cdc_identity"), changes.meta("gtid").alias("cdc_gtid"))
        .distinct()
        .persist()
    )
    try:
        counts.check_servers(doubtful, known, start)
        marked = logged.withColumn("cdc_identity", changes.identity())
        # settled before the merge reads it more than once
        return (
            marked.join(known.select("cdc_identity"), "cdc_identity", "left_anti")
            .drop("cdc_identity")
            .localCheckpoint()
        )
    finally:
        known.unpersist()


def _newest_of_each_row(bad: DataFrame, table: TableDef) -> DataFrame:
    """Of doubted records the newest of each key: a letter says that its row is to be read, which once is enough for."""
    same = Window.partitionBy("cdc.partition", fn.to_json("key")).orderBy(fn.desc("cdc.offset"))
    doubted = fn.expr(counts.is_doubted(table))
    newest = bad.where(doubted).withColumn("newest", fn.row_number().over(same)).where("newest = 1").drop("newest")
    return bad.where(~doubted).unionByName(newest)


def _keep_bad(ctx: ApplyContext, start: Start, decoded: DataFrame, counted: counts.Counts) -> None:
    """Write the batch's bad records, as they came, before any offset past them is stamped."""
    bad = decoded.where(changes.meta("bad").isNotNull() & changes.meta("stranger").isNull())
    if counted.doubted:
        bad = _newest_of_each_row(bad, start.table)
    which = bad.select(
        changes.meta("partition").alias("partition"),
        changes.meta("offset").alias("offset"),
        changes.meta("bad").alias("reason"),
    )
    raw = ctx.read(decoded.sparkSession, {start.topic: start.ranges}).where(fn.col("topic") == start.topic)
    rows = raw.join(fn.broadcast(which), ["partition", "offset"]).select(
        "topic",
        fn.lit(start.topic_id).alias("topic_id"),
        "partition",
        "offset",
        "key",
        "value",
        fn.lit(start.table.full_name).alias("table"),
        "reason",
    )
    dead_letters.record(ctx.lake, ctx.pipeline, rows)


def _result(
    ctx: ApplyContext,
    target: ApplyTarget,
    start: Start,
    counted: counts.Counts | None = None,
    began: float = 0.0,
    **extra: Any,
) -> Result:
    """What was done, checked: the stage's head must carry the stamp that this batch ends with."""
    known = counted or counts.Counts()
    stamp = ctx.lake.stamp(*target.stage.identifier)
    ends = {str(p): max(a, b) for p, (a, b) in start.ranges.items()}
    stamped = {} if stamp is None else stamp.offsets.get(start.topic, {}).get("partitions", {})
    if not start.empty and stamped != ends:
        raise SinkError(
            f"the commit does not carry its stamp: {json.dumps(stamped)} instead of {json.dumps(ends)}",
            where=f"table {start.table.full_name}",
            todo="Nothing was published; run the job again.",
        )
    result = {"repeats": 0, "added": [], "widened": [], **known.to_json(), **extra}
    return {
        **result,
        "table": start.table.full_name,
        "topic": start.topic,
        "offsets": ends,
        "snapshot_id": ctx.lake.stage_head(target.stage),
        "behind": is_behind(start.applied.last, known.last),
        "seconds": round(time.monotonic() - began, 3),
    }
