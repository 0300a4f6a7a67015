"""What a comparison of source and sink means, decided from values alone.

The sink's snapshot S is fixed; it holds the topics up to their fixed ends E. The source is read later and goes on
changing, so a key that differs is judged by the log between the two: the first event of the key after E carries, as
its before image, what the source held at E (worked case: S has v1, the source has v3, the first event after E is
v1→v2: S was right). A key with no event after E did not change, so there a difference is real (INV 24), unless the
change was logged, and thus applied, a moment before the engine showed it: hence a second read (INV 7).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, cast

from airflow_cdc.core.digest import HashLeaves, Leaf, LeafScheme, add_leaves, row_leaf
from airflow_cdc.core.keytext import parse_key_text
from airflow_cdc.core.report import Verdict

if TYPE_CHECKING:
    from airflow_cdc.core.table import TableDef

# A row as both engines write it: its hash, then the canonical text of each column the hash does not hold (JSON).
Image = tuple[str | None, ...]

SAMPLE_KEYS = 20


class KeyVerdict(StrEnum):
    """What became of one key."""

    EQUAL = "equal"
    MISSING = "missing"  # only in the source
    GHOST = "ghost"  # only in the sink
    DIFFERENT = "different"
    UNSETTLED = "unsettled"  # cannot be said yet; read again


class FirstEvent(NamedTuple):
    """The first change of a key after the compared ends; `before` is None when the key was not there."""

    before: Image | None


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """All that is known of one suspect key.

    Attributes:
        sink: the row in the compared snapshot; None if absent.
        reads: the row in the source, one entry per read, oldest first; None if absent.
        event: the first event of the key after the compared ends, if there was one before the last read.
    """

    sink: Image | None
    reads: tuple[Image | None, ...] = ()
    event: FirstEvent | None = None


def compare_images(source: Image | None, sink: Image | None) -> KeyVerdict:
    """Name the difference between two images of one key."""
    if source == sink:
        return KeyVerdict.EQUAL
    if sink is None:
        return KeyVerdict.MISSING
    return KeyVerdict.GHOST if source is None else KeyVerdict.DIFFERENT


def classify_key(evidence: KeyEvidence) -> KeyVerdict:
    """Decide one key. UNSETTLED asks for another read (see the module's text for the rules)."""
    if evidence.event is not None:
        return compare_images(evidence.event.before, evidence.sink)
    if not evidence.reads:
        return KeyVerdict.UNSETTLED
    last = evidence.reads[-1]
    if last == evidence.sink:
        return KeyVerdict.EQUAL
    if len(evidence.reads) > 1 and evidence.reads[-2] == last:
        return compare_images(last, evidence.sink)
    return KeyVerdict.UNSETTLED


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

    `keys` has every key that is not proven equal, by its verdict: what a repair reads again.
    """

    missing: int = 0
    ghosts: int = 0
    different: int = 0
    unsettled: int = 0
    equal: int = 0
    samples: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, KeyVerdict] = field(default_factory=dict)

    def add(self, verdict: KeyVerdict, key: str, rows: int = 1) -> None:
        """Count `rows` rows of `key`."""
        name = _TALLY[verdict]
        setattr(self, name, getattr(self, name) + rows)
        kept = self.samples.setdefault(name, [])
        if verdict is KeyVerdict.EQUAL:
            return
        self.keys[key] = verdict
        if len(kept) < SAMPLE_KEYS:
            kept.append(key)

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


def table_verdict(tally: Tally, doubts: Sequence[str] = ()) -> Verdict:
    """MISMATCH for a proven difference; INCONCLUSIVE for an unsettled key or a doubt; else MATCH.

    A doubt is anything that keeps equality from being proven for the whole table, such as unresolved dead letters.
    """
    if tally.wrong:
        return Verdict.MISMATCH
    return Verdict.INCONCLUSIVE if tally.unsettled or doubts else Verdict.MATCH


def leaf_of(table: TableDef, scheme: LeafScheme, key_text: str) -> int:
    """The leaf of a row by its key's text (of a keyless row: its hash), as the SQL of both engines computes it."""
    if isinstance(scheme, HashLeaves):
        return zlib.crc32(key_text.encode()) % scheme.n
    first = int(cast("int", parse_key_text(table, key_text)[0]))
    return first // scheme.width if first >= 0 else -(-first // scheme.width)


def without(leaves: Mapping[int, Leaf], rows: Iterable[tuple[int, str]]) -> dict[int, Leaf]:
    """Take rows (leaf, hash) out of leaf digests; a leaf left without anything disappears.

    Keys in flight are taken out of both sides, so that what is left must be equal however busy the table is.
    """
    sums = dict(leaves)
    for leaf, row_hash in rows:
        sums[leaf] = add_leaves(sums.get(leaf, Leaf(0, 0, 0)), row_leaf(row_hash), -1)
    return {leaf: total for leaf, total in sums.items() if total != (0, 0, 0)}
