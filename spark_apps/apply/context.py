"""What both ways of applying a batch share: its context, where it starts, the checks before anything is written, its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.ports import Stage
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.apply.applied import Applied
from airflow_cdc.decisions.apply.start import (
    Start,
    check_ddl,
    check_made_anew,
    check_same_ddl,
    is_behind,
    plan_ddl,
    plan_start,
)
from airflow_cdc.flows.carried import Changed
from airflow_cdc.spark_apps.apply import counts
from airflow_cdc.spark_apps.ports import DeadLetters, EventDecoder, ReadDdl, ReadFew, ReadRanges, SourceLog, StageWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = dict[str, Any]
S_co = TypeVar("S_co", bound=Stage, covariant=True)


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """What all tables of a batch share.

    Attributes:
        epochs: of the control table; a stage whose stamp is not of its table's epoch is refused (INV 1, 2).
        topics: the topics as they were when `upto` was taken.
        few: reads few records in memory; None: every batch is left to Spark.
        threads: how many tables are merged in parallel.
        max_dead_letters: more bad records than this in one table's batch mean that the whole batch is decoded wrongly;
            more rows than this with characters that the connector reads wrongly must be reported to a person.
        most_unreadable: a larger share of records that cannot be read at all means the same (INV 42).
        write_behind: whether a batch that ends inside a range that the connector repeats is written (INV 18). It must
            not be published, so writing it makes sense only in a stage that a later batch continues.
        carried: refuses rows with values that the connector's events don't carry; None: a comparison follows.
        compared: the tables of which every row is compared with the source's before anybody reads it.
    """

    spark: SparkSession
    writer: StageWriter
    letters: DeadLetters
    epochs: Epochs
    log: SourceLog
    events: EventDecoder
    topics: Mapping[str, TopicState]
    read: ReadRanges
    read_ddl: ReadDdl
    few: ReadFew | None = None
    threads: int = 4
    max_dead_letters: int = 1_000
    most_unreadable: float = 0.5
    write_behind: bool = True
    compared: frozenset[str] = frozenset()
    carried: Changed | None = None


@dataclass(frozen=True, slots=True)
class ApplyTarget(Generic[S_co]):
    """One table and the stage its changes go to.

    Attributes:
        stamp: the control table's mirrored stamp, used when no snapshot of the stage carries a stamp any more.
        defaults: the source's default of each column; None: not known, so no column can be added.
        table_id: the source engine's internal table id; None if the engine has none.
    """

    table: Table
    stage: S_co
    stamp: Stamp | None = None
    defaults: Mapping[str, str | None] | None = None
    table_id: str | None = None


def start_of(
    ctx: ApplyContext,
    table: Table,
    identifier: tuple[str, str],
    upto: Mapping[str, Mapping[int, int]],
    mirror: Stamp | None = None,
) -> Start:
    """Plan what to read for any table of the sink, also one without a stage. Raises what decisions.apply.start.plan_start raises."""
    return start_from(ctx, table, *ctx.writer.stamped(identifier, mirror), upto)


def start_from(
    ctx: ApplyContext,
    table: Table,
    stamp: Stamp | None,
    summary: Mapping[str, str],
    upto: Mapping[str, Mapping[int, int]],
) -> Start:
    """Plan what to read for a table with this stamp, of a commit with this summary; see start_of."""
    routing = ctx.events.routing
    routing.check_table(table)
    topic = routing.topic_of(table.full_name)
    changes_of = routing.ddl_topic or ""
    ddl = plan_ddl(stamp, changes_of, ctx.topics.get(changes_of), upto.get(changes_of, {}))
    state, ends = ctx.topics.get(topic), upto.get(topic, {})
    return plan_start(
        table,
        ctx.epochs.of(table.full_name),
        stamp,
        summary,
        topic=topic,
        state=state,
        upto=ends,
        ddl=ddl,
        read_position=ctx.log.read_position,
    )


def judged(ctx: ApplyContext, start: Start, table_id: str | None, stored: Table | None) -> Start:
    """The start with the judgement of the DDL since its stamp. Raises what decisions.apply.start.check_ddl raises."""
    statements = [] if start.ddl.empty else ctx.read_ddl(start.ddl.topic, start.ddl.ranges)
    if statements and start.ddl.before:
        check_same_ddl(start, ctx.read_ddl(start.ddl.topic, start.ddl.before))
    return check_ddl(
        start,
        statements,
        table_id,
        stored,
        covered=ctx.log.covered(start.watermark),
        judge=ctx.log.judge_ddl,
        truncates_seen=ctx.events.routing.truncates_seen,
        compared=start.table.full_name in ctx.compared,
    )


def check_counted(
    ctx: ApplyContext, start: Start, counted: counts.Counts, defaults: Mapping[str, str | None] | None
) -> None:
    """Raise for a batch that must not be applied. Nothing has been written yet."""
    counts.check(counted, start, ctx.events.routing, ctx.max_dead_letters, ctx.most_unreadable)
    counts.check_nulls(counted, start.table.full_name, ctx.events.nulls_at_risk(start.table, defaults or {}))
    check_made_anew(start, counted.truncates)


def applied_after(start: Start, counted: counts.Counts) -> Applied:
    """What the commit of a counted batch records; its highest changes (keyless tables) are still those before it."""
    last = {**start.applied.last, **counted.last}
    return replace(start.applied, last=last, snapshots=start.applied.snapshots + counted.snapshots_begun)


def result_of(start: Start, counted: counts.Counts, version: int | None, began: float, **extra: object) -> Result:
    """The result of a table's batch; `version` None: nothing was written."""
    return {
        "repeats": 0,
        "added": [],
        "widened": [],
        **counted.to_json(),
        **extra,
        "table": start.table.full_name,
        "topic": start.topic,
        "offsets": TopicOffsets.after(start.topic_id, start.ranges).to_json()["partitions"],
        "snapshot_id": version,
        "behind": is_behind(start.applied.last, counted.last),
        "seconds": round(time.monotonic() - began, 3),
    }
