"""The application `recover`: read every table of the open recovery into its own stage (steps 5 and 6, reading part)."""

from __future__ import annotations

import logging
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import ConfigError, SchemaError, SourceError
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.ports import Stage, Staging
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import StagedTable
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.timeline import timed
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.decisions.diagnosis.strategy import COMPARING
from airflow_cdc.decisions.throttle import lanes
from airflow_cdc.fields import Fields
from airflow_cdc.flows.capture import defined, followed
from airflow_cdc.flows.carried import odd_values_named
from airflow_cdc.flows.corrections import AGAIN
from airflow_cdc.flows.recovery import change, current, watermark_of
from airflow_cdc.flows.run import Facts, Run, step
from airflow_cdc.flows.side_by_side import for_each
from airflow_cdc.flows.stages import staging_of
from airflow_cdc.spark_apps.compare.at_rest import TableItself
from airflow_cdc.spark_apps.driver.app import explained, open_app
from airflow_cdc.spark_apps.driver.lost import begun_again
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.session import begin, parallelism
from airflow_cdc.spark_apps.driver.systems import open_topics, row_reader, stage_writer
from airflow_cdc.spark_apps.ports import SharesTables, StageWriter
from airflow_cdc.spark_apps.snapshot.corrections import Correcting, standing
from airflow_cdc.spark_apps.snapshot.differences import read_differences
from airflow_cdc.spark_apps.snapshot.read import FEW_ROWS, Reading, Tools, read_table, staged_rows
from airflow_cdc.spark_apps.stages.work import Patience
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_cdc.recover")

RESTARTABLE = "Clear the task recover: committed chunks are not read again."


def main(settings: Mapping[str, object]) -> Facts:
    """Read the tables of the run's open recovery. `settings`: the operator's file for the driver."""
    with open_app(settings, "recover") as (run, spark):
        return begun_again(lambda: recover(run, spark, settings), "recover")


@dataclass(frozen=True, slots=True)
class Task:
    """The work to do, as the control table describes it."""

    epoch: int
    watermark: Watermark
    stamp: Stamp
    definitions: Mapping[str, Table]
    strategy: str = ""


@step("snapshot", leased=True)
def recover(run: Run, spark: SparkSession, settings: Mapping[str, object] | None = None) -> Facts:
    """Read every table of the recovery into its stage, and record the stage in the control table.

    Safe to run again: rows that an earlier try committed under the same W, server and definition are not read twice.
    Raises SchemaError if a definition is not the one at W (INV 11), or the connector hides or changes a column (INV 21).
    """
    task = load_task(run)
    run.clients.source.check_same_server(task.watermark)
    if run.pipeline.corrected is Corrected.THROUGH_TOPICS:
        return correct(run, spark, task, Patience.of(run, settings).seconds)
    tables, writer = list(task.definitions.values()), stage_writer(run)
    keyed = sum(not table.keyless for table in tables)
    parallel = lanes(run.pipeline.policy.throttle, keyed, os.cpu_count() or 1)
    reader = row_reader(run, parallel.each)
    with timed("sizes of the tables"):
        sizes = reader.sizes(tables)
    if any(table.keyless or sizes[table.full_name].rows > FEW_ROWS for table in tables):
        begin(spark)
    progress = Progress({name: size.rows for name, size in sizes.items()})
    stages = staged_before(run, tables)
    if run.pipeline.corrected is Corrected.BEFORE_START:
        check_shared(run, spark, writer, tables)
    divided = any(size.divided for size in sizes.values())
    at_once = parallelism(spark) if divided else 1
    chunks = {name: {"chunk_rows": size.chunk_rows(at_once), **(settings or {})} for name, size in sizes.items()}
    readings = for_each(lambda one: prepare(run, writer, task, one, chunks[one.full_name], before=stages), tables)
    reading = explained(SourceError, "read the tables", where=run.where, todo=RESTARTABLE)
    with odd_values_named(run, list(task.definitions), "recover"), reading:
        tools = Tools(spark, reader, writer)
        with timed("reading the tables"):
            heads = _read_all(tools, readings, progress, parallel.tables, differences=task.strategy in COMPARING)
    before = rows_before(run, spark, readings) if run.pipeline.corrected is Corrected.BEFORE_START else {}
    stages_now = {name: _staged(writer, reading, heads[name], before.get(name)) for name, reading in by_table(readings)}
    change(run, lambda now: now.staged(stages_now))
    return {
        "stages": {table: asdict(stage) for table, stage in stages_now.items()},
        "rows": sum(stage.rows for stage in stages_now.values()),
    }


