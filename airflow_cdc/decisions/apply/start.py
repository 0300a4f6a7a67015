"""Where an apply starts, and whether it may: decided from the newest stamp and the topic's current state.

Pure values. Only the stamp says what was applied; anything that does not match it exactly is reported as a problem and
never guessed (INV 1, 2, 15, 16).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from airflow_cdc.core.errors import SinkError, TransportError, UnknownStateError, UnreportedChangeError
from airflow_cdc.core.position import Covered, ReadPosition, Watermark
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.apply.applied import APPLIED, Applied, LastChange
from airflow_cdc.decisions.apply.ddl import Ddl, JudgeDdl
from airflow_cdc.decisions.apply.schema_change import SchemaChange, refused
from airflow_cdc.decisions.table_id import is_rebuilt

FINGERPRINT = "cdc.fingerprint"
# The exact position of the read view of a table without a key (INV 19), in the commit that completed its read.
SNAPSHOT_AT = "cdc.snapshot_at"

Bounds = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DdlLog:
    """The topic of the connector's schema changes, as far as a table's stamp has not seen it (INV 13).

    Attributes:
        topic: its name; topic_id: "" if it does not exist yet.
        ranges: partition → (first offset, end offset); {} if the topic does not exist.
        before: partition → the offsets before that, where only those records can show that this is the stamped topic.
    """

    topic: str
    topic_id: str = ""
    ranges: Bounds = field(default_factory=dict)
    before: Bounds = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Nothing to read."""
        return all(end <= start for start, end in self.ranges.values())

    @property
    def offsets(self) -> dict[str, TopicOffsets]:
        """This topic's part of the stamp."""
        return {self.topic: TopicOffsets.after(self.topic_id, self.ranges)} if self.ranges else {}


@dataclass(frozen=True, slots=True)
class Start:
    """One table's batch, before it is read.

    Attributes:
        topic_id: "" if the topic does not exist (or the brokers are too old to have ids).
        ranges: partition → (first offset, end); partitions without a record included, {} if there is no topic.
        begins: partition → the first offset the topic still has.
        watermark: changes at or before it are in the table already.
        fingerprint: of the definition that the table's rows were written with; None if no commit records it.
        change: how the mirror follows the definition; None if the definition its rows were written with is not known.
        made_anew: the table was recreated under the same name since the stamp was made.
        unproven: there is no topic id to show that this is the stamped topic; `check_same_topic` can show it.
    """

    table: Table
    topic: str
    topic_id: str
    stamp: Stamp
    ranges: Bounds
    begins: Mapping[int, int]
    watermark: Watermark | None
    applied: Applied
    ddl: DdlLog
    fingerprint: str | None = None
    change: SchemaChange | None = None
    made_anew: bool = False
    unproven: bool = False

    @property
    def empty(self) -> bool:
        """Nothing to read."""
        return all(end <= start for start, end in self.ranges.values())

    @property
    def current(self) -> bool:
        """No row change and no schema change is waiting."""
        return self.empty and self.ddl.empty and self.fingerprint in {None, self.table.fingerprint}

    @property
    def decoded_as(self) -> Table:
        """The definition to decode with: events from before the last DDL may hold NULL in columns now NOT NULL."""
        change = self.change or SchemaChange()
        loose = {*change.filled, *change.never_null}
        columns = tuple(replace(c, nullable=c.nullable or c.name in loose) for c in self.table.columns)
        return replace(self.table, columns=columns) if loose else self.table

    @property
    def past(self) -> Bounds:
        """The offsets of this epoch that were applied before this batch."""
        return {p: (self.applied.base.get(str(p), start), start) for p, (start, _) in self.ranges.items()}

    def summary(self, applied: Applied) -> dict[str, str]:
        """The properties of the commit that ends this batch."""
        read = {self.topic: TopicOffsets.after(self.topic_id, self.ranges)} if self.ranges else self.stamp.offsets
        offsets = {**read, **self.ddl.offsets}
        stamp = Stamp(self.stamp.epoch, self.stamp.watermark, offsets)
        at = {} if self.watermark is None else {SNAPSHOT_AT: json.dumps(self.watermark.to_json())}
        return {
            **stamp.to_summary(),
            APPLIED: applied.to_text(),
            FINGERPRINT: self.table.fingerprint,
            **(at if self.table.keyless else {}),
        }


