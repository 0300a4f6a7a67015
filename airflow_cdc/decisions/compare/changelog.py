"""A table's changes after the compared ends, as evidence about what the source held there. Pure values.

A restarted connector sends changes again, and such a repeat would show an older image as a key's first. A change is a
repeat if its transaction already appeared before the ends. Transactions are looked up as members of a set, because
their numbers need not rise (Group Replication gives each member a block of a million, and gtid_next fills gaps). For
transactions without an id, the place in the server's own log files decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from airflow_cdc.core.position import Covered, Place
from airflow_cdc.decisions.compare.verdict import UNKNOWN, Change, Image, KeyLog, State

CREATE, UPDATE, DELETE = "c", "u", "d"
ROW_CHANGES = (CREATE, UPDATE, DELETE)

# what a record must not be for the table to be provably equal → why
CAVEATS = {
    "t": "the table was truncated during the comparison",
    "r": "the connector read the table again during the comparison",
}
UNREADABLE = "a record after the compared ends cannot be decoded"
REASONS = 3  # so many different ones are named
NO_BEFORE = "events carry no image of the row before the change: the source's log holds none"


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a table's topic.

    `origin` is the server whose numbering `place` (n, pos, row) uses, `log` the file in which its pos is an offset; None
    where the record does not say where in the log its change is.
    `key` is the key's text (None without a key), `bad` says why the record cannot be decoded ("" where it can).
    """

    partition: int
    offset: int
    op: str | None
    origin: str | None
    place: Place
    log: tuple[str, int]
    transaction: str | None
    key: str | None = None
    before: Image | None = None
    after: Image | None = None
    bad: str = ""

    @property
    def in_log(self) -> Place:
        """Its place in log order: by the file or commit that `pos` belongs to, not by its transaction's number."""
        return self.log[1], *self.place[1:]

    def is_before(self, ends: Mapping[int, int]) -> bool:
        """Whether its record is before these ends (partition → offset)."""
        return self.offset < ends.get(self.partition, 0)

    def is_covered(self, covered: Covered) -> bool:
        """Whether the change is certainly at or before this watermark."""
        return covered.holds(self.origin, self.place)


