"""The rows of the diagnosis, their input, and how the rows of all parts of a pipeline form one table.

The order of judgement is one sequence over all systems, whoever owns a row, because causes are named before what follows
from them: 10 an open recovery; 15 settings with which nothing can be followed; 20 what decides was not read; 25 no log;
30-39 the position is lost, by facts of the server; 40 the rest was not read; 41-46 the offset; 47-49 the source's rows,
another server; 50-57 the connector; 60-68 topics, sink and what the events carry; 90-95 warnings; 99 healthy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_cdc.core.error_texts import Explanation, KnownText, match
from airflow_cdc.core.observation import ConnectorFacts, Observation, SourceFacts, TaskState
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.position import Position

# name → value read, from where, at what time
Evidence: TypeAlias = dict[str, str]

F = TypeVar("F", bound=SourceFacts, covariant=True)  # noqa: PLC0105
P = TypeVar("P", bound=Position, covariant=True)  # noqa: PLC0105

FULL_SNAPSHOT = ("full_snapshot",)
WARNING = ("none",)  # nothing is lost yet: what is to be done is for a person
LOST = range(30, 40)  # ranks of the rows by which the position is lost


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that has failed, and what its trace names; None where it names nothing that is known."""

    task: TaskState
    named: Explanation | None

    @property
    def code(self) -> str:
        """The problem that the trace names, or ""."""
        return self.named.code if self.named else ""


@dataclass(frozen=True, slots=True)
class Case(Generic[F, P]):
    """The input of a row: everything, read and parsed once. F and P are the facts and the position of the pipeline's source.

    Attributes:
        source: None where it could not be read.
        offset: the stored one; None where there is none, or the connector could not be read.
        stored: the position in it; None where it cannot be read.
        connector: None where it could not be read.
        failures: the connector's failed tasks.
        streams: whether the connector and all of its tasks claim to run.
        same_server: whether connector and diagnosis connect to the same host and port, and so see the same server.
    """

    seen: Observation
    source: F | None
    offset: StoredOffset | None
    stored: P | None
    connector: ConnectorFacts | None
    failures: tuple[Failure, ...]
    streams: bool
    same_server: bool

    @property
    def both(self) -> tuple[F, P] | None:
        """Source and stored position, if both are known and nothing in the offset is of another make of source."""
        if self.source is None or self.offset is None or self.stored is None or self.offset.foreign:
            return None
        return self.source, self.stored

    @property
    def both_of_one_server(self) -> tuple[F, P] | None:
        """The source's facts and the stored position, unless the connector may stream from another server."""
        return None if self.streams and not self.same_server else self.both


AnyCase: TypeAlias = Case[Any, Any]
Holds: TypeAlias = Callable[[AnyCase], Evidence | None]
Blocker: TypeAlias = Callable[[AnyCase], str]  # why a strategy cannot be carried out; "" if it can


@dataclass(frozen=True, slots=True)
class Problem:
    """One row: what it is called, when it holds, what may be done, where a person reads more.

    `holds` returns the evidence, or None when this row does not hold. `strategies` are in order of preference; () means
    that nothing may be done before a person has looked. `about_position`: by facts of the server the stored position
    itself is wrong, or cannot be judged. `on_request`: what a person may ask for by name although no plan would choose it.
    """

    code: str
    rank: int
    description: str
    holds: Holds
    strategies: tuple[str, ...] = ()
    about_position: bool = False
    on_request: tuple[str, ...] = ()

    @property
    def runbook(self) -> str:
        """Where a person reads what to do: a path below the provider's page in Airflow."""
        return runbook(self.code)


def runbook(code: str) -> str:
    """Where a person reads what to do about a problem."""
    return f"runbook#{code.lower()}"


