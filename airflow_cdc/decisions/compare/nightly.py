"""Which rows of a table are compared tonight: those touched since the last check, and a share of the rest.

The leaves of a table are divided into SHARES runs. Every night compares the run that has waited longest, and every run
not compared for a week, so the whole table is compared every week even if nights were skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_cdc.decisions.compare.leaves import (
    IntegerLeaves,
    KeyHash,
    LeafScheme,
    choose_scheme,
    scheme_from_json,
    scheme_to_json,
)
from airflow_cdc.decisions.compare.part import WHOLE, Part, leaves_part

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.topics import TopicState

SHARES = 7
# A night that starts a little earlier than the one a week ago must not put its share off to the next night.
DUE = timedelta(days=6, hours=12)
# A table that has grown by this factor since its leaves were cut gets new ones.
GROWN = 2


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of a table keeps for the next night.

    Attributes:
        scheme: how its leaves were cut; `low` and `high` are the first and the last leaf at that time.
        rows: rows of the table at that time.
        shares: share → when it was compared last (ISO time).
        topic_id, ends: events before these ends (partition → offset) have been looked at.
        fingerprint: of the table's definition.
        verdict: of the last check.
        at, run_id: when that was.
    """

    scheme: LeafScheme
    low: int
    high: int
    rows: int
    shares: Mapping[str, str]
    topic_id: str
    ends: Mapping[str, int]
    fingerprint: str
    verdict: str
    at: str
    run_id: str

    def to_json(self) -> dict[str, object]:
        """Plain JSON, for the control table."""
        values = {name: getattr(self, name) for name in self.__slots__}
        plain = {"scheme": scheme_to_json(self.scheme), "shares": dict(self.shares), "ends": dict(self.ends)}
        return values | plain

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Checked:
        """The inverse of `to_json`."""
        known = {name: value[name] for name in cls.__slots__ if name in value}  # earlier versions kept more
        return cls(**{**known, "scheme": scheme_from_json(value["scheme"])})

    @property
    def leaves(self) -> int:
        """How many leaves there were when they were cut."""
        return self.high - self.low + 1

    def covers(self, topic: TopicState) -> bool:
        """Whether the topic still holds every event since the last check."""
        begins = {str(p): begin for p, (begin, _) in topic.partitions.items()}
        same = topic.id == self.topic_id and begins.keys() == self.ends.keys()
        return same and all(begins[p] <= end <= topic.partitions[int(p)][1] for p, end in self.ends.items())

    def has_no_event_since(self, topic: TopicState) -> bool:
        """Whether the topic ends where it did at the last check."""
        return self.covers(topic) and all(end == self.ends[str(p)] for p, (_, end) in topic.partitions.items())

    def share_of(self, leaf: int) -> int:
        """The share that a leaf belongs to; leaves beyond the ends belong to the first or the last share."""
        return min(max((leaf - self.low) * SHARES // self.leaves, 0), SHARES - 1)

    def due(self, now: datetime) -> tuple[int, ...]:
        """The shares to compare tonight."""
        seen = {share: self.shares.get(str(share), "") for share in range(SHARES)}
        oldest = min(seen, key=lambda share: (seen[share], share))
        late = {share for share, when in seen.items() if not when or now - datetime.fromisoformat(when) >= DUE}
        return tuple(sorted(late | {oldest}))


@dataclass(frozen=True, slots=True)
class NightPlan:
    """What is compared: `part`, which covers `shares`; `why` gives the reason in words."""

    part: Part
    shares: tuple[int, ...]
    why: str

    @property
    def whole(self) -> bool:
        """Whether it is all of the table."""
        return self.part.whole


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a table before it is compared.

    Attributes:
        touched: leaves with an event since the last check; None where the topic cannot show that.
        odd: why the whole table must be compared whatever the topic shows; "" if there is no such reason.
        rows: about how many rows it has.
    """

    touched: frozenset[int] | None = None
    odd: str = ""
    rows: int = 0


WHOLE_NIGHT = tuple(range(SHARES))


def plan_night(table: Table, known: Checked | None, seen: Seen, now: datetime) -> NightPlan:
    """Decide what of `table` is compared tonight."""
    if known is None:
        return NightPlan(WHOLE, WHOLE_NIGHT, "it was never compared before")
    if why := _why_whole(table, known, seen):
        return NightPlan(WHOLE, WHOLE_NIGHT, why)
    shares, touched = known.due(now), seen.touched or frozenset()
    leaves = {leaf for leaf in range(known.low, known.high + 1) if known.share_of(leaf) in shares} | touched
    below = known.low if 0 in shares else None
    above = known.high if SHARES - 1 in shares else None
    part = leaves_part(known.scheme, leaves, below=below, above=above)
    return NightPlan(
        part, shares, f"{len(touched)} touched leaves, and share {', '.join(str(s + 1) for s in shares)} of {SHARES}"
    )


def _why_whole(table: Table, known: Checked, seen: Seen) -> str:
    reasons = (
        (bool(seen.odd), seen.odd),
        (table.keyless, "it has no key"),
        (known.fingerprint != table.fingerprint, "its definition has changed"),
        (known.verdict != "MATCH", f"its last check was {known.verdict}"),
        (seen.touched is None, "its topic cannot say what was touched"),
        (known.leaves < SHARES, "it is small"),
        (seen.rows > GROWN * known.rows, "it has grown"),
    )
    return next((why for holds, why in reasons if holds), "")


def first_check(
    table: Table, rows: int, bounds: tuple[int, int] | None, leaf_rows: int, by: KeyHash = KeyHash.CRC32
) -> tuple[LeafScheme, int, int]:
    """The leaves a table gets after it was compared whole: scheme, first and last leaf."""
    scheme = choose_scheme(table, rows, bounds, leaf_rows, by)
    if isinstance(scheme, IntegerLeaves):
        low, high = bounds or (0, 0)
        return scheme, _leaf(low, scheme.width), _leaf(high, scheme.width)
    return scheme, 0, scheme.n - 1


def _leaf(number: int, width: int) -> int:
    return number // width if number >= 0 else -(-number // width)
