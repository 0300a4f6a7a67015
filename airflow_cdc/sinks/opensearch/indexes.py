"""The names of the alias that readers use and of the indexes behind it, and an index as a stage.

A stage is a new index behind the table's alias, or the table's own index for changes that carry versions.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

# every index of ours; also the pattern that a role must allow
PREFIX: Final = "cdc-"
RECORDS: Final = "cdc_records"
CONTROL: Final = "cdc_control"
LETTERS: Final = "cdc_dead_letters"
FIRST: Final = "first"
STAGE_NAMESPACE: Final = "cdc_stage"
_MOST: Final = 80


def alias_of(namespace: str, table: str) -> str:
    """The alias of a table."""
    return f"{namespace}.{table}"


def index_of(namespace: str, table: str, label: str) -> str:
    """The index of one try of a table. A name of an index is lower case, so a hash tells tables apart."""
    return f"{prefix_of(namespace, table)}{label}"


def prefix_of(namespace: str, table: str) -> str:
    """What the names of all indexes of a table begin with."""
    alias = alias_of(namespace, table)
    slug = re.sub(r"[^a-z0-9_]", "_", alias.lower())[:_MOST]
    return f"{PREFIX}{slug}-{hashlib.sha256(alias.encode()).hexdigest()[:8]}-"


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
