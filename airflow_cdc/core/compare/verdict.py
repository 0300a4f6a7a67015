"""What a comparison of source and sink means, decided from values alone.

The sink's snapshot S is fixed; it holds the topics up to their fixed ends E. The source is read later and goes on
changing, so a key that differs is judged by the log between the two: the first event of the key after E carries, as
its before image, what the source held at E (worked case: S has v1, the source has v3, the first event after E is
v1→v2: S was right). A key with no event after E did not change, so there a difference is real (INV 24), unless the
change was logged, and thus applied, a moment before the engine showed it: hence a second read (INV 7).

The events were decoded by the code that wrote the sink, so alone they cannot witness that it decodes rightly. The
source's own row must therefore be one of the images that the key's events pass through (INV 28).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from airflow_cdc.core.compare.leaves import Leaf, add_leaves, row_leaf
from airflow_cdc.core.report import Verdict

# A row as both engines write it: its hash, then the canonical text of each column the hash does not hold (JSON).
Image = tuple[str | None, ...]
# key text → every row image that stands under it; a table without a key has its row hash there
Rows = dict[str, list[Image]]

SAMPLE_KEYS = 20
# Keys of a table that a driver holds in memory: of a table that is wholly wrong the rest is only counted.
KEYS_HELD = 1_000_000

STRANGE = (
    "rows of the source are none of those that their own changes in the log pass through: the connector decodes a column"
    " otherwise than the server reads it, or changes are missing from the log"
)


class KeyVerdict(StrEnum):
    """What became of one key."""

    EQUAL = "equal"
    MISSING = "missing"  # only in the source
    GHOST = "ghost"  # only in the sink
    DIFFERENT = "different"
    UNSETTLED = "unsettled"  # cannot be said yet; read again


class KeyLog(NamedTuple):
    """A key's changes after the compared ends.

    Attributes:
        before: the row that the first change found; None when the key was not there.
        images: every row that the changes pass through, `before` included; None where the records do not show all of
            them, so that nothing follows from a row that is not among them.
    """

    before: Image | None
    images: frozenset[Image | None] | None = None


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """All that is known of one suspect key.

    Attributes:
        sink: the row in the compared snapshot; None if absent.
        reads: the row in the source, one entry per read, oldest first; None if absent.
        log: the key's changes from the compared ends to a point after the last read, if there are any.
    """

    sink: Image | None
    reads: tuple[Image | None, ...] = ()
    log: KeyLog | None = None

    @property
    def strange(self) -> int:
        """How many reads, counted from the last one back, gave a row that no change of the key leads to or from."""
        if self.log is None or self.log.images is None:
            return 0
        images = self.log.images
        return sum(1 for _ in itertools.takewhile(lambda row: row not in images, reversed(self.reads)))


def compare_images(source: Image | None, sink: Image | None) -> KeyVerdict:
    """Name the difference between two images of one key."""
    if source == sink:
        return KeyVerdict.EQUAL
    if sink is None:
        return KeyVerdict.MISSING
    return KeyVerdict.GHOST if source is None else KeyVerdict.DIFFERENT


def classify_key(evidence: KeyEvidence) -> KeyVerdict:
    """Decide one key. UNSETTLED asks for another read (see the module's text for the rules)."""
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
    """Judge a key in flight. A first read may be older than the compared ends (INV 7), so two must be strange."""
    verdict = compare_images(log.before, evidence.sink)
    if verdict is not KeyVerdict.EQUAL or not evidence.strange:
        return verdict
    return KeyVerdict.DIFFERENT if evidence.strange > 1 else KeyVerdict.UNSETTLED


@dataclass(frozen=True, slots=True)
class ImageCount:
    """How often one row image stands in a table without a key.

    Attributes:
        sink: rows in the compared snapshot.
        source: rows in the source's read view, whose position is known exactly.
        since: rows that came (+) or went (-) after the compared ends and are in the view already.
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

    `keys` has the keys that are not proven equal, by their verdict: what a repair reads again. Beyond KEYS_HELD of them a
    key is only counted, in `left_out`.
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
        """Count keys that nobody holds."""
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
    """How many rows (0 or 1) the source held under a key at the compared ends; of an unsettled key, as it was read last."""
    if verdict is KeyVerdict.EQUAL:
        return int(evidence.sink is not None)
    if verdict is KeyVerdict.UNSETTLED:
        row = evidence.log.before if evidence.log is not None else next(reversed(evidence.reads), None)
        return int(row is not None)
    return int(verdict is not KeyVerdict.GHOST)


def leaf_caveat(leaves: Sequence[int]) -> str:
    """Why leaves that differ while none of their rows does keep a table from being equal (INV 34)."""
    first = ", ".join(str(leaf) for leaf in leaves[:SAMPLE_KEYS])
    return f"{len(leaves)} leaves differ, and no row in them explains it: leaf {first}"


class RowCounts(NamedTuple):
    """Rows of source and sink at the compared ends."""

    source: int
    sink: int


def count_caveats(tally: Tally, rows: RowCounts) -> tuple[str, ...]:
    """A caveat where the rows that differ do not explain why the counts do (INV 34)."""
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
    """Take rows (leaf, hash) out of leaf digests; a leaf left without anything disappears.

    Keys in flight are taken out of both sides, so that what is left must be equal however busy the table is.
    """
    sums = dict(leaves)
    for leaf, row_hash in rows:
        sums[leaf] = add_leaves(sums.get(leaf, Leaf(0, 0, 0)), row_leaf(row_hash), -1)
    return {leaf: total for leaf, total in sums.items() if total != (0, 0, 0)}
