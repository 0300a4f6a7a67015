"""The place of a change in its source's log, and which changes are at or before a watermark. Pure values.

Only the source knows what its positions mean: it says once, as `Covered`, which changes a watermark covers. Everything
that asks it of an event compares these values and knows no log format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# (n, pos, row) within an origin: the number of the transaction or of the log file, the place, the row of the event.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Covered:
    """Which changes are at or before a watermark for certain, so that rows read at it include them. By default none.

    Attributes:
        numbers: origin → spans (first, last) of `n`; all changes with such a number are covered, whatever clocks say.
        below: origin → the first (n, pos) that is not covered. A log that was reset begins anew, and has such a place
            once more: `taken_ms` tells.
        taken_ms: when the watermark was taken, in milliseconds since 1970.
    """

    numbers: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    taken_ms: int = 0

    def holds(self, origin: str | None, place: Place | None) -> bool:
        """Whether the change there is covered; one that names no place never is."""
        if origin is None or place is None:
            return False
        if any(first <= place[0] <= last for first, last in self.numbers.get(origin, ())):
            return True
        return origin in self.below and place[:2] < self.below[origin]


NOTHING = Covered()
