"""What the control document stores about a run besides the open recovery: steps, decision and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_cdc.core.report import DecisionReport, StepPart, StepReport, TableReport
from airflow_cdc.decisions.compare.part import WHOLE

STEP = "step:"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True, slots=True)
class StepEntry:
    """One step of a run: when it began (ISO), how long it took, how it ended, and with which error if it failed.

    `parts`: what took long in it.
    """

    name: str
    started: str = ""
    seconds: float = 0.0
    state: str = ""
    error: str = ""
    error_type: str = ""
    parts: tuple[StepPart, ...] = ()

    @property
    def report(self) -> StepReport:
        """The step in the form that reports show."""
        return StepReport(self.name, self.seconds, self.state, self.started, self.parts)

    def to_json(self) -> dict[str, object]:
        """The form that the ledger stores, under the step's name."""
        value: dict[str, object] = {"started": self.started, "seconds": self.seconds, "state": self.state}
        value |= {"parts": [[one.name, one.after, one.seconds] for one in self.parts]} if self.parts else {}
        return {**value, "error": self.error, "type": self.error_type} if self.error else value

    @classmethod
    def from_json(cls, name: str, value: Mapping[str, Any]) -> StepEntry:
        """The inverse of to_json(); absent values become empty."""
        started, state, error, kind = (str(value.get(key) or "") for key in ("started", "state", "error", "type"))
        parts = tuple(StepPart(str(part), float(at), float(took)) for part, at, took in value.get("parts") or ())
        return cls(name, started, float(value.get("seconds") or 0), state, error, kind, parts)


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table that was compared without a recovery; `part` names the compared part."""

    report: TableReport
    part: str = WHOLE.name

    @property
    def whole(self) -> bool:
        """Whether every row was compared."""
        return self.part == WHOLE.name

    @classmethod
    def from_json(cls, table: str, value: Mapping[str, object]) -> CheckedTable:
        """Read the ledger's entry for a table's comparison."""
        return cls(TableReport.verified_from_json(table, value), str(value.get("compared") or WHOLE.name))


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Everything that is stored about one run.

    Attributes:
        epoch: the epoch of the recovery that the run opened; None if it opened none.
        recovery: how the recovery ended ("closed", "abandoned"); "" while it is open.
        steps: in the order in which they began.
        unchanged: why the run changed nothing; "" if it did.
        approved: who approved its plan; "" if nobody was asked.
        document: the closed recovery as JSON, if it could not be stored beside its report.
    """

    epoch: int | None = None
    recovery: str = ""
    decision: DecisionReport = field(default_factory=DecisionReport)
    steps: tuple[StepEntry, ...] = ()
    checked: Mapping[str, CheckedTable] = field(default_factory=dict)
    unchanged: str = ""
    approved: str = ""
    document: Mapping[str, object] | None = None

    @property
    def failures(self) -> str:
        """The errors of the failed steps. A step that was cleared and then succeeded is not among them."""
        failed = (step for step in self.steps if step.state == FAILED)
        return "; ".join(f"{step.name}: {step.error or 'ended abruptly'}" for step in failed)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LedgerEntry:
        """Read a run's entry of the ledger; {} is a run about which nothing is stored. Raises one of MALFORMED."""
        steps = [StepEntry.from_json(key.removeprefix(STEP), v) for key, v in value.items() if key.startswith(STEP)]
        return cls(
            epoch=value.get("epoch"),
            recovery=str(value.get("recovery") or ""),
            decision=DecisionReport.from_json(value.get("decision") or {}),
            steps=tuple(sorted(steps, key=lambda step: step.started)),
            checked={name: CheckedTable.from_json(name, v) for name, v in (value.get("check") or {}).items()},
            unchanged=str(value.get("unchanged") or ""),
            approved=str(value.get("approved") or ""),
            document=value.get("document"),
        )
