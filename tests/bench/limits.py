"""Goals that are not reached: the decision that shows why by measurement, and the ratio that was reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Limit:
    """Rows whose names have `words` in this order reach `ratio`, not their goal, for the reasons in `decision`."""

    words: tuple[str, ...]
    ratio: float
    decision: str


# a quarter more than was reached is the machine's
NOISE = 1.25
LIMITS: tuple[Limit, ...] = ()


def limit_of(row: Mapping[str, Any], limits: tuple[Limit, ...] = LIMITS) -> Limit | None:
    """The limit that explains a row whose goal is not held; None if it is worse than that, or unknown."""
    for limit in limits:
        if _named(str(row.get("name", "")), limit.words) and float(row.get("ratio", "inf")) <= limit.ratio * NOISE:
            return limit
    return None


def _named(name: str, words: tuple[str, ...]) -> bool:
    at = 0
    for word in words:
        at = name.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True
