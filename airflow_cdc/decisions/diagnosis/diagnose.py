"""What the observed facts mean: one row of the pipeline's problems, with its evidence.

The diagnosis is the first row, in the order of judgement, that holds. A row that says "lost" needs facts from the
server, never only the connector's state or trace. Rows that name no system are in problems.py, the others in the folder
of their system; `kinds.rules_for` collects those of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_cdc.core.observation import ConnectorFacts, Observation, SourceFacts, Unknown
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.problem import LOST, AnyCase, Danger, Evidence, Problem, Rules, runbook
from airflow_cdc.core.text import shorten

# an idle connector commits a heartbeat at least every 49 s
_STUCK_AFTER_S = 120
MOST_EVIDENCE = 100
LONGEST_EVIDENCE = 4_000


def _limited(evidence: Mapping[str, str]) -> dict[str, str]:
    """Evidence is stored, shown and sent: 2,000 tables or a trace of a megabyte must fit into a message."""
    values = {name: shorten(str(value), LONGEST_EVIDENCE) for name, value in evidence.items()}
    if len(values) <= MOST_EVIDENCE:
        return values
    most = list(values.items())[: MOST_EVIDENCE - 1]
    return {**dict(most), "and": f"{len(values) - len(most)} more"}


@dataclass(frozen=True, slots=True)
class Other:
    """A problem that holds beside the one that leads."""

    code: str
    description: str
    evidence: Mapping[str, str]
    runbook: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", _limited(self.evidence))

    @property
    def text(self) -> str:
        """One line: what is wrong, and its evidence."""
        return f"{self.description} {'; '.join(f'{name}: {value}' for name, value in self.evidence.items())}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The leading problem's code with its evidence (name → value read, from where, at what time).

    `others`: the problems that hold beside it, the greatest danger first; no plan follows from them. `remarks`: sentences about what is no problem of the position, such as why no rows are followed (INV 40).
    """

    code: str
    description: str
    evidence: Mapping[str, str]
    strategies: tuple[str, ...]
    runbook: str
    remarks: tuple[str, ...] = ()
    others: tuple[Other, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "evidence", _limited(self.evidence))
        object.__setattr__(self, "strategies", tuple(self.strategies))
        object.__setattr__(self, "remarks", tuple(self.remarks))
        object.__setattr__(self, "others", tuple(self.others))

    @property
    def exit_status(self) -> int:
        """The exit status of a command: 0 healthy, 3 unknown, 1 any other problem."""
        return {"HEALTHY": 0, "UNKNOWN": 3}.get(self.code, 1)


def diagnose(observation: Observation, rules: Rules) -> Diagnosis:
    """The row of the greatest danger that holds for the observation, with all others that hold beside it (INV 40)."""
    case = rules.case(observation)
    holding = tuple(_holding(case, rules.problems))
    leading = _diagnosis(*holding[0]) if holding else _no_rule(observation)
    remarks = (sentence for remark in rules.remarks for sentence in remark(case))
    return replace(leading, remarks=tuple(dict.fromkeys(remarks)), others=tuple(_others(holding)))


def position_fault(observation: Observation, rules: Rules) -> Diagnosis | None:
    """What the server's facts prove wrong with the stored position; None if a connector can continue from it.

    Topics that can't be read are UNKNOWN here, too: a diagnosis ranks them below what the server proves, but nobody may
    move an offset while it isn't known what the connector has sent.
    """
    case = rules.case(observation)
    if (fault := _first(case, (row for row in rules.problems if row.about_position))) is not None:
        return fault
    if isinstance(observation.transport, Unknown):
        return _first(case, (row for row in rules.problems if row.code == "UNKNOWN"))
    return None


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
    return next((_diagnosis(row, evidence) for row, evidence in _holding(case, problems)), None)


def _holding(case: AnyCase, problems: Iterable[Problem]) -> Iterator[tuple[Problem, Evidence]]:
    for row in problems:
        if (evidence := row.holds(case)) is not None:
            yield row, evidence


def _diagnosis(row: Problem, evidence: Evidence) -> Diagnosis:
    return Diagnosis(row.code, row.description, evidence, row.strategies, row.runbook)


def _others(holding: tuple[tuple[Problem, Evidence], ...]) -> Iterator[Other]:
    """What is said beside the leading row. One row answers whether the position is in order, the first that does.

    A connector that failed where its log was purged is not failed for a reason of its own, and a set that the server
    lacks is not "purged" as well.
    """
    in_doubt = any(row.judges_position for row, _ in holding)
    judging = [row for row, _ in holding if row.judges_position and row.danger is Danger.LOSS]
    for row, evidence in holding[1:]:
        consequence = row in judging[1:] or (row.in_order and in_doubt)
        if row.danger is not Danger.FINE and not consequence:
            yield Other(row.code, row.description, evidence, row.runbook)


def _no_rule(observation: Observation) -> Diagnosis:
    return Diagnosis(
        "UNKNOWN", "No rule matches the observation.", {"read at": observation.taken_at}, (), runbook("UNKNOWN")
    )
