"""A statement that changed tables at the source, as a connector reported it. What it does to rows, its source judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from airflow_cdc.core.position import Covered, Place
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.apply.schema_change import SchemaChange


class ReportedTable(Protocol):
    """A table's definition as a connector reports it, which has less detail than the source's own."""

    def columns(self) -> Mapping[str, Column]:
        """The columns by name, as far as they are known. Raises one of MALFORMED for what is no definition."""
        ...

    def differences(self, table: Table) -> tuple[str, ...]:
        """How it differs from `table`, each in words; () if it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Ddl:
    """One statement of the log: the tables it changes as "schema.table", its text, and where in the log it stands.

    Attributes:
        at: a mark of the place, the same for a repeat that a restarted connector sends.
        after: table → its definition after the statement, as the connector reported it.
        origin, place: as those of an event; None: not known.
    """

    tables: frozenset[str]
    statement: str
    at: str = ""
    after: Mapping[str, ReportedTable] = field(default_factory=dict)
    origin: str | None = None
    place: Place | None = None

    @property
    def short(self) -> str:
        """The statement on one line, for a message."""
        text = " ".join(self.statement.split())
        return text if len(text) <= 120 else f"{text[:119]}…"

    def covered(self, covered: Covered) -> bool:
        """Whether rows read at that watermark show what the statement did, for certain."""
        return covered.holds(self.origin, self.place)


# (the definition that the rows were written by or None, the statements since, the definition now) → how a mirror follows
# them; None where the first is not known and the statements are harmless. Raises RereadNeededError for what events do not
# carry, UnreportedChangeError if the statements do not lead to the definition now.
JudgeDdl: TypeAlias = Callable[[Table | None, Sequence[Ddl], Table], SchemaChange | None]
