"""What a repair of a table would do, decided from the result of a comparison. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.decisions.compare.canonical import parse_key_text
from airflow_cdc.decisions.compare.chunk import key_to_json
from airflow_cdc.decisions.compare.verdict import KeyVerdict, Tally

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline, Policy
    from airflow_cdc.core.table import Table

AUTOMATIC = "automatic"
NEVER = "never"
SHOWN_KEYS = 20


class Deletions(NamedTuple):
    """How many of a table's rows in the sink a repair deletes."""

    deletes: int
    rows: int


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The rows of one table to read again, by key text (in a table without a key: by row hash).

    Attributes:
        missing: only in the source; different: in both; unsettled: not proven equal. All are read and written.
        ghosts: only in the sink: deleted. `deletes` counts their rows, which may be several under one key.
        rows: rows in the sink.
        replaces: the table has no key, so it is read again as a whole and replaced in one commit.
        left_out: how many more keys differ than can be held in memory; such a table is recovered, not repaired.
    """

    table: str
    missing: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    ghosts: tuple[str, ...] = ()
    deletes: int = 0
    rows: int = 0
    replaces: bool = False
    left_out: int = 0

    @classmethod
    def of(cls, table: Table, tally: Tally, rows: int) -> RepairPlan:
        """The plan that follows from a comparison; `rows` is the sink's row count."""

        def having(verdict: KeyVerdict) -> tuple[str, ...]:
            return tuple(sorted(key for key, found in tally.keys.items() if found is verdict))

        return cls(
            table.full_name,
            having(KeyVerdict.MISSING),
            having(KeyVerdict.DIFFERENT),
            having(KeyVerdict.UNSETTLED),
            having(KeyVerdict.GHOST),
            tally.ghosts,
            rows,
            table.keyless,
            0 if table.keyless else tally.left_out,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys to read again."""
        return (*self.missing, *self.different, *self.unsettled, *self.ghosts)

    @property
    def deletions(self) -> Deletions:
        """The rows it deletes from the sink."""
        return Deletions(self.deletes, self.rows)

    @property
    def writes(self) -> int:
        """How many rows it writes, as far as known before they are read."""
        return len(self.missing) + len(self.different)

    @property
    def shown(self) -> list[str]:
        """The first keys, each with what is wrong with it, for display."""
        return [f"{kind}: {key}" for kind, key in self._each()][:SHOWN_KEYS]

    def to_json(self) -> dict[str, object]:
        """Plain JSON of a bounded size, for XCom and questions: counts, and the first keys."""
        return {
            "table": self.table,
            "writes": self.writes,
            "deletes": self.deletes,
            "rows": self.rows,
            "replaces": self.replaces,
            "first": self.shown,
        }

    def _each(self) -> list[tuple[str, str]]:
        kinds = ("missing", "different", "ghosts", "unsettled")
        return [(kind, key) for kind in kinds for key in getattr(self, kind)]

    def actions_to_json(self, table: Table) -> list[dict[str, object]]:
        """Every key with what is done to it: `{"action": "write" | "delete", "why", "key": [values]}`."""
        return [
            {"action": "delete" if kind == "ghosts" else "write", "why": kind, "key": key_values(table, key)}
            for kind, key in self._each()
        ]


def check_repaired(pipeline: Pipeline, *, dry: bool) -> None:
    """Raise UsageError unless its tables can be repaired, or compared if that is all that is asked for (`dry`)."""
    if pipeline.corrected is Corrected.THROUGH_TOPICS or (dry and pipeline.corrected is Corrected.BEFORE_START):
        pipeline.check_sink("a repair")
    else:
        pipeline.check_applied("a repair")


def key_values(table: Table, key: str) -> list[object]:
    """A key's values as plain JSON; the row's hash where the table has no key."""
    return [key] if table.keyless else list(key_to_json(parse_key_text(table, key)) or ())


def needs_approval(policy: Policy, deletions: Sequence[Deletions]) -> bool:
    """Whether a person is asked about repairs: always with `approved`, else only if a repair deletes too much.

    `approval: never` never asks; a repair that deletes too much is then refused when it runs.
    """
    if not deletions or policy.approval == NEVER:
        return False
    many = any(policy.max_deletes.exceeded_by(one.deletes, one.rows) for one in deletions)
    return policy.repair != AUTOMATIC or many


def refusal(policy: Policy, plan: RepairPlan, approved: Mapping[str, int]) -> str:
    """Why the plan must not be carried out, or "". `approved`: table → number of deletes a person has agreed to."""
    if plan.left_out:
        return f"{len(plan.keys) + plan.left_out} of its rows differ, too many to be repaired one by one: recover the table"
    if not policy.max_deletes.exceeded_by(plan.deletes, plan.rows) or plan.deletes <= approved.get(plan.table, 0):
        return ""
    agreed = f", of which {approved[plan.table]} were approved" if plan.table in approved else ""
    return f"it would delete {plan.deletes} of {plan.rows} rows, more than max_deletes {policy.max_deletes}{agreed}"
