"""How many rows a recovery takes from the sink, and whether that is allowed. Not to know is no small number (INV 36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_cdc.core.limit import Limit


@dataclass(frozen=True, slots=True)
class Removal:
    """The rows that publishing a verified table would remove.

    Attributes:
        rows: of main now; None: unknown.
        proven: rows of the source, as the verification counted them; None: it did not.
        agreed: how many rows a person approved to remove.
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
        """Why this is more than `limit` and what was agreed to, as one line; "" if it is not."""
        if allows_all(limit):
            return ""
        if self.removed is None:
            return f"it is unknown how many rows of {self.table} would be removed"
        if not limit.exceeded_by(max(0, self.removed - self.agreed), self.rows or 0):
            return ""
        agreed = f"; {self.agreed} were approved" if self.agreed else ""
        return f"{self.removed} of {self.rows} rows of {self.table} would be removed, more than max_deletes {limit}{agreed}"


def allows_all(limit: Limit) -> bool:
    """Whether no number of rows is too many, so that none has to be known."""
    return limit.percent and limit.amount >= 100


def over_limit(limit: Limit, deletes: Mapping[str, int | None], rows: Mapping[str, int | None]) -> str:
    """Why a plan that removes `deletes` (table → rows, None: not known) of `rows` needs a person; "" if it does not."""
    if allows_all(limit):
        return ""
    # without a count of the sink's rows a share of them is not known: then the limit is taken as passed
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
            *([f"It is unknown how many rows it removes of {', '.join(unknown)} is not known."] if unknown else []),
        ]
    )


def refusals(limit: Limit, removals: Iterable[Removal]) -> dict[str, str]:
    """Table → why it must not be published before a person has agreed."""
    reasons = {one.table: one.beyond(limit) for one in removals}
    return {table: why for table, why in reasons.items() if why}
