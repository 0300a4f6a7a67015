"""What diagnoses and runs store for pages and commands: plain JSON without secrets, with its time.

Readers of these files never contact a source, so each file states its age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_cdc.core.codec import Moment, MomentOrNone
from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.forecast import Margin, PurgeForecast
from airflow_cdc.core.observation import Ahead, ConnectorFacts, Observation, Shown, SinkFacts, SourceFacts
from airflow_cdc.core.report import RecoveryReport, Verdict
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.lag import events_waiting
from airflow_cdc.decisions.diagnosis.strategy import POSITION_ONLY

KEPT_CHANGES = 200
KEPT_RUNS = 50
KEPT_SAMPLES = 240
# the kinds of runs
RECOVERY, CHECK, REPAIR, BACKFILL = "recovery", "check", "repair", "backfill"
# ledger entries of no single run: every apply is a run, so facts that must be kept for longer are under these keys
LASTING = "lasting:"


@dataclass(frozen=True, slots=True)
class Change:
    """The problem became `code` at `at` (ISO time of the observation that first said so)."""

    at: Moment
    code: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The share (0 to 1) of the kept log that lay before the stored position, at `at` (ISO)."""

    at: Moment
    left: float


def _state(connector: ConnectorFacts) -> str:
    """The connector's state, and each task that has another: a worker calls a connector RUNNING whose only task has failed."""
    others = [f"task {task.id} {task.state}" for task in connector.tasks if task.state != connector.state]
    return ", ".join((connector.state, *others))


