"""The digest of a large table on several connections to its source, each of which reads a range of the leaves.

One connection is one core of the source: 1.7 µs a row of nine narrow columns, which is hours for a terabyte. The views are
opened one after the other, and so show different moments. Each key is answered by the view that digested its leaf, and what
changed between sink and any of them is judged by the log, as with one view.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from airflow_cdc.decisions.compare.leaves import IntegerLeaves, Leaf, leaf_at, leaf_of, merge_leaves
from airflow_cdc.decisions.compare.part import WHOLE, Part, leaves_part

if TYPE_CHECKING:
    from airflow_cdc.core.position import Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.compare.leaves import LeafScheme
    from airflow_cdc.decisions.compare.verdict import Rows
    from airflow_cdc.spark_apps.ports import SourceView

# What one connection digests in half a second; more than what is compared in memory.
RANGE_ROWS = 300_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ranges:
    """Consecutive leaves of a table from `first` to `last`, cut behind each of `ends`; together they are the whole table."""

    scheme: IntegerLeaves
    first: int
    last: int
    ends: tuple[int, ...]

    @classmethod
    def of(cls, scheme: IntegerLeaves, bounds: tuple[int, int], ranges: int) -> Ranges:
        """At most so many ranges of about as many leaves, for keys between these bounds."""
        first, last = (leaf_at(scheme.width, key) for key in bounds)
        leaves = last - first + 1
        some = min(ranges, leaves)
        return cls(scheme, first, last, tuple(first + leaves * number // some - 1 for number in range(1, some)))

    def number(self, leaf: int) -> int:
        """Which range a leaf is in."""
        return bisect_left(self.ends, leaf)

    def parts(self) -> list[Part]:
        """Each range as a part; the outermost have the rows beyond the bounds, too."""
        begins = (self.first, *(end + 1 for end in self.ends))
        return [self._part(low, high) for low, high in zip(begins, (*self.ends, self.last), strict=True)]

    def _part(self, low: int, high: int) -> Part:
        below, above = low if low == self.first else None, high if high == self.last else None
        return leaves_part(self.scheme, range(low, high + 1), below=below, above=above)


@dataclass(frozen=True, slots=True)
class RangesView:
    """A table as ports.SourceView, in views without an exact position. Until it has `ranges`, the first one answers."""

    table: Table
    views: tuple[SourceView, ...]
    ranges: Ranges | None = None

    def split(self, scheme: LeafScheme, bounds: tuple[int, int] | None) -> RangesView:
        """With a range for each view; unchanged if leaves are no ranges of keys."""
        if bounds is None or not isinstance(scheme, IntegerLeaves):
            return self
        return replace(self, ranges=Ranges.of(scheme, bounds, len(self.views)))

    @property
    def position(self) -> Watermark | None:
        """None: each view shows another moment."""
        return None

    def leaves(self, scheme: LeafScheme, part: Part = WHOLE) -> Mapping[int, Leaf]:
        """See ports.SourceView. With ranges: of the whole table, by the scheme that they are of, in threads."""
        if self.ranges is None:
            return self.views[0].leaves(scheme, part)
        with ThreadPoolExecutor(len(self.views)) as pool:
            return merge_leaves(pool.map(lambda view, part: view.leaves(scheme, part), self.views, self.ranges.parts()))

    def count(self) -> int:
        """See ports.SourceView."""
        return self.views[0].count()

    def bounds(self) -> tuple[int, int] | None:
        """See ports.SourceView."""
        return self.views[0].bounds()

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE) -> list[tuple[str, str]]:
        """See ports.SourceView."""
        by_view = self._by_view(leaves, lambda leaf: leaf)
        return [row for view, some in by_view for row in view.hashes(scheme, some, part)]

    def images(self, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        """See ports.SourceView."""
        ranges, table = self.ranges, self.table
        by_view = self._by_view(keys, lambda key: 0 if ranges is None else leaf_of(table, ranges.scheme, key))
        return {key: rows for view, some in by_view for key, rows in view.images(some, part).items()}

    def _by_view(self, some: Iterable[T], leaf: Callable[[T], int]) -> list[tuple[SourceView, list[T]]]:
        """Which view answers for which of them."""
        lots: list[list[T]] = [[] for _ in self.views]
        for one in some:
            lots[0 if self.ranges is None else self.ranges.number(leaf(one))].append(one)
        return [(view, lot) for view, lot in zip(self.views, lots, strict=True) if lot]
