"""A table's changes after the compared ends, as evidence about what the source held there. Pure values.

A connector that restarts sends changes again; such a repeat would show an older image as a key's first. Repeats are
told by the source's own order, partition by partition: what is not after the last record before the ends is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.position import BinlogPosition, Watermark
from airflow_cdc.core.verdict import FirstEvent, Image

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
        if position.gtids is not None:
            return self.gtid is not None and GtidSet.parse(self.gtid).issubset(position.gtids)
        here = BinlogPosition(self.file, self.pos)
        return self.server_id == position.server_id and here.comparable(position.position) and here < position.position


@dataclass(frozen=True, slots=True)
class Tail:
    """The records from the ends on, without repeats, in topic order."""

    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Event], start: Mapping[int, int]) -> Tail:
        """`records` may begin before `start` (partition → offset): those tell what is a repeat."""
        ordered = sorted(records, key=lambda event: (event.partition, event.offset))
        reached: dict[tuple[int, str | None], tuple[int, int, int]] = {}
        for event in ordered:
            if event.offset < start.get(event.partition, 0) and event.origin:
                known = reached.get((event.partition, event.origin), event.place)
                reached[event.partition, event.origin] = max(known, event.place)
        after = (event for event in ordered if event.offset >= start.get(event.partition, 0))
        return cls(tuple(e for e in after if not _repeated(e, reached.get((e.partition, e.origin)))))

    def first_events(self) -> dict[str, FirstEvent]:
        """Key text → its first change: what the source held for that key at the ends."""
        first: dict[str, FirstEvent] = {}
        for event in self.events:
            if event.op in ROW_CHANGES and event.key is not None and not event.bad:
                first.setdefault(event.key, FirstEvent(None if event.op == CREATE else event.before))
        return first

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


def _repeated(event: Event, reached: tuple[int, int, int] | None) -> bool:
    return event.op in ROW_CHANGES and reached is not None and event.place <= reached


def _identity(event: Event) -> tuple[object, ...]:
    return event.gtid, event.server_id, event.file, event.pos, event.place[2], event.op


def _images(event: Event) -> Iterator[tuple[Image, int, Event]]:
    if event.op in (UPDATE, DELETE) and event.before is not None:
        yield event.before, -1, event
    if event.op in (CREATE, UPDATE) and event.after is not None:
        yield event.after, 1, event
