"""What differs between the source and a topic, written into the topic as the connector's own records (INV 23, 47).

The connector is stopped, so the topic rests. A row that the topic lacks, or has otherwise, is written as the connector's
snapshot would write it; a ghost is deleted by a delete event and its tombstone. Rows may be newer than W, as after every
read: what the connector sends from W on makes them one state again.

Where a sink connector fills copies that can be read, these are compared, too, once it has written all that is in the topic.
Then the topic need not be complete. What is written is still made of the source's rows and the topic's records, but for the
deletes of rows that only the copy has any more.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as fn

from airflow_cdc.core.errors import ConfigError, SchemaError, TransportError, VerificationError
from airflow_cdc.core.topics import Outgoing, PartitionRanges
from airflow_cdc.decisions.compare.repair import NEVER
from airflow_cdc.decisions.compare.verdict import KEYS_HELD, leaf_caveat
from airflow_cdc.decisions.corrections import check_complete, check_written, is_complete
from airflow_cdc.decisions.removal import Removal, refusals
from airflow_cdc.events.frame import Standing
from airflow_cdc.events.record import DELETE, Opened, RawRecord
from airflow_cdc.flows.corrections import AGAIN, InRecovery, Notes, check_stopped, producer_of, send
from airflow_cdc.flows.feeder import wait_filled
from airflow_cdc.flows.publish import not_agreed
from airflow_cdc.spark_apps.canonical.spark import key_text
from airflow_cdc.spark_apps.compare.in_place import copies_at_rest, pairs_of
from airflow_cdc.spark_apps.compare.judge import drill_keys
from airflow_cdc.spark_apps.compare.scan import Subject, scan
from airflow_cdc.spark_apps.driver.sql import own_name, quote_ident
from airflow_cdc.spark_apps.events import meta
from airflow_cdc.spark_apps.ports_corrections import WritesEvents
from airflow_cdc.spark_apps.snapshot.folded import Folded, folded
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

    from airflow_cdc.core.ports import Producer
    from airflow_cdc.core.position import Position, Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.compare.repair import RepairPlan
    from airflow_cdc.events.encoder import Encoder
    from airflow_cdc.events.frame import Seal, Sealed
    from airflow_cdc.flows.run import Run
    from airflow_cdc.spark_apps.compare.copies import Pair
    from airflow_cdc.spark_apps.compare.views import SinkView
    from airflow_cdc.spark_apps.driver.systems import TopicSystems
    from airflow_cdc.spark_apps.ports import RowReader, SourceView

log = logging.getLogger("airflow_cdc.corrections")

_KEY = own_name("key_text")
# a record's place, and whether it is a delete
_SAID = ("partition", "offset", "deleted")
# how many records' keys are written again, and their partitions computed, before anything of ours is sent
SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows and deletes were written for a table."""

    table: str
    rows: int
    deletes: int


@dataclass(frozen=True, slots=True)
class Last:
    """A key's last record in the topic. `live`: it has a row."""

    record: RawRecord
    live: bool


def standing(run: Run, position: Position, taken_at: datetime) -> Standing:
    """Where in the source's log corrections stand that are written when it was at this position."""
    seconds = taken_at.timestamp()
    return Standing(run.clients.connector.codec.at(position, int(seconds)), int(seconds * 1_000_000), position)


class Copy(NamedTuple):
    """A copy, and how its columns are the source's."""

    view: SinkView
    pair: Pair


@dataclass(frozen=True, slots=True)
class Differing:
    """What differs between a table and those who read its topic.

    Attributes:
        keys: the key texts.
        rows: how many rows the copy has; without one, how many the topic says.
        key_table: the table by whose key columns the texts are written: a copy's may be wider than the source's.
        copy: None where no copy is read.
    """

    keys: frozenset[str]
    rows: int
    key_table: Table
    copy: Copy | None = None


