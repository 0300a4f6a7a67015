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
_PAGE = "ADR 0023"
LIMITS = (
    Limit(("snapshot of", "narrow rows"), 3.0, _PAGE),
    Limit(("snapshot of", "wide rows"), 1.75, _PAGE),
    Limit(("verify of", "rows against"), 2.7, _PAGE),
    Limit(("diff_repair of", "narrow rows"), 1.5, _PAGE),
    Limit(("diff_repair of", "wide rows"), 1.5, _PAGE),
    Limit(("processor time of decoding",), 2.2, _PAGE),
    Limit(("recover and verify of 5 tables",), 1.9, _PAGE),
    Limit(("apply to 5 tables",), 1.1, _PAGE),
    Limit(("further table",), 0.2, _PAGE),
    Limit(("tables of 1,000 rows against one",), 6.5, _PAGE),
    Limit(("a recovery of 200,000 rows through the DAG",), 6.4, _PAGE),
    Limit(("a recovery of 2,000,000 rows through the DAG",), 1.45, _PAGE),
    Limit(("a recovery of 10,000,000 rows through the DAG",), 0.344, _PAGE),
)


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
