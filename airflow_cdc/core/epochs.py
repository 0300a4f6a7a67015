"""The epoch that each table's stamp must have. It belongs to the table: recovering one leaves the others alone (INV 39).

The epoch rises for tables whose old stamp can no longer be started from: those that a recovery reads, or all tables if
the recovery moves the connector's offset, because it then skips changes of all tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# The epoch required of tables without an epoch of their own.
EVERY: Final = "*"

# Diagnoses under which the connector's position is good and only single tables or their topics are wrong. A recovery
# then reads those tables and leaves the offset alone. Any other recovery moves it.
SOUND_POSITION: Final = frozenset(
    {
        "HEALTHY",
        "TABLE_ADDED",
        "TABLE_NEEDS_REREAD",
        "EPOCH_BEHIND",
        "STAMP_LOST",
        "TRANSPORT_GAP",
        "TRANSPORT_REPLACED",
        "LOG_INCOMPLETE",
    }
)


@dataclass(frozen=True, slots=True)
class Epochs:
    """`newest`: the pipeline's epoch, which every recovery raises; `tables`: table (or EVERY) → its own epoch.

    In a document older than epochs per table, every table needs the newest epoch.
    """

    newest: int
    tables: Mapping[str, int] = field(default_factory=dict)

    def of(self, table: str) -> int:
        """The epoch that the table's stamp must have."""
        return self.tables.get(table, self.tables.get(EVERY, self.newest))

    def raised(self, epoch: int, tables: Iterable[str] | None) -> Epochs:
        """These epochs with `epoch` required of the given tables; of all tables for None."""
        if tables is None:
            return Epochs(epoch, {EVERY: epoch})
        return Epochs(
            epoch, {EVERY: self.tables.get(EVERY, self.newest), **self.tables, **dict.fromkeys(tables, epoch)}
        )
