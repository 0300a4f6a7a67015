"""A table's changes after the compared ends, as evidence about what the source held there. Pure values.

A connector that restarts sends changes again; such a repeat would show an older image as a key's first. A change is
a repeat if its transaction is one of those that came before the ends. GTIDs are looked up as members of a set: their
numbers need not rise (Group Replication gives each member a block of a million, and gtid_next fills gaps). Without
GTIDs the place in the server's own log files tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_cdc.core.compare.verdict import Image, KeyLog
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, mysql_position

CREATE, UPDATE, DELETE = "c", "u", "d"
ROW_CHANGES = (CREATE, UPDATE, DELETE)

# what a record must not be for the table to be provably equal → why
DOUBTS = {
    "t": "the table was truncated during the comparison",
    "r": "the connector read the table anew during the comparison",
}
UNREADABLE = "a record after the compared ends cannot be decoded"
NO_BEFORE = "events carry no image of the row before the change (binlog_row_image is not FULL)"


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a table's topic.

    `origin` names whose numbering `place` (n, pos, row) belongs to; `key` is the key's text (None without a key).
    """

    partition: int
    offset: int
    op: str | None
    origin: str | None
    place: tuple[int, int, int]
    gtid: str | None
    server_id: int
    file: str
    pos: int
    key: str | None = None
    before: Image | None = None
    after: Image | None = None
    bad: bool = False

    def is_before(self, position: Watermark) -> bool:
        """Whether the change is at or before `position`, for certain."""
        at = mysql_position(position.position)
        if at.gtids is not None:
            return self.gtid is not None and GtidSet.parse(self.gtid).issubset(at.gtids)
        here = BinlogPosition(self.file, self.pos)
        return self.server_id == at.server_id and here.comparable(at.place) and here < at.place


@dataclass(slots=True)
class _Passed:
    """What came before the ends in one partition.

    Attributes:
        transactions: GTIDs of which every row came: a row of another transaction followed.
        last: the newest row; more of its transaction may come after the ends.
        reached: origin → the greatest place in its log files, of changes without a GTID.
    """

    transactions: set[str] = field(default_factory=set)
    last: Event | None = None
    reached: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Note a record before the ends; to be called in topic order."""
        if self.last is not None and self.last.gtid is not None and self.last.gtid != event.gtid:
            self.transactions.add(self.last.gtid)
        if event.gtid is None and event.origin:
            self.reached[event.origin] = max(self.reached.get(event.origin, event.place), event.place)
        self.last = event

    def holds(self, event: Event) -> bool:
        """Whether the change came before the ends."""
        if event.gtid is None:
            return event.origin in self.reached and event.place <= self.reached[event.origin]
        return event.gtid in self.transactions or self._is_in_last(event)

    def _is_in_last(self, event: Event) -> bool:
        last = self.last
        if last is None or (last.gtid, last.server_id, last.file) != (event.gtid, event.server_id, event.file):
            return False
        return event.place <= last.place


@dataclass(frozen=True, slots=True)
class Tail:
    """The records from the ends on, without repeats, in topic order.

    `complete`: the records before the ends reach back to `position`, so that no repeat can be taken for a change.
    """

    events: tuple[Event, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, records: Iterable[Event], start: Mapping[int, int], position: Watermark | None = None) -> Tail:
        """`records` may begin before `start` (partition → offset): those tell what is a repeat.

        `position` lies before the ends: every change at or before it stands before `start` in the topic.
        """
        ordered = sorted(records, key=lambda event: (event.partition, event.offset))
        covered = _covered(ordered, position)
        passed: dict[int, _Passed] = {}
        reaching: dict[int, bool] = {}
        new = []
        for event in ordered:
            at = event.partition
            if event.offset < start.get(at, 0):
                passed.setdefault(at, _Passed()).add(event)
                # without a GTID the last place alone says what came before it
                reaching[at] = reaching.get(at, position is None or event.gtid is None) or event.gtid in covered
            elif event.op not in ROW_CHANGES or not (
                event.gtid in covered or (at in passed and passed[at].holds(event))
            ):
                new.append(event)
        return cls(tuple(new), all(reaching.values()))

    def key_logs(self) -> dict[str, KeyLog]:
        """Key text → what its changes say: the row that the source held at the ends, and all that came after it."""
        rows: dict[str, list[Image | None]] = {}
        for event in self.events:
            if event.op in ROW_CHANGES and event.key is not None and not event.bad:
                before = None if event.op == CREATE else event.before
                rows.setdefault(event.key, [before]).append(None if event.op == DELETE else event.after)
        sound = not self.doubts()
        return {key: KeyLog(images[0], frozenset(images) if sound else None) for key, images in rows.items()}

    def image_changes(self) -> list[tuple[Image, int, Event]]:
        """Each row image that came (+1) or went (-1), once, in the source's order: for tables without a key."""
        once = {_identity(event): event for event in self.events if event.op in ROW_CHANGES and not event.bad}
        return [change for event in sorted(once.values(), key=lambda e: e.place) for change in _images(event)]

    def doubts(self) -> tuple[str, ...]:
        """Why these records are no sound evidence; () if they are."""
        found = [DOUBTS[event.op] for event in self.events if event.op in DOUBTS]
        found += [UNREADABLE for event in self.events if event.bad]
        found += [NO_BEFORE for e in self.events if e.op in (UPDATE, DELETE) and e.before is None and not e.bad]
        return tuple(dict.fromkeys(found))


def _covered(events: Iterable[Event], position: Watermark | None) -> frozenset[str]:
    """The GTIDs that are at or before `position`, of those that the events have."""
    if position is None:
        return frozenset()
    first = {event.gtid: event for event in events if event.gtid is not None}
    return frozenset(gtid for gtid, event in first.items() if event.is_before(position))


def _identity(event: Event) -> tuple[object, ...]:
    return event.gtid, event.server_id, event.file, event.pos, event.place[2], event.op


def _images(event: Event) -> Iterator[tuple[Image, int, Event]]:
    if event.op in (UPDATE, DELETE) and event.before is not None:
        yield event.before, -1, event
    if event.op in (CREATE, UPDATE) and event.after is not None:
        yield event.after, 1, event