def plan_start(
    table: Table,
    epoch: int,
    stamp: Stamp | None,
    summary: Mapping[str, str],
    *,
    topic: str,
    state: TopicState | None,
    upto: Mapping[int, int],
    ddl: DdlLog,
    read_position: ReadPosition,
) -> Start:
    """Decide what to read of `topic` for `table`, up to the offsets `upto` (partition → end).

    `summary` belongs to the commit that carries the stamp ({} if that commit is gone and the stamp is the mirrored
    copy); `state` is None when the topic does not exist; `ddl` is the result of `plan_ddl`; `read_position` parses the
    source's positions. Raises UnknownStateError without a stamp, SinkError for a stamp of another epoch, TransportError
    for a topic that is not the stamped one or has lost records.
    """
    where = f"table {table.full_name}"
    if stamp is None:
        raise UnknownStateError(
            "neither the table's commits nor the control table say how far it was applied",
            where=where,
            todo="Recover the table; apply never guesses where to start.",
        )
    _check_epoch(stamp.epoch, epoch, where)
    known = stamp.offsets.get(topic)
    if state is None:
        if known is not None:
            raise _replaced(topic, "it no longer exists", where)
        return _nothing_to_read(table, stamp, summary, topic, ddl=ddl, read_position=read_position)
    starts = _starts(known, state, where)
    ranges = {p: _range(p, start, state, upto, where) for p, start in starts.items()}
    applied = _applied(table, summary, starts, where)
    applied = _tombstones_seen(state, ranges, applied, where)
    begins = {p: begin for p, (begin, _) in state.partitions.items()}
    at = _watermark(table, stamp, summary, read_position)
    return Start(
        table,
        topic,
        state.id,
        stamp,
        ranges,
        begins,
        at,
        applied,
        ddl,
        _fingerprint(summary),
        unproven=unproven(known, state) and any(starts.values()),
    )


def _nothing_to_read(
    table: Table, stamp: Stamp, summary: Mapping[str, str], topic: str, *, ddl: DdlLog, read_position: ReadPosition
) -> Start:
    """The start of a table whose topic does not exist and did not exist when the table was stamped."""
    at = _watermark(table, stamp, summary, read_position)
    applied = Applied.from_summary(summary) or Applied()
    return Start(table, topic, "", stamp, {}, {}, at, applied, ddl, _fingerprint(summary))


def plan_ddl(stamp: Stamp | None, topic: str, state: TopicState | None, upto: Mapping[int, int]) -> DdlLog:
    """The part of the schema-change topic that a table has not seen, up to the offsets `upto`.

    Raises TransportError when the topic is not the stamped one, or has lost records.
    """
    where = f"topic {topic}"
    known = None if stamp is None else stamp.offsets.get(topic)
    if state is None:
        if known is not None:
            raise _replaced(topic, "it no longer exists", where)
        return DdlLog(topic)
    starts = _starts(known, state, where)
    before = {p: (state.partitions[p][0], start) for p, start in starts.items()} if unproven(known, state) else {}
    return DdlLog(topic, state.id, {p: _range(p, start, state, upto, where) for p, start in starts.items()}, before)