@dataclass(frozen=True, slots=True)
class Correcting:
    """What corrections of a run's tables are made with.

    Attributes:
        seconds: how long a sink connector may stand still.
        only: table → what is known to differ, and is written without a look at the rest; a table that is absent is compared whole.
        notes: where it is written down what is sent.
    """

    run: Run
    spark: SparkSession
    systems: TopicSystems
    watermark: Watermark
    place: Standing
    allowed_deletes: Mapping[str, int]
    seconds: float
    only: Mapping[str, RepairPlan] = field(default_factory=dict)
    notes: Notes = field(default_factory=InRecovery)

    def table(self, table: Table) -> Written:
        """Compare a table at rest, and write what differs. Safe to run again: it writes only what still differs."""
        check_stopped(self.run)
        producer_of(self.run).fence(self.id_of(table))
        topic = self.systems.events.routing.topic_of(table.full_name)
        states = self.run.clients.transport.topic_states([topic])
        pair = None if self.run.clients.feeder is None else pairs_of(self.run, [table])[table.full_name]
        check = check_complete if pair is None else check_written
        state = check(states.get(topic), topic, self.run.where)
        fold = folded(self.run, self.spark, self.systems, table, state, unread=KEYS_HELD)
        try:
            differing = self._of_topic(fold, table) if pair is None else self._of_copy(fold, table, pair)
            result = Written(table.full_name, *_Wanted(self, fold, differing).sent())
        finally:
            fold.drop()
        log.info("%s: %d rows and %d deletes were written into %s", result.table, result.rows, result.deletes, topic)
        return result

    def id_of(self, table: Table) -> str:
        """One of the table's own: who sends under it ends what a killed try left open."""
        return f"airflow-cdc-{self.run.pipeline.name}-{table.full_name}"

    @property
    def writes(self) -> WritesEvents:
        """The connector's events as they are written. Raises ConfigError for a connector whose are not."""
        if not isinstance(self.systems.events, WritesEvents):
            raise ConfigError(
                f"events of {self.run.pipeline.connector.kind} are read, and not written: nothing can be put right"
                " through its topics",
                where=self.run.where,
            )
        return self.systems.events

    def _of_topic(self, fold: Folded, key_table: Table) -> Differing:
        """What the topic says otherwise than the source."""
        if (plan := self.only.get(key_table.full_name)) is not None:
            return Differing(frozenset(plan.keys), plan.rows, key_table)
        reader = self.systems.reader
        subject = Subject(key_table, fold.view, None, {}, self.watermark, fold.rows)
        with reader.view(key_table, at=self.watermark) as view:
            keys = self._differing(reader, subject, view)
        # written anew: newer records take their place
        return Differing(keys | fold.unread, fold.rows + len(fold.unread), key_table)

    def _of_copy(self, fold: Folded, table: Table, pair: Pair) -> Differing:
        """What the copy has otherwise than the source, and what a topic says otherwise that is complete."""
        plan = self.only.get(table.full_name)
        if plan is None:  # a key that is known to differ is written, whatever the copy has of it by now
            wait_filled(self.run, {fold.state.name: fold.ends}, self.seconds)
        types = {column.name: column.type for column in pair.source.key_columns}
        columns = tuple(replace(one, type=types.get(one.name, one.type)) for one in table.columns)
        key_table = replace(table, columns=columns)
        sides = copies_at_rest(self.run, self.spark, pair, self.watermark)
        if plan is not None:
            with sides.sink(pair.source) as copy:
                return Differing(frozenset(plan.keys), plan.rows, key_table, Copy(copy, pair))
        with sides.view(pair.source) as view, sides.sink(pair.source) as copy:
            rows = copy.count()
            subject = Subject(pair.source, copy, None, {}, self.watermark, rows)
            keys = self._differing(sides.reader, subject, view)
        # a topic that does not say each row as it is now has its last word from the copy
        says_all = is_complete(fold.state) and not fold.unread
        others = self._of_topic(fold, key_table).keys if says_all else frozenset()
        return Differing(keys | others, rows, key_table, Copy(copy, pair))

    def _differing(self, reader: RowReader, subject: Subject, view: SourceView) -> frozenset[str]:
        """The key texts of the rows that differ."""
        table = subject.table
        digests = scan(reader, self.watermark, subject, view)
        differences = drill_keys(digests, digests.source, digests.sink)
        if differences.unexplained or differences.beyond:
            why = (
                leaf_caveat(differences.unexplained)
                if differences.unexplained
                else "more keys differ than are held in memory"
            )
            raise VerificationError(
                f"{table.full_name} can't be corrected row by row: {why}",
                where=self.run.where,
                todo="Let the connector snapshot the table again, then recover: only rows that are gone are left to write.",
                verdict="INCONCLUSIVE",
            )
        return frozenset(differences.keys) | digests.others


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The differing keys of one table, and what the topic has under them."""

    by: Correcting
    fold: Folded
    differing: Differing

    def sent(self) -> tuple[int, int]:
        """Write the corrections; returns how many rows and deletes."""
        run, fold, topic = self.by.run, self.fold, self.fold.state.name
        last = self._last()
        template = self._template(topic)
        seal = self.by.writes.sealer(fold.table, template, self.by.place)
        self._check_partitions(last)
        records, rows = self._rows(seal, last)
        absent, topic_keys = self.differing.keys - rows, {key for key, one in last.items() if one.live}
        ghosts, unsaid = absent & topic_keys, self._held(absent - topic_keys)
        self._check_ours(unsaid.keys() - last.keys())
        deletes = len(ghosts) + len(unsaid)
        self._check_removal(deletes)
        records += [out for key in sorted(ghosts) for out in self._deleted(last[key], template)]
        records += [
            out for key, one in unsaid.items() for out in self._deleted(self._said(seal, one, last.get(key)), template)
        ]

        def write() -> tuple[PartitionRanges, int, int]:
            ranges = self.producer.transaction(self.by.id_of(fold.table), topic, records) if records else {}
            return ranges, len(rows), deletes

        send(run, fold.table.full_name, topic, fold.ends, write, notes=self.by.notes)
        return len(rows), deletes

    @property
    def producer(self) -> Producer:
        return producer_of(self.by.run)

    @property
    def keys(self) -> Sequence[str]:
        """The key texts that differ."""
        return sorted(self.differing.keys)

    @property
    def key(self) -> str:
        """Expression: a row's key text."""
        return key_text(self.differing.key_table)

    def _check_ours(self, keys: Collection[str]) -> None:
        """Raise TransportError for rows of a copy that are not the source's, and that its topic never had a record of.

        A topic without its beginning may have had one.
        """
        if keys and is_complete(self.fold.state):
            raise TransportError(
                f"{len(keys)} rows of the copy are not at the source, and no record of {self.fold.state.name} is about them, so"
                f" somebody else wrote them: {', '.join(sorted(keys)[:5])}",
                where=f"table {self.fold.table.full_name}",
                todo=f"Find who writes to the copy, and delete these rows there. {AGAIN}",
            )

    def _template(self, topic: str) -> RawRecord:
        newest = self.by.run.clients.transport.newest([topic]).get(topic)
        if newest is None or newest.value is None:
            raise TransportError(
                f"no record of {topic} could be read that corrections can be written like",
                where=self.by.run.where,
                todo="Let the connector send one change of the table, then recover.",
            )
        return RawRecord(0, 0, newest.key, newest.value, newest.carried)

    def _last(self) -> dict[str, Last]:
        """Key text → the last record of the differing keys that the topic has, and of some of the others."""
        net = self.fold.net
        # a key's columns may be called anything
        place = (meta("partition"), meta("offset"), fn.col("deleted"))
        places_of = net.select(*(one.alias(own_name(name)) for name, one in zip(_SAID, place, strict=True)), "key.*")
        columns = (f"{quote_ident(own_name(name))} AS {quote_ident(name)}" for name in _SAID)
        texts = places_of.selectExpr(*columns, f"{self.key} AS {quote_ident(_KEY)}")
        wanted_keys = self.by.spark.createDataFrame([(key,) for key in self.keys], f"{quote_ident(_KEY)} string")
        places = texts.join(fn.broadcast(wanted_keys), _KEY, "left_semi").unionByName(texts.limit(SAMPLE)).distinct()
        raw = self.by.systems.topics.read(self.by.spark, {self.fold.state.name: dict(self.fold.state.partitions)})
        rows = raw.join(fn.broadcast(places), ["partition", "offset"]).collect()
        return {row[_KEY]: Last(_record(row), not row["deleted"]) for row in rows}

    def _check_partitions(self, last: Mapping[str, Last]) -> None:
        """Raise TransportError unless each record of `last` is in the partition that producers give its key by default."""
        parts = len(self.fold.state.partitions)
        for one in last.values():
            key = one.record.key or b""
            if self.producer.partition_of(key, parts) != one.record.partition:
                raise TransportError(
                    f"the key {key!r} of {self.fold.state.name} is in partition {one.record.partition}, where producers"
                    " without a partitioner of their own do not put it: one decided, or the topic once had fewer partitions",
                    where=self.by.run.where,
                    todo="Such a topic can't be corrected: a record in another partition would not be in the key's order.",
                )

    def _check_keys(self, seal: Seal, encoder: Encoder, last: Mapping[str, Last]) -> None:
        """Raise TransportError unless rows of a sample, which the topic has, would get the key that they have."""
        live = self.fold.view.frame().limit(SAMPLE)
        rows = live.withColumn(_KEY, fn.expr(self.key)).toArrow()
        for key, change in zip(rows[_KEY].to_pylist(), encoder.changes(rows), strict=True):
            (record,) = seal(change)
            self._check_same(record, last.get(key))

    def _rows(self, seal: Seal, last: Mapping[str, Last]) -> tuple[list[Outgoing], set[str]]:
        """The records of the rows that the source has under the differing keys, and these keys.

        Without such a row, nothing is asked of columns: ghosts are deleted also where a row could not be written.
        """
        table, by = self.fold.table, self.by
        records, keys = list[Outgoing](), set[str]()
        if not self.keys:
            return records, keys
        rows = by.systems.reader.rows_of_keys(by.spark, table, self.keys, at=by.watermark)
        wanted_keys = by.spark.createDataFrame([(key,) for key in self.keys], f"{quote_ident(_KEY)} string")
        current = rows.withColumn(_KEY, fn.expr(self.key)).join(fn.broadcast(wanted_keys), _KEY, "left_semi").toArrow()
        if not current.num_rows:
            return records, keys
        encoder = by.writes.encoder(table)
        self._check_keys(seal, encoder, last)
        for key, change in zip(current[_KEY].to_pylist(), encoder.changes(current), strict=True):
            keys.add(key)
            for record in seal(change):
                before = last.get(key)
                records.append(self._outgoing(record if before is None else record._replace(key=before.record.key)))
                self._check_same(record, before)
        return records, keys

    def _check_same(self, record: Sealed, before: Last | None) -> None:
        """Raise TransportError if a key that the topic has is written in other bytes than its last record's (INV 33)."""
        if before is not None and before.record.key != record.key:
            raise TransportError(
                f"a key of {self.fold.state.name} is {before.record.key!r}, and would now be written as {record.key!r}",
                where=self.by.run.where,
                todo="The key's converter was changed: let the connector snapshot the table into a new topic.",
            )

    def _deleted(self, one: Last, template: RawRecord) -> Iterable[Outgoing]:
        """A ghost's delete and tombstone: made of its own last record, with the newest one's headers if its own were not read."""
        last = one.record if one.record.headers else one.record._replace(headers=template.headers)
        seal = self.by.writes.sealer(self.fold.table, last, self.by.place)
        return map(self._outgoing, seal(Opened(DELETE)))

    def _held(self, keys: Collection[str]) -> dict[str, Opened]:
        """The rows that a copy has under these keys, as they are written. The topic has no row of them."""
        table, copy = self.fold.table, self.differing.copy
        if not keys or copy is None:
            return {}
        names = {column.name for column in copy.pair.source.columns}
        columns = (
            f"CAST({quote_ident(one.name) if one.name in names else 'NULL'} AS {sink_type(one)}) AS {quote_ident(one.name)}"
            for one in table.mirrored
        )
        rows = copy.view.rows_of_keys(sorted(keys)).selectExpr(*columns).withColumn(_KEY, fn.expr(self.key)).toArrow()
        unknown = [one.name for one in table.mirrored if not (one.nullable or one.name in names)]
        if unknown and (left := sorted(set(rows[_KEY].to_pylist()) & set(keys))):
            raise SchemaError(
                f"only the copy has {len(left)} rows any more, and it does not hold {', '.join(unknown)}, without which no delete"
                f" can be written: {', '.join(left[:5])}",
                where=f"table {table.full_name}",
                todo=f"Delete these rows from the copy by hand. {AGAIN}",
            )
        pairs = zip(rows[_KEY].to_pylist(), self.by.writes.encoder(table).changes(rows), strict=True)
        return {key: change for key, change in pairs if key in keys}

    def _said(self, seal: Seal, change: Opened, last: Last | None) -> Last:
        """The record that the topic would have of a row of a copy: a sink connector fails at a delete without a row."""
        (record,) = seal(change)
        self._check_same(record, last)
        return Last(RawRecord(0, 0, record.key, record.value, record.headers), live=True)

    def _outgoing(self, record: Sealed) -> Outgoing:
        partition = self.producer.partition_of(record.key or b"", len(self.fold.state.partitions))
        return Outgoing(partition, record.key, record.value, tuple(record.headers))

    def _check_removal(self, deletes: int) -> None:
        """Raise NotAgreedError for more deletes than the policy, or a person, allows (INV 36)."""
        run, name, rows = self.by.run, self.fold.table.full_name, self.differing.rows
        if run.pipeline.policy.approval == NEVER or run.options.approved:
            return
        removal = Removal(name, rows, rows - deletes, self.by.allowed_deletes.get(name, 0))
        if reasons := refusals(run.pipeline.policy.max_deletes, [removal]):
            raise not_agreed(run, reasons)


def _record(row: Any) -> RawRecord:
    headers = tuple((one["key"], one["value"] or b"") for one in row["headers"] or ()) if "headers" in row else ()
    return RawRecord(row["partition"], row["offset"], bytes(row["key"]), row["value"] and bytes(row["value"]), headers)
