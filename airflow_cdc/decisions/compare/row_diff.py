"""The source's and the sink's row under a key that differs, in readable form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_cdc.names import file_part

# Characters of a value that are kept; whether two values are equal is decided on the whole value.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class RowPair:
    """The source's and the sink's row under `key`; None where a side has no row.

    `kind` is the comparison's result: missing, ghosts or different. Values are texts of at most SHOWN characters, None
    for NULL. `differ` names the columns whose whole values differ. The source was read at `read_at` (UTC), after the
    comparison, so a row that changed in between is shown as it was at `read_at`.
    """

    kind: str
    key: str
    source: Mapping[str, str | None] | None
    sink: Mapping[str, str | None] | None
    differ: tuple[str, ...] = ()
    read_at: str = ""

    @property
    def sample(self) -> str:
        """The key as written in a report's `samples`."""
        return f"{self.kind}: {self.key}"

    @property
    def finding(self) -> str:
        """What is wrong with the row, in a few words. A key may occur more than once in the sink."""
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


_FINDINGS = {
    ("missing", False): "only in the source",
    ("missing", True): "less often in the sink than in the source",
    ("ghosts", False): "only in the sink",
    ("ghosts", True): "more often in the sink than in the source",
}


def rows_file(table: str) -> str:
    """The name, beside a run's report, of the file with a table's row pairs."""
    return f"rows-{file_part(table)}.json"
