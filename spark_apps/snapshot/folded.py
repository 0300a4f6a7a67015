"""What the topic of a table says: its records folded by key, from their beginning to known ends.

That is what whoever reads all of the topic holds. It is compared with the source as a stage is: the ends of the fold are
known, and what comes behind them is in flight (INV 24).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as fn

from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.corrections import check_complete, check_keyed, check_time
from airflow_cdc.events.record import TRUNCATE
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.apply.changes import net_changes
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.compare.caveats import wait_for_xa
from airflow_cdc.spark_apps.compare.judge import judge
from airflow_cdc.spark_apps.compare.results import summary
from airflow_cdc.spark_apps.compare.scan import (
    Outcome,
    Reached,
    Subject,
    compare_tables,
    compare_views,
    decided,
    open_views,
)
from airflow_cdc.spark_apps.compare.tail import Topic
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.session import kept
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.driver.systems import TopicSystems
from airflow_cdc.spark_apps.events import meta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.topics import TopicState

log = logging.getLogger("airflow_cdc.verify")

PASSES = 2


@dataclass(frozen=True, slots=True)
class Folded:
    """A table as its topic says it is.

    Attributes:
        state: the topic, with the ends of the fold.
        net: (key, deleted, after, cdc) of each key's last record.
        view: the rows that are left, and can be read.
        unread: the keys of rows that can't be, as texts: a NOT NULL column was added since, or a long value is not in the record.
    """

    table: Table
    state: TopicState
    net: DataFrame
    view: SinkView
    rows: int
    unread: frozenset[str] = frozenset()

    @property
    def ends(self) -> dict[int, int]:
        """Partition → the fold's end."""
        return {p: end for p, (_, end) in self.state.partitions.items()}

    def drop(self) -> None:
        """Nobody reads it any more."""
        self.view.spark.catalog.dropGlobalTempView(self.view.relation.partition(".")[2])


def folded(
    run: Run, spark: SparkSession, systems: TopicSystems, table: Table, state: TopicState, *, unread: int = 0
) -> Folded:
    """The fold of the table's topic to the ends in `state`. It can be read until it is dropped, or the driver ends.

    Of a topic that is not complete from its beginning, it is what the rest of the topic says. Raises TransportError for a
    topic with keys whose last records can't be read; `unread`: of how many a row may be left so, whose keys can.
    """
    check_keyed(table)
    topic, began = systems.events.routing.topic_of(table.full_name), time.monotonic()
    raw = systems.topics.read(spark, {topic: dict(state.partitions)})
    events = systems.events.decode(raw, table, ("after",)).where(meta("other_table").isNull())
    events = events.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        net = kept(_net(run, events, state, strict=not unread))
    finally:
        events.unpersist()
    check_time(state, run.clients.transport.topic_configs([topic]).get(topic, {}), time.monotonic() - began, run.where)
    left = net.where(~fn.col("deleted"))
    live, name = left.where(meta("bad").isNull()).select("after.*"), f"cdc_{uuid.uuid4().hex}"
    keys = _unread_keys(run, left, table, state, unread)
    live.createOrReplaceGlobalTempView(name)
    rows = live.count()
    log.info("%s: its topic says %d rows, up to %s", table.full_name, rows + len(keys), state.partitions)
    return Folded(table, state, net, SinkView(spark, f"global_temp.{name}", 0), rows, keys)


def _unread_keys(run: Run, left: DataFrame, table: Table, state: TopicState, most: int) -> frozenset[str]:
    """The key texts of rows that can't be read. Raises TransportError for more than `most`."""
    if not most:
        return frozenset()
    why = own_name("bad")  # a key's columns may be called anything
    bad = left.where(meta("bad").isNotNull()).select(meta("bad").alias(why), "key.*")
    rows = bad.selectExpr(quote_ident(why), key_text(table)).take(most + 1)
    if len(rows) > most:
        text = f"the last records of more than {most:,} keys can't be read: {rows[0][0]}"
        raise _uncertain(run, state, text, _AGAIN)
    return frozenset(row[1] for row in rows)


