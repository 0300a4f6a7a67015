"""Stages: a new index behind the table's alias, or the table's own index for changes that carry versions."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_cdc.sinks.opensearch.names import STAGE_NAMESPACE, alias_of


@dataclass(frozen=True, slots=True)
class Stage:
    """One writer's place for documents of one table.

    Attributes:
        index: where it writes.
        base_head: the table's version that it began from.
        in_place: `index` is the table's own: readers see a change at once, and its version keeps it from being undone.
    """

    namespace: str
    table: str
    label: str
    index: str
    base_head: int
    in_place: bool = False

    @property
    def target(self) -> str:
        """The table's alias."""
        return alias_of(self.namespace, self.table)

    @property
    def identifier(self) -> tuple[str, str]:
        """The stage's own place in the sink."""
        return (self.namespace, self.table) if self.in_place else (STAGE_NAMESPACE, self.index)


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publish. `already` is True if the alias led to the index before (a rerun after a lost answer)."""

    target: str
    version: int
    already: bool