def check_ddl(
    start: Start,
    statements: Sequence[Ddl],
    table_id: str | None,
    stored: Table | None,
    *,
    covered: Covered,
    judge: JudgeDdl,
    truncates_seen: bool,
    compared: bool = False,
) -> Start:
    """Judge the statements since the stamp and the engine's table id; returns the start with the result (INV 13, 30).

    `stored` is the definition that the table's rows were written with; `covered` is what the start's watermark covers;
    `judge` is the source's judgement of a statement. Repeats and statements before the watermark are ignored.
    Raises RereadNeededError if rows may have changed without an event, UnreportedChangeError if the definition changed
    and no statement explains it.
    """
    own = [one for one in statements if start.table.full_name in one.tables and one.at not in start.applied.ddl]
    own = [one for one in own if not one.covered(covered)]
    change = _change(start, own, stored, judge)
    rebuilt = is_rebuilt(start.applied.table_id, table_id)
    if rebuilt and not truncates_seen and not compared:
        raise refused(start.table, _rebuilt_by(own))
    applied = replace(start.applied.judged(own), table_id=table_id or start.applied.table_id)
    return replace(start, applied=applied, change=change, made_anew=rebuilt and not own and not compared)


def _rebuilt_by(own: Sequence[Ddl]) -> str:
    """Why a table with another id is read again, whatever was reported: what rebuilds a table hides a TRUNCATE beside it."""
    seen = "it was truncated or rebuilt"
    if own:
        seen += f", perhaps by {'; '.join(one.short for one in own[:3])}, which would hide a TRUNCATE"
    return f"{seen}, and the connector does not send truncates; with skipped.operations=none it would"


def check_made_anew(start: Start, truncates: int) -> None:
    """Raise UnreportedChangeError if the engine's table id changed and no TRUNCATE among the events explains it."""
    if start.made_anew and not truncates:
        raise UnreportedChangeError(
            "the table was recreated at the source, but its events contain neither DDL nor a TRUNCATE",
            where=f"table {start.table.full_name}",
            todo="Wait until the connector has read up to that point; OPTIMIZE TABLE also causes this.",
        )


def _change(start: Start, own: Sequence[Ddl], stored: Table | None, judge: JudgeDdl) -> SchemaChange | None:
    if stored is None and start.fingerprint not in {None, start.table.fingerprint}:
        raise refused(start.table, "it is not the topic that the rows came from, and that topic is unknown")
    return SchemaChange() if not own and stored == start.table else judge(stored, own, start.table)


def _check_epoch(stamped: int, epoch: int, where: str) -> None:
    if stamped == epoch:
        return
    why = (
        "a recovery is unfinished, or main was rolled back across one"
        if stamped < epoch
        else "the control table was reset"
    )
    raise SinkError(
        f"the table's stamp is of epoch {stamped}, the pipeline's is {epoch}: {why}",
        where=where,
        todo="Finish the open recovery, or recover the table (diff_repair); apply does not start from there.",
    )


def _starts(known: TopicOffsets | None, state: TopicState, where: str) -> dict[int, int]:
    """The next offset of each partition; 0 for a topic that is not in the stamp, since it did not exist then."""
    state.check_offsets(where)
    if known is None:
        return dict.fromkeys(state.partitions, 0)
    if known.is_of(state.id) is False:
        raise _replaced(state.name, f"its id is {state.id}, the stamp's is {known.topic_id}", where)
    if known.next.keys() != state.partitions.keys():
        how = f"it has {len(state.partitions)} partitions, the stamp has {len(known.next)}"
        raise _replaced(state.name, how, where)
    return dict(known.next)


def unproven(known: TopicOffsets | None, state: TopicState) -> bool:
    """Whether no topic id shows that this is the stamped topic: brokers before 2.8 have none, and "" never matches."""
    return known is not None and known.is_of(state.id) is None


def check_same_topic(start: Start, earlier: Mapping[int, Sequence[tuple[LastChange, bool]]]) -> None:
    """Raise TransportError unless the records before the stamp show that the topic is the one that was stamped.

    `earlier`: partition → the newest of those records, each with whether it is at or before the watermark. The last
    applied record must be among them. If none was applied, all of them must be before the watermark, since nothing else
    was in the topic yet. A topic that begins exactly at the stamp leaves nothing to compare, but a recreated topic
    begins at 0.
    """
    for p, (at, _) in start.ranges.items():
        if at in {0, start.begins[p]}:
            continue
        last, records = start.applied.last.get(str(p)), earlier.get(p, ())
        same = any(one.same_place(last) for one, _ in records) if last else all(covered for _, covered in records)
        if not same or not records:
            how = "its brokers have no topic ids, and the records before the stamp are not those that were applied"
            raise _replaced(start.topic, how, f"table {start.table.full_name}")


