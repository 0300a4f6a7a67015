"""How bad a problem code is, as a colour: a code without a row here is red, so that a new one is never overlooked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from airflow_cdc.core.report import Verdict
from airflow_cdc.reports.stored import RECOVERY, RunSummary, StoredObservation, known_to_differ


class Severity(StrEnum):
    """Red: act now. Amber: look. Green: whole, as far as was observed."""

    RED = "red"
    AMBER = "amber"
    GREEN = "green"

    @property
    def label(self) -> str:
        """The colour in words."""
        return _LABELS[self]


_LABELS = {Severity.RED: "broken", Severity.AMBER: "to be looked at", Severity.GREEN: "healthy"}
NOT_OBSERVED = "NOT_OBSERVED"
RECOVERED = "RECOVERED"
SINK_DIFFERS = "SINK_DIFFERS"
# what says nothing of the rows themselves: known differences count for more
_SAYS_NOTHING = frozenset({"HEALTHY", NOT_OBSERVED, RECOVERED})

CODES: Mapping[str, Severity] = {
    "HEALTHY": Severity.GREEN,
    "UNKNOWN": Severity.AMBER,
    NOT_OBSERVED: Severity.AMBER,
    RECOVERED: Severity.AMBER,
    "RECOVERY_OPEN": Severity.AMBER,
    "CONNECTOR_STOPPED": Severity.AMBER,
    "NEW_PIPELINE": Severity.AMBER,
    "TABLE_ADDED": Severity.AMBER,
    "SINK_BEHIND": Severity.AMBER,
    "XA_ROLLED_BACK": Severity.AMBER,
}
VERDICTS: Mapping[Verdict, Severity] = {
    Verdict.MATCH: Severity.GREEN,
    Verdict.INCONCLUSIVE: Severity.AMBER,
    Verdict.MISMATCH: Severity.RED,
}
ORDER = (Severity.RED, Severity.AMBER, Severity.GREEN)


def severity(code: str) -> Severity:
    """The colour of a problem code."""
    return CODES.get(code, Severity.RED)


def present_code(seen: StoredObservation | None, runs: Sequence[RunSummary]) -> str:
    """What to call the pipeline now: the observed problem, unless a proven recovery ended after it was observed.

    That is not yet HEALTHY: nobody has looked since. Nor is a pipeline whose position is good while a check has found rows
    that differ, and nothing has proven them equal since.
    """
    code = _of_position(seen, next((run for run in runs if run.kind == RECOVERY), None))
    return SINK_DIFFERS if known_to_differ(runs) and code in _SAYS_NOTHING else code


def _of_position(seen: StoredObservation | None, recovery: RunSummary | None) -> str:
    if seen is None:
        return NOT_OBSERVED
    broken = severity(seen.diagnosis.code) is not Severity.GREEN
    if broken and recovery and recovery.verdict is Verdict.MATCH and _later(recovery.ended_at, seen):
        return RECOVERED
    return seen.diagnosis.code


def _later(ended_at: str, seen: StoredObservation) -> bool:
    return datetime.fromisoformat(ended_at) > datetime.fromisoformat(seen.taken_at)