def _net(run: Run, events: DataFrame, state: TopicState, *, strict: bool) -> DataFrame:
    """Each key's last record, if the fold is certain. Unless `strict`, with rows of which only the key can be read."""
    emptied_at = events.where(meta("op") == TRUNCATE).agg(fn.max(meta("offset")).alias("at")).collect()[0]["at"]
    if emptied_at is not None and len(state.partitions) > 1:
        raise _uncertain(
            run, state, "a TRUNCATE is in one partition of several, so its place among the others' is unknown"
        )
    # records without an operation stay: they are bad
    after = events.where(~meta("op").eqNullSafe(TRUNCATE))
    after = after if emptied_at is None else after.where(meta("offset") > emptied_at)
    nobody = after.where(meta("bad").isNotNull() & fn.col("key").isNull())
    if first := nobody.select(meta("bad"), meta("partition"), meta("offset")).take(1):
        raise _uncertain(run, state, f"a record has no key that can be read ({first[0][0]}, {_place(first[0][1:])})")
    net = net_changes(after, len(state.partitions))
    bad = meta("bad").isNotNull()
    doubts = net.where(fn.col("scattered") | (bad if strict else bad & meta("op").isNull()))
    if first := doubts.select("scattered", meta("bad"), meta("partition"), meta("offset"), "key").take(1):
        several, bad, *place, key = first[0]
        why, todo = (
            ("records of one key are in several partitions", _ANEW)
            if several
            else (f"a key's last record can't be read: {bad}", _AGAIN)
        )
        raise _uncertain(run, state, f"{why} (key {tuple(key)}, {_place(place)})", todo)
    return net


def _place(place: Sequence[int]) -> str:
    return f"partition {place[0]}, offset {place[1]}"


_ANEW = "Let the connector snapshot the table into a new topic, or correct its consumers by other means."
_AGAIN = "Let the connector snapshot the table again, then recover: newer records take their place."


def _uncertain(run: Run, state: TopicState, why: str, todo: str = _ANEW) -> TransportError:
    return TransportError(
        f"what the topic {state.name} says is not certain: {why}",
        where=run.where,
        todo=todo,
    )


class Terms(NamedTuple):
    """How a comparison is made: on the server of this watermark, and for how many seconds the connector may stand still."""

    watermark: Watermark
    seconds: float


def compare_topics(
    run: Run, spark: SparkSession, systems: TopicSystems, tables: Sequence[str], terms: Terms
) -> list[Outcome]:
    """Compare what the topics say with the source, while the connector writes; what is not MATCH once more."""
    definitions = captured(run, tables)
    outcomes, left = dict[str, Outcome](), list(definitions)
    for number in range(1, PASSES + 1):
        for name in left:
            outcome = _compared(run, spark, systems, definitions[name], terms)
            wait_for_xa(run, outcome)
            log.info("pass %d: %s", number, summary(outcome))
            outcomes[name] = outcome
        left = [name for name in left if outcomes[name].verdict is not Verdict.MATCH]
    return [outcomes[name] for name in definitions]


def _compared(run: Run, spark: SparkSession, systems: TopicSystems, table: Table, terms: Terms) -> Outcome:
    """As verify compares a stage: views that show their position are opened before the topic is read to its end."""
    reader, watermark = systems.reader, terms.watermark

    def reach() -> tuple[Reached, Mapping[str, TopicState]]:
        position = run.clients.source.position()
        wait_past(run, position, terms.seconds)
        states = run.clients.transport.gathered(systems.events.routing.topics_about([table.full_name]))
        ends = {name: {p: end for p, (_, end) in state.partitions.items()} for name, state in states.items()}
        return Reached(position, ends), states

    def reach_now() -> Reached:
        return reach()[0]

    topic = systems.events.routing.topic_of(table.full_name)

    def fold_of(states: Mapping[str, TopicState]) -> Folded:
        return folded(run, spark, systems, table, check_complete(states.get(topic), topic, run.where))

    if not reader.exact_views:
        here, states = reach()
        subject = _subject(systems, fold_of(states), here)
        return compare_tables(reader, [subject], judge, reach_now, watermark=watermark, start=here)[0]
    before = reach_now()
    with open_views(reader, [[table]], watermark, run.clients.source.position()) as views_of:
        here, states = reach()
        subject, views = replace(_subject(systems, fold_of(states), here), before=before), [views_of[table.full_name]]
        judgements, now = compare_views(reader, [subject], views, judge, reach_now, watermark=watermark)
    return decided(reader, judgements, reach_now, watermark=watermark, now=now)[0]


def _subject(systems: TopicSystems, fold: Folded, here: Reached) -> Subject:
    begins = {p: begin for p, (begin, _) in fold.state.partitions.items()}
    topic = Topic(fold.table, fold.state.name, begins, systems.reader, systems.events, systems.topics.read, systems.few)
    return Subject(fold.table, fold.view, topic, fold.ends, here.position, fold.rows)