@dataclass(frozen=True, slots=True)
class StoredObservation:
    """The newest diagnosis of a pipeline and the positions it is based on.

    `stored`, `oldest` and `newest` are positions as text, None where unknown. `position_ts` is the time of the event at
    the stored position (unix seconds). `behind` is how many transactions the
    server has executed beyond the stored set, None without GTID. `unknowns`: part → why it could not be read.
    `changes` are the newest changes of the problem, oldest first. `forecast`: when the
    stored position may be purged at the earliest, and why, None if unknown.
    `samples`: the retention at earlier observations and this one, oldest first; older ones are further apart.
    `choices`: the strategies that a person may choose for the problem → why one can't be carried out; "" if it can.
    `waiting`: how many events wait to be applied; None if unknown. `ahead`: topic → those that wait in front of it.
    `clock`: the one that their times are of, while any event waits.
    """

    pipeline: str
    taken_at: Moment
    diagnosis: Diagnosis
    connector: str | None
    stored: str | None
    position_ts: int | None
    oldest: str | None
    newest: str | None
    behind: int | None
    retention: Margin | None
    unknowns: Mapping[str, str]
    changes: tuple[Change, ...]
    forecast: PurgeForecast | None = None
    samples: tuple[Sample, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    waiting: int | None = None
    ahead: Mapping[str, Ahead] = field(default_factory=dict)
    clock: Shown | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", tuple(self.changes)[-KEPT_CHANGES:])
        object.__setattr__(self, "unknowns", dict(self.unknowns))

    @property
    def since(self) -> str:
        """When the present problem was first seen (ISO)."""
        return self.changes[-1].at if self.changes else self.taken_at

    @classmethod
    def of(
        cls,
        obs: Observation,
        diagnosis: Diagnosis,
        before: StoredObservation | None = None,
        choices: Mapping[str, str] | None = None,
    ) -> StoredObservation:
        """The stored form of an observation; `before` is the last stored one, whose changes it continues."""
        known = before.changes if before else ()
        fresh = () if known and known[-1].code == diagnosis.code else (Change(obs.taken_at, diagnosis.code),)
        source = obs.source if isinstance(obs.source, SourceFacts) else None
        connector = obs.connector if isinstance(obs.connector, ConnectorFacts) else None
        offset = connector.offset if connector else None
        position = None if offset is None or offset.foreign else offset.position
        margin = source.margin(position) if source and position else None
        sample = (Sample(obs.taken_at, round(margin.left, 4)),) if margin else ()
        purge_forecast = source.purge_forecast(position) if source and position else None
        return cls(
            pipeline=obs.pipeline.name,
            taken_at=obs.taken_at,
            diagnosis=diagnosis,
            connector=_state(connector) if connector else None,
            stored=offset.place or None if offset else None,
            position_ts=offset.written if offset else None,
            oldest=source.oldest if source else None,
            newest=source.newest if source else None,
            behind=source.behind(position) if source and position else None,
            retention=margin,
            unknowns=obs.unknowns,
            changes=(*known, *fresh),
            forecast=purge_forecast,
            samples=thinned((*(before.samples if before else ()), *sample)),
            choices=dict(choices or {}),
            waiting=events_waiting(obs),
            ahead=obs.sink.ahead if isinstance(obs.sink, SinkFacts) else {},
            clock=_clock(obs) or (before.clock if before and obs.unknowns else None),
        )


def _clock(obs: Observation) -> Shown | None:
    """The clock by which a part of the observation counted what is late."""
    parts = (obs.sink, obs.feeder)
    return next((part.clock for part in parts if isinstance(part, SinkFacts | FeederFacts) and part.clock), None)


def thinned(samples: tuple[Sample, ...], most: int = KEPT_SAMPLES) -> tuple[Sample, ...]:
    """At most `most` samples: every second one of the older half is dropped, so the line is long but fine at its end."""
    if len(samples) <= most:
        return samples
    half = len(samples) // 2
    return (*samples[:half:2], *samples[half:])


@dataclass(frozen=True, slots=True)
class Silence:
    """Notifications are off: for the problem `code` (acknowledged) or for all ("": muted), from `at` to `until` (ISO).

    `ended_at` and `ended_by`: when and by whom it was ended early. Entries are kept, so the list is the audit.
    """

    by: str
    at: Moment
    until: Moment
    reason: str
    code: str = ""
    ended_at: MomentOrNone = ""
    ended_by: str = ""

    def covers(self, code: str, moment: str) -> bool:
        """Whether notifications of `code` are off at that time (ISO)."""
        if self.ended_at or self.code not in ("", code):
            return False
        return datetime.fromisoformat(self.at) <= datetime.fromisoformat(moment) < datetime.fromisoformat(self.until)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run in a pipeline's list.

    `folder` is the folder of its report below the pipeline's; `kind` is the kind of run; `dag_id` is the DAG of the
    run, "" if it was not recorded. `differs`: the tables known to differ from their source at the end of this run,
    found by it or by an earlier one and not proven equal since. `verified_through`: table → the source's time (ISO) up
    to which main itself was proven equal, by this run or an earlier one; it never goes back.
    """

    run_id: str
    folder: str
    kind: str
    problem: str
    strategy: str
    verdict: Verdict
    ended_at: Moment
    seconds: float
    dag_id: str = ""
    differs: tuple[str, ...] = ()
    verified_through: Mapping[str, Moment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", Verdict(self.verdict))
        object.__setattr__(self, "verified_through", dict(self.verified_through))
        object.__setattr__(self, "differs", tuple(self.differs))

    @classmethod
    def of(
        cls, report: RecoveryReport, folder: str, ended_at: str, kind: str = RECOVERY, dag_id: str = ""
    ) -> RunSummary:
        """Read it from a report that was written to `folder` at `ended_at` (ISO)."""
        # a recovery compares stages, which no reader sees, except if it only moves the position
        as_read = kind != RECOVERY or report.strategy in POSITION_ONLY
        return cls(
            run_id=report.run_id,
            folder=folder,
            kind=kind,
            problem=report.problem,
            strategy=report.strategy,
            verdict=Verdict(report.verdict or Verdict.INCONCLUSIVE),
            ended_at=ended_at,
            seconds=round(sum(step.seconds for step in report.steps), 3),
            dag_id=dag_id,
            differs=tables_of(report, Verdict.MISMATCH) if as_read else (),
            verified_through={
                table.table: table.verified_through
                for table in report.tables
                if table.verified_through and table.verdict is Verdict.MATCH
            },
        )


def with_run(runs: list[RunSummary], run: RunSummary, equal: frozenset[str] = frozenset()) -> list[RunSummary]:
    """`runs`, newest first, with `run` in its place; it replaces an earlier report of the same run.

    Tables that earlier runs found to differ still do, unless this run has compared them completely, as readers see
    them, and found them `equal`.
    """
    others = [other for other in runs if other.run_id != run.run_id]
    row = replace(
        run,
        differs=tuple(sorted({*run.differs, *known_to_differ(others)} - equal)),
        verified_through=_latest(verified_through(others), run.verified_through),
    )
    return sorted([row, *others], key=lambda one: one.ended_at, reverse=True)[:KEPT_RUNS]


def known_to_differ(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """The tables that a run found to differ from their source and none has proven equal since; `runs`: newest first."""
    return runs[0].differs if runs else ()


def verified_through(runs: Sequence[RunSummary]) -> Mapping[str, str]:
    """Table → the source's time (ISO) up to which main was proven equal; `runs`: newest first."""
    return runs[0].verified_through if runs else {}


def _latest(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The later of both times of each table: an older proof does not undo a newer one."""
    tables = sorted({*before, *now})
    return {t: max((m[t] for m in (before, now) if t in m), key=datetime.fromisoformat) for t in tables}


def tables_of(report: RecoveryReport, verdict: Verdict) -> tuple[str, ...]:
    """The tables that have this verdict."""
    return tuple(table.table for table in report.tables if table.verdict is verdict)
