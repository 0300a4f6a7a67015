"""What a comparison of source and sink means, decided from values alone.

The sink's snapshot S is fixed; it holds the topics up to their fixed ends E. The source is read later and keeps
changing, so a key that differs is judged by the log between the two: the first event of the key after E carries, as
its before image, what the source held at E (worked case: S has v1, the source has v3, the first event after E is
v1→v2: S was right). A key with no event after E did not change, so there a difference is real (INV 24), unless the
change was logged, and thus applied, a moment before the engine showed it: hence a second read (INV 7).

The events were decoded by the same code that wrote the sink, so on their own they cannot prove that it decodes
correctly. The source's own row must therefore be one of the images that the key's events pass through (INV 28).

Not every log carries before images. A missing image is UNKNOWN, which is neither a row nor its absence, and nothing
follows from it. Where each read view of the source says which changes it shows, no before image is needed: if a view
shows exactly the changes of a key that the sink holds, its row is the one to compare; in any other view the row must be
the result of the last change that the view shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple, TypeAlias

from airflow_cdc.core.position import Covered, Place
from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.leaves import Leaf, add_leaves, row_leaf

# A row as both engines write it: its hash, then the canonical text of each column outside the hash (JSON).
Image = tuple[str | None, ...]


class Unknown(Enum):
    """The state of a key when no record or read shows it."""

    ROW = "unknown"


UNKNOWN: Final = Unknown.ROW
# The state of a key: a row, no row, or unknown.
State: TypeAlias = Image | Unknown | None
# key text → every row image under that key; a table without a key uses the row hash as key text
Rows = dict[str, list[Image]]

SAMPLE_KEYS = 20
# How many differing keys of a table the driver holds in memory; if more differ, the rest are only counted.
KEYS_HELD = 1_000_000

STRANGE = (
    "rows of the source are none of those that their own changes in the log pass through: the connector decodes a column"
    " otherwise than the server reads it, or changes are missing from the log"
)
# of keys that are given up
UNPLACED = (
    "rows kept changing while they were compared, and the events in their topic do not say where in the source's log a change"
    " is: compare them while they rest, or have the connector say it, as airflow cdc doctor shows"
)


class KeyVerdict(StrEnum):
    """The verdict on one key."""

    EQUAL = "equal"
    MISSING = "missing"  # only in the source
    GHOST = "ghost"  # only in the sink
    DIFFERENT = "different"
    UNSETTLED = "unsettled"  # cannot be decided yet; read again


class Change(NamedTuple):
    """One change of a key.

    Attributes:
        before, after: the row before and after the change.
        origin, place: where it is in the source's log, in the terms of coverage.Covered.
        in_sink: whether it is before the compared ends, so that the sink holds it.
    """

    before: State
    after: State
    origin: str | None
    place: Place
    in_sink: bool


class KeyLog(NamedTuple):
    """A key's changes around the compared ends.

    Attributes:
        at_ends: the row at the compared ends, according to the changes themselves.
        images: every row image that the changes pass through; None where the records do not show all of them, so that
            nothing follows from a row that is not among them.
        changes: in topic order.
    """

    at_ends: State
    images: frozenset[Image | None] | None = None
    changes: tuple[Change, ...] = ()

    def lies_between(self, shown: Covered) -> bool:
        """Whether a view that shows these changes and the sink hold different numbers of the key's changes."""
        return any(shown.holds(change.origin, change.place) != change.in_sink for change in self.changes)


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """Everything known about one suspect key.

    Attributes:
        sink: the row in the compared snapshot; None if absent.
        reads: the row in the source, one entry per read, oldest first; None if absent.
        log: the key's changes up to a point after the last read, if there are any: those after the compared ends, and,
            if the first read is older than the ends, those between the two.
        shown: the changes that each read's view shows; () where the views do not say.
    """

    sink: Image | None
    reads: tuple[Image | None, ...] = ()
    log: KeyLog | None = None
    shown: tuple[Covered, ...] = ()

    @property
    def strange(self) -> int:
        """How many of the latest reads in a row gave a row image that none of the key's changes has before or after."""
        if self.log is None or self.log.images is None:
            return 0
        images = self.log.images
        return sum(1 for _ in itertools.takewhile(lambda row: row not in images, reversed(self.reads)))

    @property
    def unplaced(self) -> bool:
        """Whether it changed in ways that no view of the source can be held against."""
        return any(change.origin is None for change in _changes(self))

    @property
    def contradicted(self) -> bool:
        """Whether the source's own rows prove that the decoded changes are wrong.

        A first read may be older than the compared ends (INV 7), so two reads must be strange; where the view says
        which changes it shows, one is enough.
        """
        if self.shown:
            return any(read.said not in (UNKNOWN, read.row) for read in _placed(self))
        return self.strange > 1

    @property
    def at_ends(self) -> State:
        """The row that the source held at the compared ends, as far as known."""
        if self.shown:
            own = [read.row for read in _placed(self) if read.as_sink]
            return own[-1] if own else _row_after(_changes(self), _held(self))
        return UNKNOWN if self.log is None else self.log.at_ends