def check_same_ddl(start: Start, earlier: Sequence[Ddl]) -> None:
    """For a topic without id: raise TransportError unless the last judged DDL is among the records before the stamp."""
    whole = {begin for begin, _ in start.ddl.before.values()} == {0}
    if whole and start.applied.ddl and start.applied.ddl[-1] not in {one.at for one in earlier}:
        how = "its brokers have no topic ids, and it lacks the DDL that was judged last"
        raise _replaced(start.ddl.topic, how, f"table {start.table.full_name}")


def _replaced(topic: str, how: str, where: str) -> TransportError:
    return TransportError(
        f"the topic {topic} is not the one that was stamped: {how}",
        where=where,
        todo="Recover the table: offsets of another topic say nothing about this one.",
    )


def _range(p: int, start: int, state: TopicState, upto: Mapping[int, int], where: str) -> tuple[int, int]:
    begin, end = state.partitions[p]
    if start < begin:
        raise _gap(state.name, p, f"records {start} to {begin - 1} were removed before they were applied", where)
    if start > end:
        raise _gap(state.name, p, f"it ends at {end}, but apply has already reached {start}", where)
    return start, max(start, upto.get(p, start))


def _tombstones_seen(state: TopicState, ranges: Bounds, applied: Applied, where: str) -> Applied:
    """Refuse a compacted topic whose unread records may be older than its tombstone retention (INV 17).

    Deletes among them may have been compacted away without trace. Records appended after the last batch's end offsets
    were read are no older than that moment, unless the clock that told it was ahead.
    """
    compaction = state.compaction
    if compaction is None:
        return applied
    read_at = applied.at_ms if applied.at_ms <= compaction.now_ms else 0
    for p, (start, end) in ranges.items():
        if read_at < compaction.since_ms and start < min(end, compaction.first.get(p, start)):
            since = datetime.fromtimestamp(compaction.since_ms / 1000, UTC).isoformat(timespec="seconds")
            raise _gap(
                state.name, p, f"records from {start} on are older than its tombstones are kept ({since})", where
            )
    return replace(applied, at_ms=compaction.now_ms)


def _gap(topic: str, partition: int, what: str, where: str) -> TransportError:
    return TransportError(
        f"partition {partition} of the topic {topic} has a gap: {what}",
        where=where,
        todo="Recover the table, and check the topic's retention.",
    )


def _watermark(table: Table, stamp: Stamp, summary: Mapping[str, str], read_position: ReadPosition) -> Watermark | None:
    if table.keyless and SNAPSHOT_AT in summary:
        return Watermark.from_json(summary[SNAPSHOT_AT], read_position)
    return None if stamp.watermark is None else Watermark.from_json(stamp.watermark, read_position)


def _applied(table: Table, summary: Mapping[str, str], starts: Mapping[int, int], where: str) -> Applied:
    applied = Applied.from_summary(summary)
    if applied is not None:
        return applied
    if table.keyless and not summary:
        raise UnknownStateError(
            "the commit that records which changes the table holds is gone, and without a key its rows do not show repeats",
            where=where,
            todo="Recover the table.",
        )
    return Applied(base={str(p): start for p, start in starts.items()})


def _fingerprint(summary: Mapping[str, str]) -> str | None:
    if FINGERPRINT in summary:
        return summary[FINGERPRINT]
    ledger = ChunkLedger.from_summary(summary)
    return None if ledger is None else ledger.fingerprint


def is_behind(stamped: Mapping[str, LastChange], last: Mapping[str, LastChange]) -> bool:
    """Whether a batch ends inside a repeated range: in some partition its last change is older than the stamped one."""
    return any(p in stamped and change.is_older_than(stamped[p]) for p, change in last.items())
