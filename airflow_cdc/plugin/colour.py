"""How urgent a problem is, as a colour on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from airflow_cdc.alerting.severity import Severity, severity_of
from airflow_cdc.core.report import Verdict
from airflow_cdc.reports.stored import RECOVERY, RunSummary, StoredObservation, known_to_differ


class Colour(StrEnum):
    """Red: act now. Amber: look at it. Green: healthy at the last observation."""

    RED = "red"
    AMBER = "amber"
    GREEN = "green"

    def counted(self, pipelines: int) -> str:
        """How many pipelines have the colour, in words."""
        return f"{pipelines} {_WORDS[self][pipelines != 1]}"


# of one pipeline, and of several
_WORDS = {
    Colour.RED: ("broken", "broken"),
    Colour.AMBER: ("needs attention", "need attention"),
    Colour.GREEN: ("healthy", "healthy"),
}
NOT_OBSERVED = "NOT_OBSERVED"
RECOVERED = "RECOVERED"
SINK_DIFFERS = "SINK_DIFFERS"
# codes that say nothing about the rows themselves: known differences override them
_SAYS_NOTHING = frozenset({"HEALTHY", NOT_OBSERVED, RECOVERED})

# codes that only the page uses
CODES: Mapping[str, Colour] = {NOT_OBSERVED: Colour.AMBER, RECOVERED: Colour.AMBER}
_OF_SEVERITY: Mapping[Severity, Colour] = {
    Severity.CRITICAL: Colour.RED,
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.AMBER,
    Severity.INFO: Colour.GREEN,
}
VERDICTS: Mapping[Verdict, Colour] = {
    Verdict.MATCH: Colour.GREEN,
    Verdict.INCONCLUSIVE: Colour.AMBER,
    Verdict.MISMATCH: Colour.RED,
}
ORDER = (Colour.RED, Colour.AMBER, Colour.GREEN)


def colour_of(code: str, strategies: Sequence[str] = ()) -> Colour:
    """The colour of a code, for a diagnosis that offers `strategies`: a mere warning about a setting is not red."""
    return CODES[code] if code in CODES else _OF_SEVERITY[severity_of(code, strategies)]


def present_code(observation: StoredObservation | None, runs: Sequence[RunSummary]) -> str:
    """The pipeline's code now: the observed problem, unless a verified recovery ended after the observation.

    After such a recovery it is not yet HEALTHY, since nobody has observed it. Nor is a pipeline HEALTHY whose position
    is good, but in which a check found differing rows that nothing has proven equal since.
    """
    code = _of_position(observation, next((run for run in runs if run.kind == RECOVERY), None))
    if known_to_differ(runs):
        return SINK_DIFFERS if code in _SAYS_NOTHING else code
    # a repair, too, proves rows equal
    return RECOVERED if code == SINK_DIFFERS else code


def _of_position(observation: StoredObservation | None, recovery: RunSummary | None) -> str:
    if observation is None:
        return NOT_OBSERVED
    broken = colour_of(observation.diagnosis.code, observation.diagnosis.strategies) is not Colour.GREEN
    if broken and recovery and recovery.verdict is Verdict.MATCH and _later(recovery.ended_at, observation):
        return RECOVERED
    return observation.diagnosis.code


def _later(ended_at: str, observation: StoredObservation) -> bool:
    return datetime.fromisoformat(ended_at) > datetime.fromisoformat(observation.taken_at)
