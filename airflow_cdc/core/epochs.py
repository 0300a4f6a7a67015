"""The epoch that each table's stamp must have. It belongs to the table: recovering one leaves the others alone (INV 39).

An epoch rises where a table's old stamp is no start any more: the tables that a recovery reads, and all of them if the
recovery moves the connector's offset, because the changes that are jumped over are of all tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

# What is asked of a table that has no epoch of its own.
EVERY: Final = "*"

# Diagnoses by which the connector's position is good: what is wrong is wrong with single tables or their topics, so a
# recovery reads those and leaves the offset alone. Any other recovery moves it.
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
    """`newest`: the pipeline's, which every recovery raises; `tables`: table (or EVERY) → its own.

    A document from before tables had epochs of their own asks the newest of each.
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