def correct(run: Run, spark: SparkSession, task: Task, seconds: float) -> Facts:
    """Write what differs into the topics, for tables that others write from there (INV 23, 47).

    `seconds`: how long a sink connector may stand still before it has written what is there.
    """
    place = standing(run, task.watermark.position, task.watermark.taken_at)
    correcting = Correcting(run, spark, open_topics(run), task.watermark, place, current(run).agreed, seconds)
    reading = explained(SourceError, "compare the topics with the tables", where=run.where, todo=AGAIN)
    with odd_values_named(run, list(task.definitions), "recover"), reading:
        results = [correcting.table(table) for table in task.definitions.values()]
    return {
        "corrections": {one.table: {"rows": one.rows, "deletes": one.deletes} for one in results},
        "rows": sum(one.rows for one in results),
        "deletes": sum(one.deletes for one in results),
    }


def by_table(readings: Sequence[Reading[Stage]]) -> list[tuple[str, Reading[Stage]]]:
    """The readings with the full names of their tables."""
    return [(reading.table.full_name, reading) for reading in readings]


def rows_before(run: Run, spark: SparkSession, readings: Sequence[Reading[Stage]]) -> dict[str, int]:
    """How many rows the tables have: another writer's deletes may be of a kind that only Spark reads."""
    writer = stage_writer(run)
    own = {name: TableItself.of(reading.stage) for name, reading in by_table(readings)}
    at = {name: writer.at(spark, table, table.base_head) for name, table in own.items()}
    return {name: int(spark.sql(f"SELECT count(*) FROM {relation}").collect()[0][0]) for name, relation in at.items()}


def _staged(writer: StageWriter, reading: Reading[Stage], head: int, before: int | None) -> StagedTable:
    return StagedTable(reading.stage.label, staged_rows(writer, reading.stage, head), head, before)


def load_task(run: Run) -> Task:
    """The recovery's W, fence and tables, checked against the source's current tables."""
    recovery = current(run)
    watermark, left = watermark_of(recovery, run), recovery.unpublished
    fingerprints, whole = recovery.definitions, defined(run, left) if left else {}
    # whole ones were noted: a column may be left out of the mirror since, and then the rest is read
    if changed := [name for name, table in whole.items() if fingerprints.get(name) != table.fingerprint]:
        raise SchemaError(
            f"the definition of {', '.join(changed)} changed since the watermark",
            where=run.where,
            todo="Clear the task fence_and_watermark and all after it: a new watermark is taken.",
        )
    stamp = Stamp(recovery.epoch, watermark.to_json(), recovery.fence or {})
    return Task(recovery.epoch, watermark, stamp, followed(run, whole), recovery.strategy)


def staged_before(run: Run, tables: Sequence[Table]) -> Mapping[str, Sequence[Stage]]:
    """Sink table → its stages of earlier tries."""
    names, stages = [run.pipeline.sink_table(table.full_name) for table in tables], defaultdict(list)
    for stage in staging_of(run).stages(run.pipeline.sink.namespace, *names) if names else ():
        stages[stage.table].append(stage)
    return stages


def prepare(
    run: Run,
    writer: StageWriter,
    task: Task,
    table: Table,
    settings: Mapping[str, object],
    *,
    before: Mapping[str, Sequence[Stage]],
) -> Reading[Stage]:
    """A new stage for this try, with the source's columns and the chunks that an earlier try finished for the same W."""
    lake, namespace, name = staging_of(run), run.pipeline.sink.namespace, run.pipeline.sink_table(table.full_name)
    columns = [(column.name, sink_type(column)) for column in table.mirrored]
    shared = run.pipeline.corrected is Corrected.BEFORE_START
    lake.ensure_table(namespace, name, columns)
    fresh = ChunkLedger(task.watermark.hash, task.watermark.server, table.fingerprint)
    earlier = find_earlier(lake, before.get(name, ()), fresh, task.epoch)
    label = next_label(before.get(name, ()), task.epoch)
    properties = {DEFINITION: dump_definition(table)}
    stage = lake.stage(namespace, name, label, earlier[0] if earlier else None, properties)
    ledger = earlier[1] if earlier else fresh
    if ledger.complete or shared:
        writer.note_definition(stage, table)
    elif writer.define(stage, table, columns):
        log.info("%s: the stage now has the source's columns", table.full_name)
    if ledger.rows or ledger.complete:
        log.info("%s: %s rows of an earlier try under the same watermark are kept", table.full_name, ledger.rows)
    sizes = {key: Fields(settings).number(key) for key in ("chunk_rows", "group_chunks") if key in settings}
    return Reading(table, stage, ledger, task.stamp, task.watermark, **sizes)


