"""The ids by which an engine names a table's storage, as one text; TRUNCATE gives a table new ones, and so does a rebuild."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

_IDS: Final = "ids:"
_LONGEST: Final = 1_000
_RANGE: Final = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
# a table has 8,192 partitions at most
_MOST_IDS: Final = 100_000


def table_id(ids: Iterable[int]) -> str:
    """The ids of a table, one for each partition, as text: 7, 8 and 11 are "ids:7-8,11".

    Ids that would take a text longer than a commit should carry are named by their digest, which only shows whether
    they are exactly equal.
    """
    known = sorted(set(ids))
    text = _IDS + ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in _runs(known))
    return text if len(text) <= _LONGEST else _digest(known)


def is_rebuilt(before: str, now: str | None) -> bool:
    """Whether a table whose id was `before` may have lost rows without an event: one of its ids is gone.

    New ids beside the old ones are partitions that were added. An id that is not known, or was not known before (""),
    shows nothing.
    """
    if not before or now is None or before == now:
        return False
    old, new = _ids(before), _ids(now)
    if new is not None and old is not None:
        return not old <= new
    if new is not None:  # `before` is a digest, as all ids were written once
        return _digest(new) != before
    return old is None or _digest(old) != now


def _runs(known: list[int]) -> Iterator[tuple[int, int]]:
    breaks = [0, *(at for at, (one, other) in enumerate(pairwise(known), 1) if other != one + 1), len(known)]
    return ((known[begin], known[end - 1]) for begin, end in pairwise(breaks) if begin < end)


def _ids(text: str) -> set[int] | None:
    """The ids that a text names; None for another text, such as a digest, and for more ids than a table can have."""
    matches = [_RANGE.fullmatch(part) for part in text.removeprefix(_IDS).split(",")]
    if not text.startswith(_IDS) or not all(matches):
        return None
    ranges = [range(int(match[1]), int(match[2] or match[1]) + 1) for match in matches if match]
    return {n for one in ranges for n in one} if sum(map(_size, ranges)) <= _MOST_IDS else None


def _size(numbers: range) -> int:
    """Its length, also where that is no number of the machine's."""
    return max(0, numbers.stop - numbers.start)


def _digest(ids: Iterable[int]) -> str:
    return hashlib.sha256(",".join(sorted(map(str, ids))).encode()).hexdigest()[:16]
