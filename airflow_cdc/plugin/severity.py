"""How bad a problem code is, as a colour: a code without a row here is red, so that a new one is never overlooked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stored import RunSummary, StoredObservation


class Severity(StrEnum):
    """Red: act now. Amber: look. Green: whole, as far as was observed."""

    RED = "red"
    AMBER = "amber"
    GREEN = "green"


NOT_OBSERVED = "NOT_OBSERVED"
RECOVERED = "RECOVERED"

CODES: Mapping[str, Severity] = {
    "HEALTHY": Severity.GREEN,
    "UNKNOWN": Severity.AMBER,
    NOT_OBSERVED: Severity.AMBER,
    RECOVERED: Severity.AMBER,
    "RECOVERY_OPEN": Severity.AMBER,
    "CONNECTOR_STOPPED": Severity.AMBER,
    "NEW_PIPELINE": Severity.AMBER,
    "TABLE_ADDED": Severity.AMBER,
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


def present_code(seen: StoredObservation | None, newest: RunSummary | None) -> str:
    """What to call the pipeline now: the observed problem, unless a proven recovery ended after it was observed.

    That is not yet HEALTHY: nobody has looked since.
    """
    if seen is None:
        return NOT_OBSERVED
    proven = newest is not None and newest.verdict is Verdict.MATCH
    if newest and proven and severity(seen.diagnosis.code) is not Severity.GREEN and _later(newest.ended_at, seen):
        return RECOVERED
    return seen.diagnosis.code


def _later(ended_at: str, seen: StoredObservation) -> bool:
    return datetime.fromisoformat(ended_at) > datetime.fromisoformat(seen.taken_at)
