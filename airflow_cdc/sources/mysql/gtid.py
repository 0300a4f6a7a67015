"""MySQL GTID sets: parse, print, algebra. Tagged GTIDs (MySQL 8.3 and later) included.

A set is a mapping (server uuid, tag) → merged, sorted, inclusive intervals. `uuid:1-6:backup:1-3`
holds transactions 1 to 6 without a tag and 1 to 3 with the tag "backup", of one server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from airflow_cdc.core.errors import PositionError

Interval: TypeAlias = tuple[int, int]
Intervals: TypeAlias = tuple[Interval, ...]
Source: TypeAlias = tuple[str, str]

_UUID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
# no number of MySQL's has more than 19 digits, and Python reads none of more than 4,300
_INTERVAL = re.compile(r"([0-9]{1,25})(?:-([0-9]{1,25}))?")
_MAX_GNO = 2**63 - 2


@dataclass(frozen=True, slots=True)
class GtidSet:
    """An immutable GTID set. `items` holds (uuid, tag, intervals), normalised on construction."""

    items: tuple[tuple[str, str, Intervals], ...] = ()

    def __post_init__(self) -> None:
        merged: dict[Source, list[Interval]] = {}
        for uuid, tag, intervals in self.items:
            merged.setdefault((_uuid(uuid), _tag(tag)), []).extend(intervals)
        object.__setattr__(self, "items", _sorted_items({k: _merge(v) for k, v in merged.items()}))

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Read MySQL's text form: case, white space and newlines do not matter, "" is the empty set.

        Raises PositionError naming the part that is not a GTID.
        """
        compact = "".join(text.split()).lower()
        return cls(tuple(item for part in compact.split(",") if part for item in _parse_part(part)))

    def __str__(self) -> str:
        parts: dict[str, list[str]] = {}
        for uuid, tag, intervals in self.items:
            texts = parts.setdefault(uuid, [uuid])
            texts += [tag] if tag else []
            texts += [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in intervals]
        return ",".join(":".join(texts) for texts in parts.values())

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def is_empty(self) -> bool:
        """True when the set holds no transaction."""
        return not self.items

    @property
    def count(self) -> int:
        """Number of transactions in the set."""
        return sum(hi - lo + 1 for _, _, intervals in self.items for lo, hi in intervals)

    @property
    def uuids(self) -> tuple[str, ...]:
        """The servers (uuids) the transactions came from, sorted."""
        return tuple(dict.fromkeys(uuid for uuid, _, _ in self.items))

    def issubset(self, other: GtidSet) -> bool:
        """True when every transaction of this set is in `other` (MySQL's GTID_SUBSET)."""
        return (self - other).is_empty

    def isdisjoint(self, other: GtidSet) -> bool:
        """True when no transaction is in both sets."""
        return (self & other).is_empty

    def contains(self, uuid: str, number: int, tag: str = "") -> bool:
        """True when transaction `number` of `uuid` (and `tag`) is in the set."""
        intervals = self._by_source().get((_uuid(uuid), _tag(tag)), ())
        return any(lo <= number <= hi for lo, hi in intervals)

    def __or__(self, other: GtidSet) -> GtidSet:
        return GtidSet(self.items + other.items)

    def __sub__(self, other: GtidSet) -> GtidSet:
        theirs = other._by_source()
        return GtidSet(tuple((u, t, tuple(_subtract(mine, theirs.get((u, t), ())))) for u, t, mine in self.items))

    def __and__(self, other: GtidSet) -> GtidSet:
        return self - (self - other)

    def _by_source(self) -> dict[Source, Intervals]:
        return {(uuid, tag): intervals for uuid, tag, intervals in self.items}


def _sorted_items(merged: Mapping[Source, Intervals]) -> tuple[tuple[str, str, Intervals], ...]:
    return tuple((uuid, tag, iv) for (uuid, tag), iv in sorted(merged.items()) if iv)


def _merge(intervals: Iterable[Interval]) -> Intervals:
    merged: list[Interval] = []
    for lo, hi in sorted(map(_interval, intervals)):
        if merged and lo <= merged[-1][1] + 1:  # 1-3 and 4-6 touch: they print as 1-6
            merged[-1] = (merged[-1][0], max(merged[-1][1], hi))
        else:
            merged.append((lo, hi))
    return tuple(merged)


def _subtract(mine: Intervals, theirs: Intervals) -> Iterator[Interval]:
    """`mine` minus `theirs`, both sorted and merged; each is read once. 1-10 minus 3-4,8-20 leaves 1-2,5-7."""
    at = 0
    for start, end in mine:
        lo = start
        while at < len(theirs) and theirs[at][1] < lo:
            at += 1
        while at < len(theirs) and theirs[at][0] <= end:
            cut_lo, cut_hi = theirs[at]
            if lo < cut_lo:
                yield (lo, cut_lo - 1)
            lo = cut_hi + 1
            if cut_hi > end:
                break  # this interval of theirs reaches into my next one
            at += 1
        if lo <= end:
            yield (lo, end)


def _parse_part(part: str) -> Iterator[tuple[str, str, Intervals]]:
    """One comma-separated part: `uuid:1-6:tag:1-3:7`. A tag applies until the next one."""
    head, *rest = part.split(":")
    uuid, tag, intervals = _uuid(head), "", 0
    for piece in rest:
        match = _INTERVAL.fullmatch(piece)
        if match:
            yield (uuid, tag, ((int(match[1]), int(match[2] or match[1])),))
            intervals += 1
        elif _TAG.fullmatch(piece):
            tag, intervals = piece, 0
        else:
            raise _bad(part, f"{piece!r} is neither an interval nor a tag")
    if not intervals:
        raise _bad(part, "an interval is missing")


def _uuid(text: str) -> str:
    lowered = text.strip().lower()
    if not _UUID.fullmatch(lowered):
        raise _bad(text, "not a server uuid")
    h = lowered.replace("-", "")
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def _tag(text: str) -> str:
    lowered = text.strip().lower()
    if lowered and not _TAG.fullmatch(lowered):
        raise _bad(text, "not a GTID tag")
    return lowered


def _interval(interval: Interval) -> Interval:
    lo, hi = interval
    if not 1 <= lo <= hi <= _MAX_GNO:
        raise _bad(f"{lo}-{hi}", "an interval must rise and start at 1 or later")
    return lo, hi


def _bad(text: str, why: str) -> PositionError:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    return PositionError(
        f"GTID set cannot be read at {shown!r}: {why}",
        todo="Expected uuid:1-6[:tag:1-3][,uuid:1-2].",
    )
