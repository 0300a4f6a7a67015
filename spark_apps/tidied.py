"""The result of maintaining a sink table: counts of files and versions, never of rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True)
class Tidied:
    """How many data files were rewritten, into how many, and how many were skipped because another writer was faster.

    `deletes_rewritten`: files that only list deleted rows. `expired`: versions of the table that were dropped;
    `deleted_files`: files that were deleted with them. `purged`: documents of deleted rows.
    """

    rewritten: int = 0
    written: int = 0
    failed: int = 0
    deletes_rewritten: int = 0
    expired: int = 0
    deleted_files: int = 0
    purged: int = 0

    def __add__(self, other: Tidied) -> Tidied:
        return Tidied(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Tidied)))

    def to_json(self) -> dict[str, int]:
        """Plain JSON."""
        return asdict(self)
