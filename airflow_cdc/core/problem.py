"""The rows of the diagnosis, their input, and how the rows of all parts of a pipeline form one table.

The order of judgement is one sequence over the rows of all systems, by danger (`Danger`), and within one danger causes
are named before their consequences: 10 an open recovery; 20 a deciding part was not read; 25 no log, no position; 30-39 the
position is lost, by facts of the server; 40 the offset can't be read; 41-46 the offset; 47-49 the source's rows, another server; 50-59 the connector;
60-66 topics and sink; 68 another part was not read; 70 rows are known to differ; 71-76 rows or the server are threatened; 83-98 settings; 99 healthy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
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
WARNING = ("none",)  # nothing is lost yet: a person has to act
LOST = range(30, 40)  # ranks of the rows by which the position is lost


class Danger(IntEnum):
    """What a problem costs while nobody acts, the worst first. Of several that hold, the greatest danger leads (INV 40)."""

    OPEN = 0  # a recovery is under way: everything else may be its consequence
    UNREAD = 1  # a deciding part could not be read: anything may be true
    LOSS = 2  # changes are lost, will be lost, or do not arrive
    THREAT = 3  # rows of the sink are wrong, or a server or a topic will soon lose something
    SETTING = 4  # set so that something is refused, or would go wrong one day
    FINE = 5


_DANGERS = (
    (range(20), Danger.OPEN),
    (range(20, 25), Danger.UNREAD),
    (range(25, 70), Danger.LOSS),
    (range(70, 80), Danger.THREAT),
    (range(80, 99), Danger.SETTING),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed task, and the problem that its trace names; None if the trace names no known problem."""

    task: TaskState
    named: Explanation | None

    @property
    def code(self) -> str:
        """The problem that the trace names, or ""."""
        return self.named.code if self.named else ""


@dataclass(frozen=True, slots=True)
class Case(Generic[F, P]):
    """The input of a row: everything, read and parsed once. F and P are the source's own types of facts and position.

    Attributes:
        source: None if it could not be read.
        offset: the stored offset; None if there is none, or the connector could not be read.
        stored: the position in it; None if that cannot be read.
        connector: None if it could not be read.
        failures: the connector's failed tasks.
        streams: whether the connector and all of its tasks report RUNNING.
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
        """Source and stored position, if both are known and no part of the offset belongs to another kind of source."""
        if self.source is None or self.offset is None or self.stored is None or self.offset.foreign:
            return None
        return self.source, self.stored

    @property
    def both_of_one_server(self) -> tuple[F, P] | None:
        """The source's facts and the stored position, unless the connector may stream from another server."""
        return None if self.streams and not self.same_server else self.both

    @property
    def source_of_offset(self) -> F | None:
        """The source's facts where they judge an offset by the server's own marks, as a slot: it need not be readable.

        None without an offset, and where the connector may stream from another server.
        """
        if self.connector is not None and self.connector.offset_unseen:
            return None if self.streams and not self.same_server else self.source
        both = self.both_of_one_server
        return both[0] if both else None


AnyCase: TypeAlias = Case[Any, Any]
Holds: TypeAlias = Callable[[AnyCase], Evidence | None]
Blocker: TypeAlias = Callable[[AnyCase], str]  # why a strategy cannot be carried out; "" if it can


@dataclass(frozen=True, slots=True)
class Problem:
    """One row: its name, when it holds, what may be done, and where a person reads more.

    `holds` returns the evidence, or None if this row does not hold. `strategies` are in order of preference; () means
    that nothing may be done before a person has looked. `about_position`: the server's facts show that the stored
    position itself is wrong or cannot be judged. `in_order`: it is worth a word only while the position is in order; a
    connector that failed at a purged log failed because of that. `on_request`: strategies that a person may ask for by name although
    no plan would choose them.
    """

    code: str
    rank: int
    description: str
    holds: Holds
    strategies: tuple[str, ...] = ()
    about_position: bool = False
    on_request: tuple[str, ...] = ()
    in_order: bool = False

    @property
    def danger(self) -> Danger:
        """Follows from the rank, so that the order of judgement is that of danger."""
        return next((danger for ranks, danger in _DANGERS if self.rank in ranks), Danger.FINE)

    @property
    def judges_position(self) -> bool:
        """Whether it says of the stored position that it is lost, wrong, or cannot be judged."""
        return self.about_position or (self.rank in LOST and not self.strategies)

    @property
    def runbook(self) -> str:
        """Where a person reads what to do: a path under the provider's page in Airflow."""
        return runbook(self.code)


def runbook(code: str) -> str:
    """Where a person reads what to do about a problem."""
    return f"runbook#{code.lower()}"


@dataclass(frozen=True, slots=True)
class Beside:
    """Evidence that one part adds to rows of any system: `tell` is called when a row of these ranks holds."""

    ranks: frozenset[int]
    tell: Callable[[AnyCase], Evidence]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a diagnosis and a plan: those of one system, or of all parts of a pipeline together.

    Attributes:
        problems: the rows, in the order of judgement.
        blockers: strategy → its blockers, in addition to those of every system.
        offers: the special strategies that the source supports.
        notes: lasting changes made by a strategy that reads rows, each a sentence or "".
        remarks: sentences beside any diagnosis, about what is no problem of the position: why rows are not followed.
        texts: the systems' error messages, the most exact first.
        no_recovery: why no strategy can read rows or events of such a pipeline; "" if one can.
    """

    problems: tuple[Problem, ...] = ()
    beside: tuple[Beside, ...] = ()
    blockers: Mapping[str, tuple[Blocker, ...]] = field(default_factory=dict)
    offers: frozenset[str] = frozenset()
    notes: tuple[Callable[[AnyCase], str], ...] = ()
    remarks: tuple[Callable[[AnyCase], Iterable[str]], ...] = ()
    texts: tuple[KnownText, ...] = ()
    no_recovery: str = ""

    @property
    def ranks(self) -> dict[str, tuple[int, ...]]:
        """Problem code → the ranks of its rows."""
        codes = {row.code for row in self.problems}
        return {code: tuple(row.rank for row in self.problems if row.code == code) for code in codes}

    def on_request(self, code: str) -> tuple[str, ...]:
        """The strategies that a person may ask for by name when this problem is diagnosed."""
        return tuple(dict.fromkeys(name for row in self.problems if row.code == code for name in row.on_request))

    def case(self, observation: Observation) -> AnyCase:
        """The input of the rows, from an observation."""
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
    """The rules of several parts as one. Raises ValueError for two rows of one rank, whose order would be arbitrary."""
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
        remarks=tuple(remark for part in parts for remark in part.remarks),
        texts=tuple(sorted((text for part in parts for text in part.texts), key=lambda text: text.rank)),
    )


def _with_beside(row: Problem, beside: Iterable[Beside]) -> Problem:
    """The row, with the evidence that other parts add to it."""
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
