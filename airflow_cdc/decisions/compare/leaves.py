"""Leaves of a table: one scan per side gives a count and two sums per leaf; only unequal leaves are examined further.

A leaf's digest is (n, lane1, lane2): the rows in it, and the sum over its rows of the first 64 bits of the row's hash,
as 32-bit digits: lane1 = sum div 2^32, lane2 = sum mod 2^32. Sums, not XOR: XOR of CRCs misses the same change on an
even number of rows.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, SupportsInt, cast

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import Integer
from airflow_cdc.decisions.compare.canonical import parse_key_text

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

LEAF_ROWS = 50_000
LANE = 1 << 32


class Leaf(NamedTuple):
    """The digest of one leaf."""

    n: int
    lane1: int
    lane2: int


@dataclass(frozen=True, slots=True)
class IntegerLeaves:
    """Leaf = column DIV width (towards zero): ranges of an integer key, which both engines sort alike."""

    column: str
    width: int

    def __post_init__(self) -> None:
        if self.width < 2:  # with 1 an unsigned key of 64 bits would not fit a signed number
            raise SchemaError(f"leaves of {self.width} ids", todo="Use a width of at least 2.")


class KeyHash(StrEnum):
    """The 32-bit hash of a key's text, which the source's SQL and Spark's compute alike."""

    CRC32 = "crc32"
    SHA256 = "sha256"  # its first 32 bits; slower, for servers without CRC-32


@dataclass(frozen=True, slots=True)
class HashLeaves:
    """Leaf = hash of the key's text modulo n: for keys that the engines sort differently, and keyless tables."""

    n: int
    by: KeyHash = KeyHash.CRC32

    def __post_init__(self) -> None:
        if self.n < 1:
            raise SchemaError(f"{self.n} leaves", todo="Use at least 1.")


LeafScheme = IntegerLeaves | HashLeaves


def leads_with_integer(table: Table) -> bool:
    """Whether the table can have IntegerLeaves (over the first key column)."""
    return bool(table.key) and isinstance(table.key_columns[0].type, Integer)


