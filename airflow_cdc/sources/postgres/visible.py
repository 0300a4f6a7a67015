"""The transactions that a read view shows: the server's own snapshot, `xmin:xmax:xip,…`, as a value.

A view shows a transaction completely or not at all, and every event names its transaction. So the view decides exactly,
for each change, whether it holds that change. The change's place in the log does not decide this: a transaction can
have changes on both sides of a log position, and commits on one side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Covered, Watermark
from airflow_cdc.sources.postgres.position import postgres_position

# The origin of the numbers that order changes. One name is enough: a pipeline reads one database, and its events do not
# name their server.
ORIGIN: Final = "postgres"
_FORM: Final = re.compile(r"([0-9]{1,20}):([0-9]{1,20}):((?:[0-9]{1,20}(?:,[0-9]{1,20})*)?)")
XIDS: Final = 1 << 32  # events name a transaction by its last 32 bits
_FIRST_XID: Final = 3


@dataclass(frozen=True, slots=True)
class Visible:
    """A snapshot: it shows every transaction before `end` except those in `open`. Numbers have 64 bits."""

    end: int
    open: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Visible:
        """Parse the text of pg_current_snapshot(). Raises PositionError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise PositionError(f"{text!r} is not a snapshot", todo="Expected one like 795:799:795,797.")
        return cls(int(match[2]), tuple(sorted(int(xid) for xid in match[3].split(",") if xid)))

    def spans(self) -> Iterator[tuple[int, int]]:
        """(first, last) of the visible numbers, as events write them, for the 2^31 transactions before `end`."""
        first = max(_FIRST_XID, self.end - XIDS // 2)
        for last in (*(xid - 1 for xid in self.open if xid >= first), self.end - 1):
            if first <= last:
                yield from _low_bits(first, last)
            first = last + 2


def _low_bits(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The span by its last 32 bits: two spans if these bits wrap around in between."""
    low, high = first % XIDS, last % XIDS
    yield from ((low, high),) if low <= high else ((low, XIDS - 1), (_FIRST_XID, high))


def covered(watermark: Watermark | None) -> Covered:
    """The changes whose transactions were visible when W was taken; none if W has no snapshot."""
    shown = "" if watermark is None else postgres_position(watermark.position).snapshot
    return Covered(numbers={ORIGIN: tuple(Visible.parse(shown).spans())}) if shown else Covered()