def check_shared(run: Run, spark: SparkSession, writer: StageWriter, tables: Sequence[Table]) -> None:
    """Check that each table, which the connector made and will write to again, can hold the source's rows as it is.

    Raises SchemaError; ConfigError for a sink whose tables can't be shared.
    """
    for table in tables:
        place = (run.pipeline.sink.namespace, run.pipeline.sink_table(table.full_name))
        where = f"table {'.'.join(place)}"
        if not isinstance(writer, SharesTables):
            raise ConfigError(
                "tables of this kind of sink are not read again beside the connector that writes them", where=where
            )
        if not run.clients.sink.exists(*place):
            raise SchemaError(
                "the table does not exist", where=where, todo="Create it as the connector's job needs it."
            )
        columns = [(column.name, sink_type(column)) for column in table.mirrored]
        if faults := writer.misfits(spark, place, columns, table.key):
            raise SchemaError(
                f"it cannot hold the source's rows as a recovery reads them: {'; '.join(faults)}",
                where=where,
                todo="Declare the table and the connector's job like that.",
            )


def find_earlier(
    lake: Staging, stages: Sequence[Stage], fresh: ChunkLedger, epoch: int
) -> tuple[Stage, ChunkLedger] | None:
    """The newest stage of this epoch whose chunks were read under the same W, server and definition (INV 3).

    A stage whose base is older than later data commits on main could never be published. So it is ignored, and the
    source is read again on the newer head (INV 20).
    """
    for stage in sorted(stages, key=lambda s: _try_of(s, epoch), reverse=True):
        if _try_of(stage, epoch) < 0 or not lake.publishable(stage):
            continue
        ledgers = [commit.ledger for commit in lake.stage_chain(stage) if commit.ledger]
        if ledgers and ledgers[-1].same_read(fresh):
            return stage, ledgers[-1]
    return None


def next_label(stages: Sequence[Stage], epoch: int) -> str:
    """An unused `recov_<epoch>_<try>`: a driver that outlived its task keeps writing to its own stage."""
    return f"recov_{epoch}_{max([0, *(_try_of(stage, epoch) for stage in stages)]) + 1}"


def _try_of(stage: Stage, epoch: int) -> int:
    match = re.fullmatch(rf"recov_{epoch}_(\d+)", stage.label)
    return int(match[1]) if match else -1


# For a table with fewer rows, planning costs more than reading.
PLANNED_ROWS = 10_000


def reading_order(rows: Mapping[str, int]) -> list[str]:
    """Tables (name → estimated rows) in the order in which reading starts: the largest, the small ones, then the rest.

    Worked case: three large tables and one of 300 rows and 37 columns, two at a time. As the last one, the small table
    kept one thread busy for 2.5 s with its plan while the other had nothing to do; next to the largest it costs
    nothing.
    """
    largest, *others = sorted(rows, key=lambda name: (-rows[name], name)) or [""]
    small = [name for name in others if rows[name] < PLANNED_ROWS]
    return [name for name in (largest, *small, *(name for name in others if name not in small)) if name]


def _read_all(
    tools: Tools, readings: list[Reading[Stage]], progress: Progress, at_a_time: int, *, differences: bool = False
) -> dict[str, int]:
    """Tables with a key, some `at_a_time`; then those without one, each alone: MySQL locks them until Spark reads.

    A new driver needs seconds to plan its first read, so that is not the one for which writes wait. `differences`: read
    only the rows that differ, if that is less work.
    """
    rows = {r.table.full_name: progress.estimate(r.table.full_name) for r in readings}
    by_name = {r.table.full_name: r for r in readings}
    ordered = [by_name[name] for name in reading_order(rows)]
    keyed = [reading for reading in ordered if not reading.table.keyless]
    heads = _read_keyed(tools, keyed, progress, at_a_time, differences=differences) if keyed else {}
    return heads | {r.table.full_name: read_table(tools, r, progress) for r in ordered if r.table.keyless}


def _read_keyed(
    tools: Tools, keyed: list[Reading[Stage]], progress: Progress, at_a_time: int, *, differences: bool
) -> dict[str, int]:
    with (
        tools.for_many(keyed[0].watermark) as ready,
        ThreadPoolExecutor(at_a_time) as pool,
    ):

        def read(reading: Reading[Stage]) -> int:
            fresh = not (reading.ledger.rows or reading.ledger.complete)
            head = read_differences(ready.beside(), reading, progress) if differences and fresh else None
            return head or read_table(ready, reading, progress)

        return dict(zip((r.table.full_name for r in keyed), pool.map(read, keyed), strict=True))