def choose_scheme(
    table: Table,
    rows: int,
    bounds: tuple[int, int] | None = None,
    leaf_rows: int = LEAF_ROWS,
    by: KeyHash = KeyHash.CRC32,
) -> LeafScheme:
    """A scheme with about `rows / leaf_rows` leaves, never more, however the ids are spread.

    `by`: the hash that the source can apply to keys.

    `bounds`: the smallest and greatest id of a table with IntegerLeaves (None: hash leaves). Rows beyond them still
    belong to a leaf, so nothing is missed.
    """
    count = max(1, -(-rows // leaf_rows))
    if bounds is None or not leads_with_integer(table):
        return HashLeaves(count, by)
    low, high = bounds
    return IntegerLeaves(table.key[0], max(2, -(-(high - low + 1) // count)))


def scheme_to_json(scheme: LeafScheme) -> dict[str, int | str]:
    """The scheme as plain JSON."""
    if isinstance(scheme, IntegerLeaves):
        return {"column": scheme.column, "width": scheme.width}
    return {"n": scheme.n, "by": str(scheme.by)}


def scheme_from_json(data: Mapping[str, int | str]) -> LeafScheme:
    """The inverse of `scheme_to_json`."""
    if "column" in data:
        return IntegerLeaves(str(data["column"]), int(data["width"]))
    return HashLeaves(int(data["n"]), KeyHash(str(data.get("by", KeyHash.CRC32))))


def leaf_ranges(width: int, leaves: Iterable[int]) -> list[tuple[int, int]]:
    """The id ranges (first, last) of these leaves; adjacent leaves are merged into one range."""
    ranges: list[tuple[int, int]] = []
    for low, high in (leaf_bounds(width, leaf) for leaf in sorted({*leaves})):
        if ranges and ranges[-1][1] + 1 == low:
            ranges[-1] = (ranges[-1][0], high)
        else:
            ranges.append((low, high))
    return ranges


def leaf_bounds(width: int, leaf: int) -> tuple[int, int]:
    """Ids of a leaf: DIV rounds towards zero, so leaf 0 holds the ids on both sides of zero."""
    low, high = leaf * width, leaf * width + width - 1
    if leaf < 0:
        low, high = leaf * width - width + 1, leaf * width
    return (-width + 1 if leaf == 0 else low), high


_NUMBER: Mapping[KeyHash, Callable[[bytes], int]] = {
    KeyHash.CRC32: zlib.crc32,
    KeyHash.SHA256: lambda text: int.from_bytes(hashlib.sha256(text).digest()[:4]),
}


def leaf_of(table: Table, scheme: LeafScheme, key_text: str) -> int:
    """The leaf of a row by its key's text (of a keyless row: its hash), as every engine's SQL computes it."""
    if isinstance(scheme, HashLeaves):
        return _NUMBER[scheme.by](key_text.encode()) % scheme.n
    return leaf_at(scheme.width, int(cast("int", parse_key_text(table, key_text)[0])))


def leaf_at(width: int, number: int) -> int:
    """`number DIV width`, towards zero."""
    return number // width if number >= 0 else -(-number // width)


# --- comparing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeafDiff:
    """Which leaves agree."""

    equal: int
    unequal: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowDiff:
    """Key texts by what is wrong with them, sorted; a keyless row is listed once per missing or surplus copy."""

    missing: tuple[str, ...]
    ghosts: tuple[str, ...]
    different: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(sorted({*self.missing, *self.ghosts, *self.different}))


def read_leaves(rows: Iterable[Sequence[SupportsInt]]) -> dict[int, Leaf]:
    """Rows (leaf, n, lane1, lane2) of either engine, whose drivers give decimals or ints → digests by leaf."""
    return {int(leaf): Leaf(int(n), int(lane1), int(lane2)) for leaf, n, lane1, lane2 in rows}


def merge_leaves(parts: Iterable[Mapping[int, Leaf]]) -> dict[int, Leaf]:
    """Merge the digests of a table's parts (read by several connections) into the table's."""
    merged: dict[int, Leaf] = {}
    for part in parts:
        for leaf, digest in part.items():
            merged[leaf] = add_leaves(merged.get(leaf, Leaf(0, 0, 0)), digest)
    return merged


def leaf_of_hashes(hashes: Sequence[str]) -> Leaf:
    """The digest of a leaf with these rows' hashes."""
    return Leaf(len(hashes), *divmod(sum(int(h[:16], 16) for h in hashes), LANE))


def add_leaves(a: Leaf, b: Leaf, times: int = 1) -> Leaf:
    """`a + times * b` (a negative `times` takes rows out), with the carry between the lanes."""
    total = (a.lane1 + times * b.lane1) * LANE + a.lane2 + times * b.lane2
    return Leaf(a.n + times * b.n, *divmod(total, LANE))


def row_leaf(h: str) -> Leaf:
    """The digest of one row, from its hash."""
    return Leaf(1, int(h[:8], 16), int(h[8:16], 16))


def compare(src: Mapping[int, Leaf], sink: Mapping[int, Leaf]) -> LeafDiff:
    """Leaves that differ, or that only one side has."""
    every = src.keys() | sink.keys()
    unequal = tuple(sorted(leaf for leaf in every if src.get(leaf) != sink.get(leaf)))
    return LeafDiff(len(every) - len(unequal), unequal)


def compare_rows(src: Iterable[tuple[str, str]], sink: Iterable[tuple[str, str]]) -> RowDiff:
    """Compare rows (key_text, h) of a keyed table. A side may have a key twice: rows are counted per key and side."""
    theirs, ours = _by_key(src), _by_key(sink)
    both_sides = theirs.keys() & ours.keys()
    return RowDiff(
        missing=tuple(sorted(k for k, hashes in theirs.items() if len(hashes) > len(ours.get(k, ())))),
        ghosts=tuple(sorted(k for k, hashes in ours.items() if len(hashes) > len(theirs.get(k, ())))),
        different=tuple(
            sorted(k for k in both_sides if len(theirs[k]) == len(ours[k]) and sorted(theirs[k]) != sorted(ours[k]))
        ),
    )


def _by_key(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    hashes: dict[str, list[str]] = {}
    for key, h in rows:
        hashes.setdefault(key, []).append(h)
    return hashes


def compare_multisets(src: Iterable[str], sink: Iterable[str]) -> RowDiff:
    """Compare row hashes of a keyless table: copies that the sink lacks, and surplus copies."""
    theirs, ours = Counter(src), Counter(sink)
    missing, ghosts = theirs - ours, ours - theirs
    return RowDiff(tuple(sorted(missing.elements())), tuple(sorted(ghosts.elements())), ())
