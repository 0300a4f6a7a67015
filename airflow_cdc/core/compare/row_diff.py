"""Both rows under a key that differs, as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Characters of a value that are kept; whether two values are alike is decided over all of them.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class RowPair:
    """The row of the source and that of the sink under `key`; None where a side has none.

    `kind` is missing, ghosts or different, as the comparison said. Values are texts, at most SHOWN characters long, None for
    NULL. `differ` names the columns whose whole values differ. The source was read at `read_at` (UTC), after the comparison,
    so a row that was changed since is shown as it is then.
    """

    kind: str
    key: str
    source: Mapping[str, str | None] | None
    sink: Mapping[str, str | None] | None
    differ: tuple[str, ...] = ()
    read_at: str = ""

    @property
    def sample(self) -> str:
        """The key as a report's `samples` name it."""
        return f"{self.kind}: {self.key}"

    @property
    def finding(self) -> str:
        """What is wrong with the row, in a few words. A key may be in the sink more often than once."""
        if self.kind == "different":
            return (
                f"differs in {', '.join(self.differ)}" if self.differ else "differed, and is equal in the source by now"
            )
        both = self.source is not None and self.sink is not None
        return _FINDINGS[self.kind, both]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in the table's order, those that differ first."""
        names = tuple(self.source or self.sink or {})
        return (*self.differ, *(name for name in names if name not in self.differ))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self) | {"differ": list(self.differ)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowPair:
        """The inverse of to_json()."""
        return cls(**{**value, "differ": tuple(value["differ"])})


_FINDINGS = {
    ("missing", False): "only in the source",
    ("missing", True): "less often in the sink than in the source",
    ("ghosts", False): "only in the sink",
    ("ghosts", True): "more often in the sink than in the source",
}


def rows_file(table: str) -> str:
    """The name, beside a run's report, of the file with a table's row pairs."""
    return f"rows-{table}.json"
