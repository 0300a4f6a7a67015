"""How many rows a recovery removes from the sink, and whether that is allowed. Unknown does not mean few (INV 36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_cdc.core.amounts import Limit


@dataclass(frozen=True, slots=True)
class Removal:
    """The rows that publishing a verified table would remove.

    Attributes:
        rows: rows in main now; None: unknown.
        proven: rows in the source, as counted by the verification; None: not counted.
        agreed: how many rows a person allowed to be removed.
    """

    table: str
    rows: int | None
    proven: int | None
    agreed: int = 0

    @property
    def removed(self) -> int | None:
        """How many more rows main has than the source; None if either number is unknown."""
        return None if self.rows is None or self.proven is None else max(0, self.rows - self.proven)

    def beyond(self, limit: Limit) -> str:
        """Why this exceeds both `limit` and the number agreed to, as one line; "" if it does not."""
        if allows_all(limit):
            return ""
        if self.removed is None:
            return f"it is unknown how many rows of {self.table} would be removed"
        if not limit.exceeded_by(max(0, self.removed - self.agreed), self.rows or 0):
            return ""
        agreed = f"; {self.agreed} were approved" if self.agreed else ""
        return f"{self.removed} of {self.rows} rows of {self.table} would be removed, more than max_deletes {limit}{agreed}"


def allows_all(limit: Limit) -> bool:
    """Whether the limit allows any number of rows, so that the number need not be known."""
    return limit.percent and limit.amount >= 100


def over_limit(limit: Limit, deletes: Mapping[str, int | None], rows: Mapping[str, int | None]) -> str:
    """Why a plan that removes `deletes` (table → rows, None: unknown) of `rows` needs approval; "" if it does not."""
    if allows_all(limit):
        return ""
    # without a count of the sink's rows their share is unknown, so the limit counts as exceeded
    over = [
        f"{name} ({count} rows)"
        for name, count in deletes.items()
        if count is not None and limit.exceeded_by(count, rows.get(name) or 0)
    ]
    unknown = [name for name, count in deletes.items() if count is None]
    sentences = [f"It removes more than {limit} of {', '.join(over)}."] if over else []
    return " ".join(
        [
            *sentences,
            *([f"It is unknown how many rows it removes of {', '.join(unknown)}."] if unknown else []),
        ]
    )


def refusals(limit: Limit, removals: Iterable[Removal]) -> dict[str, str]:
    """Table → why it must not be published before a person has approved."""
    reasons = {one.table: one.beyond(limit) for one in removals}
    return {table: why for table, why in reasons.items() if why}