@dataclass(slots=True)
class _Passed:
    """What came before the ends in one partition.

    Attributes:
        transactions: the complete ones, each followed by a row of another transaction.
        last: the newest row; more rows of its transaction may follow after the ends.
        reached: origin → the last place in its log, for changes whose transaction has no id.
    """

    transactions: set[str] = field(default_factory=set)
    last: Event | None = None
    reached: dict[str, Place] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Note a record before the ends; to be called in topic order."""
        if self.last is not None and self.last.transaction is not None and self.last.transaction != event.transaction:
            self.transactions.add(self.last.transaction)
        if event.transaction is None and event.origin:
            self.reached[event.origin] = max(self.reached.get(event.origin, event.in_log), event.in_log)
        self.last = event

    def holds(self, event: Event) -> bool:
        """Whether the change came before the ends."""
        if event.transaction is None:
            return event.origin in self.reached and event.in_log <= self.reached[event.origin]
        return event.transaction in self.transactions or self._is_in_last(event)

    def _is_in_last(self, event: Event) -> bool:
        last = self.last
        if last is None or (last.transaction, last.log) != (event.transaction, event.log):
            return False
        return event.place <= last.place


@dataclass(frozen=True, slots=True)
class Tail:
    """The records from the ends on, without repeats, in topic order.

    `complete`: the records before the ends reach back to the position, so that no repeat can be mistaken for a change.
    """

    events: tuple[Event, ...] = ()
    complete: bool = True

    @classmethod
    def of(cls, records: Iterable[Event], start: Mapping[int, int], passed: Covered | None = None) -> Tail:
        """`records` may begin before `start` (partition → offset): the earlier ones show what is a repeat.

        `passed` is what a position before the ends covers: all of it is before `start` in the topic.
        """
        ordered = sorted(records, key=lambda event: (event.partition, event.offset, event.in_log))
        covered = _covered(ordered, passed)
        earlier: dict[int, _Passed] = {}
        reaching: dict[int, bool] = {}
        new = []
        for event in ordered:
            at = event.partition
            if event.offset < start.get(at, 0):
                earlier.setdefault(at, _Passed()).add(event)
                # without a transaction id, only the last place shows what came before it
                begins = passed is None or event.transaction is None
                reaching[at] = reaching.get(at, begins) or event.transaction in covered
            elif event.op not in ROW_CHANGES or not (
                event.transaction in covered or (at in earlier and earlier[at].holds(event))
            ):
                new.append(event)
        return cls(tuple(new), all(reaching.values()))

    def key_logs(self, ends: Mapping[int, int]) -> dict[str, KeyLog]:
        """Key text → what its changes say; those before `ends` (partition → offset) are in the sink."""
        found: dict[str, list[Event]] = {}
        for event in self.events:
            if event.key is not None and (event.op in ROW_CHANGES or event.bad):
                found.setdefault(event.key, []).append(event)
        sound = not self.caveats()
        return {key: _key_log([_change(event, ends) for event in _once(some)], sound) for key, some in found.items()}

    def image_changes(self) -> list[tuple[Image, int, Event]]:
        """Tables without a key: each row image added (+1) or removed (-1), without repeats, in the source's order."""
        changes = [event for event in self.events if event.op in ROW_CHANGES and not event.bad]
        return [change for event in sorted(_once(changes), key=lambda e: e.place) for change in _images(event)]

    def caveats(self, *, placed: bool = False) -> tuple[str, ...]:
        """Why these records are not sound evidence; () if they are.

        `placed`: every view of the source says which changes it shows, so a change with unknown rows casts doubt on its
        own key only.
        """
        found = [CAVEATS[event.op] for event in self.events if event.op in CAVEATS]
        unread = (e.bad for e in self.events if e.bad and not (placed and e.key is not None and e.origin))
        found += [f"{UNREADABLE}: {why}" for why in islice(dict.fromkeys(unread), REASONS)]
        without = (e for e in self.events if e.op in (UPDATE, DELETE) and e.before is None and not e.bad)
        found += [NO_BEFORE for e in without if not (placed and e.key is not None)]
        return tuple(dict.fromkeys(found))


def _covered(events: Iterable[Event], passed: Covered | None) -> frozenset[str]:
    """Those of the events' transactions that are covered."""
    if passed is None:
        return frozenset()
    first = {event.transaction: event for event in events if event.transaction is not None}
    return frozenset(name for name, event in first.items() if event.is_covered(passed))


def _once(events: Iterable[Event]) -> list[Event]:
    """Each change once, where it came first."""
    first: dict[tuple[object, ...], Event] = {}
    for event in events:
        first.setdefault(_identity(event), event)
    return list(first.values())


def _change(event: Event, ends: Mapping[int, int]) -> Change:
    """The change with its rows before and after; unknown if the event cannot be read or carries no before image."""
    before: State = UNKNOWN if event.before is None or event.bad else event.before
    after: State = UNKNOWN if event.bad or event.after is None else event.after
    if event.op == CREATE and not event.bad:
        before = None
    if event.op == DELETE:
        after = None
    return Change(before, after, event.origin, event.place, event.is_before(ends))


def _key_log(changes: list[Change], sound: bool) -> KeyLog:
    held = sum(change.in_sink for change in changes)
    at_ends = changes[held - 1].after if held else changes[0].before
    rows = {row for change in changes for row in (change.before, change.after)}
    known = frozenset(row for row in rows if row is not UNKNOWN)
    return KeyLog(at_ends, known if sound else None, tuple(changes))


def _identity(event: Event) -> tuple[object, ...]:
    """A change without a place in the log is only told by its record: whether it is a repeat of another is not known."""
    if event.origin is None:
        return event.partition, event.offset
    return event.origin, event.place, event.log, event.transaction, event.op, event.key


def _images(event: Event) -> Iterator[tuple[Image, int, Event]]:
    if event.op in (UPDATE, DELETE) and event.before is not None:
        yield event.before, -1, event
    if event.op in (CREATE, UPDATE) and event.after is not None:
        yield event.after, 1, event
