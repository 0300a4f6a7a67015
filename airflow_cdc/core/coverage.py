"""The place of a change in its source's log, and which changes are at or before a watermark. Pure values.

Only the source knows what its positions mean. It describes once, as `Covered`, which changes a watermark covers; code
that asks whether an event is covered compares these values and needs to know no log format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# (n, pos, row) within an origin: the number of the transaction or of the log file, the place, the row of the event.
Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Covered:
    """Which changes are certainly at or before a watermark, so that rows read at it include them. By default none.

    Attributes:
        numbers: origin → spans (first, last) of `n`; all changes with such a number are covered, whatever clocks say.
        below: origin → the first (n, pos) that is not covered. A log that was reset reaches these places a second
            time; `taken_ms` tells the two apart.
        taken_ms: when the watermark was taken, in milliseconds since 1970.
    """

    numbers: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    below: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    taken_ms: int = 0

    def holds(self, origin: str | None, place: Place | None) -> bool:
        """Whether the change at `place` is covered; False without a place."""
        if origin is None or place is None:
            return False
        if any(first <= place[0] <= last for first, last in self.numbers.get(origin, ())):
            return True
        return origin in self.below and place[:2] < self.below[origin]


NOTHING = Covered()
