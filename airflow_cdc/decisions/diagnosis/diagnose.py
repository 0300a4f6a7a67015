"""What the observed facts mean: one row of the pipeline's problems, with its evidence.

The diagnosis is the first row, in the order of judgement, that holds. A row that says "lost" needs facts from the
server, never only the connector's state or trace. Rows that name no system are in problems.py, the others in the folder
of their system; `kinds.rules_for` collects those of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_cdc.core.observation import ConnectorFacts, Observation, SourceFacts
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.problem import LOST, AnyCase, Problem, Rules, runbook

# an idle connector commits a heartbeat at least every 49 s
_STUCK_AFTER_S = 120


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One problem code with its evidence (name → value read, from where, at what time)."""

    code: str
    description: str
    evidence: Mapping[str, str]
    strategies: tuple[str, ...]
    runbook: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", dict(self.evidence))
        object.__setattr__(self, "strategies", tuple(self.strategies))

    @property
    def exit_status(self) -> int:
        """The exit status of a command: 0 healthy, 3 unknown, 1 any other problem."""
        return {"HEALTHY": 0, "UNKNOWN": 3}.get(self.code, 1)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for XCom and stored observations."""
        return {
            "code": self.code,
            "description": self.description,
            "evidence": dict(self.evidence),
            "strategies": list(self.strategies),
            "runbook": self.runbook,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Diagnosis:
        """The inverse of to_json()."""
        return cls(**value)


def diagnose(observation: Observation, rules: Rules) -> Diagnosis:
    """The first row of the pipeline's rules that holds for the observation."""
    match = _first(rules.case(observation), rules.problems)
    if match is not None:
        return match
    return Diagnosis(
        "UNKNOWN", "No rule matches the observation.", {"read at": observation.taken_at}, (), runbook("UNKNOWN")
    )


def position_fault(observation: Observation, rules: Rules) -> Diagnosis | None:
    """What the server's facts prove wrong with the stored position; None if a connector can continue from it."""
    return _first(rules.case(observation), (row for row in rules.problems if row.about_position))


def lost_where(observation: Observation, rules: Rules, strategy: str) -> bool:
    """Whether a row holds that says "lost" and offers this strategy."""
    case = rules.case(observation)
    rows = (row for row in rules.problems if row.rank in LOST and strategy in row.strategies)
    return any(row.holds(case) is not None for row in rows)


def seems_stuck(observation: Observation, rules: Rules) -> bool:
    """Whether a connector that reports RUNNING should have advanced: its next change has been in the log for long.

    Always False without heartbeats, because the offset of a healthy connector may then stay the same.
    """
    source, connector = observation.source, observation.connector
    if not isinstance(source, SourceFacts) or not isinstance(connector, ConnectorFacts):
        return False
    offset, retention = connector.offset, source.retention
    if offset is None or offset.written is None or retention is None or not connector.heartbeats:
        return False
    ahead = rules.case(observation).streams and source.more_to_read and offset.inside is not Inside.SNAPSHOT
    return ahead and retention.now - offset.written > _STUCK_AFTER_S


def _first(case: AnyCase, problems: Iterable[Problem]) -> Diagnosis | None:
    for row in problems:
        if (evidence := row.holds(case)) is not None:
            return Diagnosis(row.code, row.description, evidence, row.strategies, row.runbook)
    return None
