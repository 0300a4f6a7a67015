"""Stages: a Hudi table at a path of its own, or the table itself for changes."""

from __future__ import annotations

from dataclasses import dataclass

STAGES = "_cdc/stages"


@dataclass(frozen=True, slots=True)
class Stage:
    """One writer's place for rows of one table.

    Attributes:
        base_head: the table's version that it began from; 0: the table had no commit.
        in_place: it is the table itself. A batch is one commit there, which carries its stamp.
    """

    namespace: str
    table: str
    label: str
    base_head: int
    in_place: bool = False

    @property
    def target(self) -> str:
        """The table as named in messages."""
        return f"{self.namespace}.{self.table}"

    @property
    def identifier(self) -> tuple[str, str]:
        """The stage's own folder, as the folder above it and its name."""
        if self.in_place:
            return self.namespace, self.table
        return f"{STAGES}/{self.namespace}/{self.table}", self.label


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publish. `already`: the table held the stage's rows before (a rerun after a lost answer)."""

    target: str
    version: int
    already: bool