def compare_images(source: Image | None, sink: Image | None) -> KeyVerdict:
    """Name the difference between two images of one key."""
    if source == sink:
        return KeyVerdict.EQUAL
    if sink is None:
        return KeyVerdict.MISSING
    return KeyVerdict.GHOST if source is None else KeyVerdict.DIFFERENT


def classify_key(evidence: KeyEvidence) -> KeyVerdict:
    """Decide one key. UNSETTLED asks for another read (the module's docstring has the rules)."""
    if evidence.shown:
        return _by_position(evidence)
    if evidence.log is not None:
        return _by_log(evidence, evidence.log)
    if not evidence.reads:
        return KeyVerdict.UNSETTLED
    last = evidence.reads[-1]
    if last == evidence.sink:
        return KeyVerdict.EQUAL
    if len(evidence.reads) > 1 and evidence.reads[-2] == last:
        return compare_images(last, evidence.sink)
    return KeyVerdict.UNSETTLED


def _by_log(evidence: KeyEvidence, log: KeyLog) -> KeyVerdict:
    """Judge a key in flight by the row before its first change."""
    if log.at_ends is UNKNOWN:
        return KeyVerdict.UNSETTLED
    verdict = compare_images(log.at_ends, evidence.sink)
    if verdict is not KeyVerdict.EQUAL or not evidence.strange:
        return verdict
    return KeyVerdict.DIFFERENT if evidence.contradicted else KeyVerdict.UNSETTLED


class _Placed(NamedTuple):
    """A read of a key, placed among its changes: the row they imply, and whether the sink holds exactly these."""

    row: Image | None
    said: State
    as_sink: bool


def _by_position(evidence: KeyEvidence) -> KeyVerdict:
    """Judge a key whose reads say which of its changes they show.

    Where a read shows exactly the changes that the sink holds, the sink's row is compared with the source's own row.
    Otherwise it is compared with the result of the changes. Those were decoded by the code that wrote the sink, so they
    prove nothing until some row of the source was what its changes say (INV 28).
    """
    reads, row = _placed(evidence), evidence.at_ends
    if evidence.contradicted:
        return KeyVerdict.DIFFERENT
    if row is UNKNOWN:
        return KeyVerdict.UNSETTLED
    verdict = compare_images(row, evidence.sink)
    witnessed = any(read.as_sink or read.said == read.row for read in reads)
    return verdict if witnessed or verdict is not KeyVerdict.EQUAL else KeyVerdict.UNSETTLED


def _placed(evidence: KeyEvidence) -> list[_Placed]:
    """The reads that have a place among the key's changes; none where the sink has none."""
    changes, held = _changes(evidence), _held(evidence)
    if held is None:
        return []
    counts = (_first([shown.holds(c.origin, c.place) for c in changes]) for shown in evidence.shown)
    pairs = [(row, n) for row, n in zip(evidence.reads, counts, strict=True) if n is not None]
    return [_Placed(row, _row_after(changes, n), n == held) for row, n in pairs]


def _changes(evidence: KeyEvidence) -> tuple[Change, ...]:
    return () if evidence.log is None else evidence.log.changes


def _held(evidence: KeyEvidence) -> int | None:
    """How many of the changes the sink holds."""
    return _first([change.in_sink for change in _changes(evidence)])


def _first(flags: Sequence[bool]) -> int | None:
    """How many flags are set; None unless exactly the first ones are, since otherwise the read has no place."""
    count = sum(flags)
    return count if all(flags[:count]) else None


def _row_after(changes: Sequence[Change], count: int | None) -> State:
    """The row after the first `count` changes, according to the changes themselves."""
    if count is None or not changes:
        return UNKNOWN
    return changes[count - 1].after if count else changes[0].before


@dataclass(frozen=True, slots=True)
class ImageCount:
    """How often one row image occurs in a table without a key.

    Attributes:
        sink: rows in the compared snapshot.
        source: rows in the source's read view, whose position is known exactly.
        since: rows added (+) or removed (-) after the compared ends and already in the view.
    """

    sink: int
    source: int
    since: int = 0

    @property
    def at_the_ends(self) -> int:
        """Rows that the source held at the compared ends."""
        return self.source - self.since


