"""The report of a run: what was wrong, what was done, and the proof, table by table.

Their fields, in this order, are the keys of report.json: a contract that checks and pages rely on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_cdc.core.codec import read, sparse
from airflow_cdc.core.errors import VerificationError


class Verdict(StrEnum):
    """The result of a comparison of source and sink."""

    MATCH = "MATCH"
    MISMATCH = "MISMATCH"
    INCONCLUSIVE = "INCONCLUSIVE"


# for a run whose diagnosis failed or was UNKNOWN: nobody knows what is lost
UNKNOWN_LOSS = "unknown: no conclusion was possible"
_COUNTS = ("source_rows", "sink_rows", "missing", "ghosts", "different", "leaves", "leaves_rechecked")
_NOTHING_SAID = {**dict.fromkeys(_COUNTS, 0), "columns_not_compared": [], "verdict": "INCONCLUSIVE"}
# what is in a table's JSON only if it is known
IF_KNOWN = frozenset({"samples", "leaf_map", "part", "verified_through", "caught_up"})
_BAD_TO_GOOD = (Verdict.MISMATCH, Verdict.INCONCLUSIVE, Verdict.MATCH)
_EXIT = {Verdict.MATCH: 0, Verdict.MISMATCH: 1, Verdict.INCONCLUSIVE: 3}


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of `verdicts`; INCONCLUSIVE when nothing was compared."""
    distinct = set(verdicts)
    return next((verdict for verdict in _BAD_TO_GOOD if verdict in distinct), Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A column that was left out of the comparison, and why."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class ComparedAt:
    """The sink snapshot and the source position at which a table was compared."""

    snapshot_id: int | None
    position: str


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The copy of main, with `rows`, that was compared: with the `events` applied that main still lacks, the first of `since`.

    No events: only its columns change. `since`: the source's time (ISO); "" if unknown.
    """

    rows: int
    events: int
    since: str = ""

    def __str__(self) -> str:
        lacks = f"events that main lacks: {self.events:,}" if self.events else "main lacks a change of its columns"
        return f"{lacks}{f', from {self.since} on' if self.since else ''}; with that it has {self.rows:,} rows"


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table compared. `missing`: keys only in the source; `ghosts`: keys only in the sink.

    `sink_rows` and the snapshot are main's; keys are of what was compared: `caught_up`, where main lacks events.
    `samples` names some of the keys that differ. `leaf_map` has one letter per leaf, in their order: `=` equal at once,
    `~` unequal at first, so compared key by key. `part` names the part of the table that was compared, "" for all of it;
    the row counts are always those of the whole table. `verified_through`: the source's time up to which main itself is
    proven equal (ISO). Those of IF_KNOWN are in the JSON only if they are known. Raises VerificationError when the verdict
    contradicts the counts, or says MISMATCH without a reason (INV 34).
    """

    table: str
    source_rows: int
    sink_rows: int
    missing: int
    ghosts: int
    different: int
    leaves: int
    leaves_rechecked: int
    columns_not_compared: tuple[NotCompared, ...]
    compared_at: ComparedAt
    verdict: Verdict
    samples: tuple[str, ...] = ()
    leaf_map: str = ""
    part: str = ""
    verified_through: str = ""
    caught_up: CaughtUp | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns_not_compared", tuple(self.columns_not_compared))
        object.__setattr__(self, "samples", tuple(self.samples))
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        if self.verdict is Verdict.MATCH and self.unequal_rows:
            raise VerificationError(f"MATCH was reported with {self.unequal_rows} unequal rows", where=self.table)
        rows = self.caught_up.rows if self.caught_up else self.sink_rows
        if self.verdict is Verdict.MATCH and not self.part and self.source_rows != rows:
            counts = f"{self.source_rows} rows in the source and {rows} in the sink"
            raise VerificationError(f"MATCH was reported with {counts}", where=self.table)
        if self.verdict is Verdict.MISMATCH and not self.unequal_rows and not self.samples:
            raise VerificationError("MISMATCH was reported without a reason", where=self.table)

    @property
    def unequal_rows(self) -> int:
        """Rows that are missing, ghosts or different."""
        return self.missing + self.ghosts + self.different

    @classmethod
    def verified_from_json(cls, table: str, value: Mapping[str, Any]) -> TableReport:
        """Read the verification's result for a table, with the contract's keys and others; absent counts are 0."""
        at = {"snapshot_id": value.get("snapshot_id"), "position": "", **(value.get("compared_at") or {})}
        counts = {**_NOTHING_SAID, **{name: one for name, one in value.items() if one is not None}}
        return read(cls, {**counts, "table": table, "compared_at": at}, more=True)


@dataclass(frozen=True, slots=True)
class StepPart:
    """Something that a step did or waited for: `after` seconds from the step's beginning (negative: before it)."""

    name: str
    after: float
    seconds: float


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of the run: its name, how many seconds it took, how it ended, and when it began (ISO; "": not known).

    `parts`: what took long in it, and in its process before it began, by their beginning. Seconds to the millisecond.
    """

    name: str
    seconds: float
    state: str
    started: str = ""
    parts: tuple[StepPart, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", round(self.seconds, 3))


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """A run's diagnosis and plan. `data_loss`: what the plan loses. Without a plan the loss is unknown, not none."""

    problem: str = "UNKNOWN"
    evidence: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "none"
    data_loss: str = UNKNOWN_LOSS
    reason: str | None = None
    note: str | None = None
    others: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DecisionReport:
        """Read the result of the step `diagnose`; {} if it failed."""
        diagnosis, plan = value.get("diagnosis") or {}, value.get("plan") or {}
        problem = diagnosis.get("code") or "UNKNOWN"
        loss = plan.get("data_loss") if problem != "UNKNOWN" else None
        beside = [f"{other['code']}: {other['description']}" for other in diagnosis.get("others", ())]
        return cls(
            problem,
            diagnosis.get("evidence") or {},
            plan.get("strategy") or "none",
            loss or UNKNOWN_LOSS,
            plan.get("reason"),
            value.get("note") or None,
            (*beside, *diagnosis.get("remarks", ())) or None,
        )


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """A whole run. `watermark` and the offsets are plain JSON objects or None.

    `verdict` may be left out; it is then the worst verdict of the tables. It is never better than that.
    `started_by` is the Airflow user who triggered the run, `approved` who approved its plan ("by ann", "not needed"),
    `began` and `ended` are ISO times. `others` are the problems that held beside `problem`, and what was said of rows,
    each a sentence. These five, `peer`, `writer`, `reason`, `note` and `links` are in the JSON only when given.
    """

    pipeline: str
    run_id: str
    problem: str
    evidence: Mapping[str, str]
    strategy: str
    data_loss: str
    watermark: Mapping[str, object] | None
    epoch: int
    offset_before: Mapping[str, object] | None
    offset_after: Mapping[str, object] | None
    tables: tuple[TableReport, ...]
    steps: tuple[StepReport, ...]
    verdict: Verdict | None = None
    peer: Mapping[str, object] | None = None
    writer: Mapping[str, object] | None = None
    reason: str | None = None
    note: str | None = None
    others: tuple[str, ...] | None = None
    links: Mapping[str, str] | None = None
    started_by: str | None = None
    approved: str | None = None
    began: str | None = None
    ended: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", tuple(self.tables))
        object.__setattr__(self, "steps", tuple(self.steps))
        worst = overall(table.verdict for table in self.tables)
        verdict = worst if self.verdict is None else Verdict(self.verdict)
        if self.tables and _BAD_TO_GOOD.index(verdict) > _BAD_TO_GOOD.index(worst):
            raise VerificationError(f"{verdict} was reported while a table is {worst}", where=self.pipeline)
        object.__setattr__(self, "verdict", verdict)

    @property
    def exit_status(self) -> int:
        """The exit status of a command: 0 MATCH, 1 MISMATCH, 3 INCONCLUSIVE."""
        return _EXIT[Verdict(self.verdict or Verdict.INCONCLUSIVE)]

    def to_json(self) -> dict[str, object]:
        """Plain JSON with exactly the contract's keys, in the contract's order."""
        return sparse(self)

    def to_text(self) -> str:
        """The JSON as text, indented, ending with a newline."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, value: Mapping[str, object] | str) -> RecoveryReport:
        """The inverse of to_json(); accepts its JSON text too. Raises one of MALFORMED, or VerificationError, for anything else."""
        return read(cls, json.loads(value) if isinstance(value, str) else value)
