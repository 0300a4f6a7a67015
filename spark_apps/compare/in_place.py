"""Tables that the connector, or a sink connector, writes: compared as readers see them, while they are written (at_rest.py)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import captured, topic_names
from airflow_cdc.flows.feeder import wait_filled
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare.at_rest import Sides, TableItself, compare_at_rest
from airflow_cdc.spark_apps.compare.caveats import wait_for_xa
from airflow_cdc.spark_apps.compare.copies import Copied, CopyReader, Pair, SourceOfCopies, ranged
from airflow_cdc.spark_apps.compare.results import summary
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.systems import copy_reader, log_reader, row_reader, stage_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.spark_apps.ports import RowReader, SourceView

log = logging.getLogger("airflow_cdc.verify")


def compare_in_place(
    run: Run, spark: SparkSession, tables: Sequence[str], watermark: Watermark, seconds: float
) -> list[Outcome]:
    """Compare the tables, which others write to meanwhile, on the server of this watermark.

    `seconds`: how long either connector may stand still while we wait for it.
    """
    definitions = list(captured(run, tables).values())
    if run.clients.feeder is None:
        outcomes = compare_at_rest(_itself(run, spark, watermark, seconds), definitions)
    else:
        pairs = pairs_of(run, definitions)
        outcomes = compare_at_rest(
            _copies(run, spark, watermark, _following(run, list(pairs), seconds), pairs),
            [pair.source for pair in pairs.values()],
        )
        for outcome in outcomes:
            outcome.losses = tuple(pairs[outcome.subject.table.full_name].losses)
    for outcome in outcomes:
        wait_for_xa(run, outcome)
        log.info("%s", summary(outcome))
    return outcomes


def _itself(run: Run, spark: SparkSession, watermark: Watermark, seconds: float) -> Sides:
    """Tables that the connector writes itself."""
    writer = stage_writer(run)

    def reach_now() -> Watermark:
        position = run.clients.source.position()
        wait_past(run, position, seconds)
        return position

    def newest(table: Table) -> AbstractContextManager[SinkView]:
        own = TableItself(run.pipeline.sink.namespace, run.pipeline.sink_table(table.full_name))
        version = writer.version(own)
        return nullcontext(SinkView(spark, writer.at(spark, own, version), version))

    return Sides(row_reader(run), watermark, reach_now, newest)


def pairs_of(run: Run, tables: Sequence[Table]) -> dict[str, Pair]:
    """Each table with its copy, which a sink connector fills. Raises SinkError or SchemaError for one that has none."""
    sink, topics = cast("Copied", run.clients.sink), topic_names(run, [table.full_name for table in tables])
    return {table.full_name: sink.pair(table, topics[table.full_name]) for table in tables}


def _following(run: Run, tables: Sequence[str], seconds: float) -> Callable[[], Watermark]:
    """Takes the source's position, and returns it once both connectors have passed it."""
    topics = sorted(set(topic_names(run, tables).values()))

    def reach_now() -> Watermark:
        position = run.clients.source.position()
        wait_past(run, position, seconds)
        wait_filled(run, run.clients.transport.end_offsets(topics), seconds)
        return position

    return reach_now


def copies_at_rest(run: Run, spark: SparkSession, pair: Pair, watermark: Watermark) -> Sides:
    """A copy and its source while the connector is stopped, and the sink connector has written all that is in the topic."""
    if not run.pipeline.sink.read_as:
        # what only the log has is asked for again after the comparison, by whoever deletes it
        return Sides(row_reader(run), watermark, lambda: watermark, _left_of_logs(run, spark, to_the_end=True))
    return _copies(run, spark, watermark, lambda: watermark, {pair.source.full_name: pair})


def _copies(
    run: Run, spark: SparkSession, watermark: Watermark, reach: Callable[[], Watermark], pairs: Mapping[str, Pair]
) -> Sides:
    """Copies that a sink connector fills from the topics."""
    if not run.pipeline.sink.read_as:
        return Sides(row_reader(run), watermark, reach, _left_of_logs(run, spark))
    copies = CopyReader(copy_reader(run), watermark)

    def newest(table: Table) -> AbstractContextManager[SinkView]:
        return copies.view(spark, pairs[table.full_name])

    def seen(table: Table, view: SourceView) -> SourceView:
        return ranged(pairs[table.full_name], view)

    return Sides(cast("RowReader", SourceOfCopies(row_reader(run), copies.rows)), watermark, reach, newest, seen)


def _left_of_logs(
    run: Run, spark: SparkSession, *, to_the_end: bool = False
) -> Callable[[Table], AbstractContextManager[SinkView]]:
    """Opens what is left of the log to which a sink connector appends a table's changes.

    `to_the_end`: it can be read until the driver ends.
    """
    logs, transport = log_reader(run), run.clients.transport

    @contextmanager
    def newest(table: Table) -> Iterator[SinkView]:
        topic = topic_names(run, [table.full_name])[table.full_name]
        rows = logs.rows(spark, table, topic, lambda: transport.end_offsets([topic]).get(topic, {}))
        name = f"cdc_{uuid.uuid4().hex}"
        rows.createOrReplaceGlobalTempView(name)
        try:
            yield SinkView(spark, f"global_temp.{name}", 0)
        finally:
            if not to_the_end:
                spark.catalog.dropGlobalTempView(name)

    return newest