def classify_count(count: ImageCount) -> tuple[KeyVerdict, int]:
    """Decide one row image of a table without a key → (verdict, rows too few (+) or too many (-) in the sink)."""
    gap = count.at_the_ends - count.sink
    if gap == 0:
        return KeyVerdict.EQUAL, 0
    return (KeyVerdict.MISSING if gap > 0 else KeyVerdict.GHOST), gap


@dataclass(slots=True)
class Tally:
    """Counts of what differs, with the first keys of each kind. `equal` counts suspects that proved equal.

    `keys` holds the keys not proven equal, by verdict: a repair reads these again. Beyond KEYS_HELD, keys are only
    counted, in `left_out`.
    """

    missing: int = 0
    ghosts: int = 0
    different: int = 0
    unsettled: int = 0
    equal: int = 0
    samples: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, KeyVerdict] = field(default_factory=dict)
    left_out: int = 0

    def add(self, verdict: KeyVerdict, key: str, rows: int = 1) -> None:
        """Count `rows` rows of `key`."""
        name = _TALLY[verdict]
        setattr(self, name, getattr(self, name) + rows)
        samples = self.samples.setdefault(name, [])
        if verdict is KeyVerdict.EQUAL:
            return
        if key in self.keys or len(self.keys) < KEYS_HELD:
            self.keys[key] = verdict
        else:
            self.left_out += 1
        if len(samples) < SAMPLE_KEYS:
            samples.append(key)

    def count(self, verdict: KeyVerdict, keys: int) -> None:
        """Count keys without holding them."""
        name = _TALLY[verdict]
        setattr(self, name, getattr(self, name) + keys)
        self.left_out += keys

    @property
    def wrong(self) -> int:
        """Rows proven to differ."""
        return self.missing + self.ghosts + self.different


_TALLY = {
    KeyVerdict.EQUAL: "equal",
    KeyVerdict.MISSING: "missing",
    KeyVerdict.GHOST: "ghosts",
    KeyVerdict.DIFFERENT: "different",
    KeyVerdict.UNSETTLED: "unsettled",
}


def rows_held(verdict: KeyVerdict, evidence: KeyEvidence) -> int:
    """How many rows (0 or 1) the source held under a key at the compared ends; if unsettled, at its last read."""
    if verdict is KeyVerdict.EQUAL:
        return int(evidence.sink is not None)
    if verdict is KeyVerdict.UNSETTLED:
        row = evidence.at_ends
        return int((next(reversed(evidence.reads), None) if row is UNKNOWN else row) is not None)
    return int(verdict is not KeyVerdict.GHOST)


def leaf_caveat(leaves: Sequence[int]) -> str:
    """The caveat for leaves that differ although none of their rows do: the table is not proven equal (INV 34)."""
    first = ", ".join(str(leaf) for leaf in leaves[:SAMPLE_KEYS])
    return f"{len(leaves)} leaves differ, and no row in them explains it: leaf {first}"


class RowCounts(NamedTuple):
    """Rows of source and sink at the compared ends."""

    source: int
    sink: int


def count_caveats(tally: Tally, rows: RowCounts) -> tuple[str, ...]:
    """A caveat where the differing rows do not explain the difference in row counts (INV 34)."""
    gap = rows.source - rows.sink
    if tally.unsettled or gap == tally.missing - tally.ghosts:
        return ()
    return (f"the source has {rows.source} rows, the sink {rows.sink}, and the rows that differ do not explain it",)


def table_verdict(tally: Tally, caveats: Sequence[str], rows: RowCounts) -> Verdict:
    """MISMATCH for a proven difference; INCONCLUSIVE for an unsettled key, a caveat or unequal counts; else MATCH.

    A caveat is anything that keeps equality from being proven for the whole table, such as unresolved dead letters.
    """
    if tally.wrong:
        return Verdict.MISMATCH
    return Verdict.INCONCLUSIVE if tally.unsettled or caveats or rows.source != rows.sink else Verdict.MATCH


def without(leaves: Mapping[int, Leaf], rows: Iterable[tuple[int, str]]) -> dict[int, Leaf]:
    """Take rows (leaf, hash) out of leaf digests; a leaf that becomes empty disappears.

    Keys in flight are taken out of both sides, so that the rest must be equal however busy the table is.
    """
    sums = dict(leaves)
    for leaf, row_hash in rows:
        sums[leaf] = add_leaves(sums.get(leaf, Leaf(0, 0, 0)), row_leaf(row_hash), -1)
    return {leaf: total for leaf, total in sums.items() if total != (0, 0, 0)}