@dataclass(frozen=True, slots=True)
class Beside:
    """What one part adds to the evidence of rows, whoever owns them: `tell` is asked when a row of these ranks holds."""

    ranks: frozenset[int]
    tell: Callable[[AnyCase], Evidence]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a diagnosis and a plan: those of one system, or of all parts of a pipeline together.

    Attributes:
        problems: rows; together they are in the order of judgement.
        blockers: strategy → what must not hold for it, beside what must not hold anywhere.
        offers: the special strategies that the source can be recovered by.
        notes: what a strategy that reads rows changes for good, each a sentence or "".
        texts: what the systems say when they fail, the most exact first.
        no_recovery: why no strategy can read rows or events of such a pipeline; "" where one can.
    """

    problems: tuple[Problem, ...] = ()
    beside: tuple[Beside, ...] = ()
    blockers: Mapping[str, tuple[Blocker, ...]] = field(default_factory=dict)
    offers: frozenset[str] = frozenset()
    notes: tuple[Callable[[AnyCase], str], ...] = ()
    texts: tuple[KnownText, ...] = ()
    no_recovery: str = ""

    @property
    def ranks(self) -> dict[str, tuple[int, ...]]:
        """Problem code → the ranks of its rows."""
        codes = {row.code for row in self.problems}
        return {code: tuple(row.rank for row in self.problems if row.code == code) for code in codes}

    def on_request(self, code: str) -> tuple[str, ...]:
        """What a person may ask for by name, where this problem is diagnosed."""
        return tuple(dict.fromkeys(name for row in self.problems if row.code == code for name in row.on_request))

    def case(self, observation: Observation) -> AnyCase:
        """What the rows are given of an observation."""
        source = observation.source if isinstance(observation.source, SourceFacts) else None
        connector = observation.connector if isinstance(observation.connector, ConnectorFacts) else None
        offset = connector.offset if connector else None
        return Case(
            seen=observation,
            source=source,
            offset=offset,
            stored=offset.position if offset else None,
            connector=connector,
            failures=tuple(self._failures(connector)),
            streams=_streams(connector),
            same_server=_same_server(connector, source),
        )

    def _failures(self, connector: ConnectorFacts | None) -> Iterator[Failure]:
        for task in connector.tasks if connector else ():
            if task.state == "FAILED":
                yield Failure(task, match(self.texts, task.trace))


def assemble(parts: Iterable[Rules]) -> Rules:
    """The rules of several parts as one. Raises ValueError for two rows of one rank: their order would be left to chance."""
    parts = tuple(parts)
    rows = sorted((row for part in parts for row in part.problems), key=lambda row: row.rank)
    for one, other in itertools.pairwise(rows):
        if one.rank == other.rank:
            raise ValueError(f"{one.code} and {other.code} both have the rank {one.rank}")
    beside = tuple(addition for part in parts for addition in part.beside)
    strategies = {code for part in parts for code in part.blockers}
    return Rules(
        problems=tuple(_with_beside(row, beside) for row in rows),
        blockers={code: tuple(b for part in parts for b in part.blockers.get(code, ())) for code in strategies},
        offers=frozenset().union(*(part.offers for part in parts)),
        notes=tuple(note for part in parts for note in part.notes),
        texts=tuple(sorted((text for part in parts for text in part.texts), key=lambda text: text.rank)),
    )


def _with_beside(row: Problem, beside: Iterable[Beside]) -> Problem:
    """The row, whose evidence holds what other parts add to it."""
    tells = tuple(addition.tell for addition in beside if row.rank in addition.ranks)
    if not tells:
        return row

    def holds(case: AnyCase) -> Evidence | None:
        evidence = row.holds(case)
        return None if evidence is None else {**evidence, **{k: v for tell in tells for k, v in tell(case).items()}}

    return replace(row, holds=holds)


def _streams(connector: ConnectorFacts | None) -> bool:
    if connector is None or connector.state != "RUNNING":
        return False
    return bool(connector.tasks) and all(task.state == "RUNNING" for task in connector.tasks)


def _same_server(connector: ConnectorFacts | None, source: SourceFacts | None) -> bool:
    if connector is None or source is None or not connector.address or not source.address:
        return False
    return _host(connector.address) == _host(source.address)


def _host(address: str) -> str:
    return address.strip().lower().replace("localhost:", "127.0.0.1:")
