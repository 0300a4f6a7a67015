"""The sink connector of a pipeline: what is known of it, and waiting until it has written all that is in the topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError, ConnectorError, UnknownStateError
from airflow_cdc.core.feeder import FeederFacts
from airflow_cdc.core.poll import NotYet, poll_while_moving
from airflow_cdc.core.text import root_cause
from airflow_cdc.decisions.diagnosis.lag import late_events
from airflow_cdc.flows.capture import capture_in, captured, topic_names
from airflow_cdc.flows.lateness import young_events
from airflow_cdc.flows.run import now_iso

if TYPE_CHECKING:
    from airflow_cdc.core.observation import ConnectorFacts
    from airflow_cdc.core.ports import Feeder, Groups, Transport
    from airflow_cdc.core.table import Table
    from airflow_cdc.flows.run import Run

log = logging.getLogger("airflow_cdc.feeder")

# the end of a topic that was written in transactions is a mark, which a group never consumes
_MARKS: Final = 1_000


class Judges(Protocol):
    """A sink that knows what its sink connector's settings mean. `topics`: source table → its topic."""

    def faults(self, definitions: Mapping[str, Table], topics: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """(setting, what it means) of what keeps wrong rows from being put right."""
        ...

    def losses(self, definitions: Mapping[str, Table], topics: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
        """(table, column, why it is not compared)."""
        ...


class Places(Protocol):
    """A sink whose tables have the names that a sink connector gives them."""

    def places(self, topics: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
        """Source table → the namespace and name of its copy. `topics`: source table → its topic."""
        ...


@runtime_checkable
class CommitsLater(Protocol):
    """A sink into which a sink connector commits after its group has moved (INV 48)."""

    def uncommitted(self, transport: Transport, topics: Mapping[str, str]) -> Mapping[str, int]:
        """Table → how many files were written for it that are not in it yet. `topics`: source table → its topic."""
        ...


def places_of(run: Run, tables: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Source table → where it is in the sink: namespace and name. Raises ConnectorError."""
    if run.clients.feeder is not None:
        return cast("Places", run.clients.sink).places(topic_names(run, tables))
    return {table: (run.pipeline.sink.namespace, run.pipeline.sink_table(table)) for table in tables}


def feeder_facts(run: Run, connector: ConnectorFacts) -> FeederFacts | None:
    """The facts of the sink connector; None where none fills the sink. Raises ConnectorError or TransportError."""
    feeder, transport = run.clients.feeder, run.clients.transport
    if feeder is None:
        return None
    settings, groups = feeder.settings(), _groups(run)
    group, letters_topic = feeder.group(settings), feeder.letters_topic(settings)
    names = _topics(run, connector)
    # before the topics' ends: read after them, a group that is at work would be beyond them
    offsets = groups.committed(group)
    states = dict(transport.topic_states([*names, letters_topic] if letters_topic else names))
    letters = states.pop(letters_topic, None) if letters_topic not in names else None
    facts = FeederFacts(
        feeder.name,
        feeder.state(),
        settings,
        group,
        tuple(member for member in groups.members(group) if not feeder.own_member(member)),
        offsets,
        states,
        letters_topic=letters_topic,
        letters=sum(end - first for first, end in letters.partitions.values()) if letters else 0,
    )
    young, clock = young_events(run, facts.waiting, connector.capture, now_iso())
    late = {name: late_events(spans, young.get(name, {})) for name, spans in facts.waiting.items()}
    return replace(facts, late={name: count for name, count in late.items() if count}, clock=clock)


def _topics(run: Run, connector: ConnectorFacts) -> list[str]:
    capture = capture_in(connector)
    return sorted({capture.topic_of(table) for table in run.pipeline.source.tables})


def _groups(run: Run) -> Groups:
    groups = run.clients.transport.groups
    if groups is None:
        raise ConfigError(
            f"{run.clients.transport.where} has no consumer groups, so nobody knows how far the sink connector has read",
            where=run.where,
            todo="Use a transport that has them.",
        )
    return groups


def filling(run: Run) -> Feeder:
    """The sink connector. Raises ConfigError where none fills the sink."""
    if (feeder := run.clients.feeder) is None:
        raise ConfigError("no sink connector fills this sink", where=run.where, todo="Name it under sink.connector.")
    return feeder


def wait_filled(
    run: Run,
    ends: Mapping[str, Mapping[int, int]],
    standstill: float | None = None,
    note: Callable[[str], None] | None = None,
) -> None:
    """Wait until the sink connector has committed that it has written everything before `ends` (topic → partition → offset).

    Waits as long as its group moves; raises DeadlineError when it has not moved for `standstill` seconds (default: the
    policy's; Connect commits every minute), ConnectorError once it has failed, and UnknownStateError for a group beyond
    a topic's end, which proves nothing. Where it commits to the sink later, it waits for that, too (INV 48).
    """
    feeder, groups = filling(run), _groups(run)
    group, tell = feeder.group(feeder.settings()), note or (lambda _text: None)

    def probe() -> bool | None:
        offsets = groups.committed(group)
        left = dict(_left(run, offsets, ends))
        files = {} if left else _uncommitted(run, ends)
        if not left and not files:
            return True
        if failures := feeder.state().failures:
            raise _failed(run, feeder, failures)
        if files:
            raise NotYet(", ".join(f"{table}: {count} files not committed" for table, count in files.items()))
        tell(f"the sink connector has {sum(left.values()):,} records left")
        raise NotYet(", ".join(f"{place}: {count} left" for place, count in left.items()))

    poll_while_moving(
        probe,
        standstill=run.pipeline.policy.standstill if standstill is None else standstill,
        interval=0.5,
        what=f"the sink connector {feeder.name} to write everything in its topics",
    )


def _uncommitted(run: Run, topics: Iterable[str]) -> Mapping[str, int]:
    """Table → how many files of it wait to be committed, of the tables in these topics."""
    sink = run.clients.sink
    if not isinstance(sink, CommitsLater):
        return {}
    names = topic_names(run, run.pipeline.source.tables)
    of_topics = {table: topic for table, topic in names.items() if topic in set(topics)}
    return sink.uncommitted(run.clients.transport, of_topics)


def _left(
    run: Run, offsets: Mapping[str, Mapping[int, int]], ends: Mapping[str, Mapping[int, int]]
) -> Iterator[tuple[str, int]]:
    """Partitions that still have records for the group: "topic/partition", how many offsets."""
    states = run.clients.transport.topic_states(ends)
    for topic, partitions in ends.items():
        for number, end in partitions.items():
            first, newest = states[topic].partitions[number]
            at = offsets.get(topic, {}).get(number)
            if at is not None and at > newest:
                raise UnknownStateError(
                    f"group consumed {topic}/{number} up to {at}, beyond its end {newest}, so nobody knows what it has written",
                    where=run.where,
                    todo="Set the group to the place up to which the sink connector has written.",
                )
            begin = max(at or 0, first)
            if begin < end and not _only_marks(run, topic, number, (begin, end)):
                yield f"{topic}/{number}", end - begin


def _only_marks(run: Run, topic: str, number: int, span: tuple[int, int]) -> bool:
    """Whether no record is between these offsets: a transaction's end takes an offset, too."""
    return span[1] - span[0] <= _MARKS and not run.clients.transport.records(topic, {number: span})


def _failed(run: Run, feeder: Feeder, failures: tuple[str, ...]) -> ConnectorError:
    return ConnectorError(
        f"the sink connector {feeder.name} has failed: {root_cause(failures[0])[:500]}",
        where=run.where,
        todo=f"Fix what it reports (`airflow cdc diagnose {run.pipeline.name}` shows it), restart it, then clear the task.",
    )


def check_feeder(run: Run) -> Iterator[Check]:
    """Whether the sink connector runs, its group can be read, and its settings let wrong rows be put right."""
    feeder, subject = run.clients.feeder, run.pipeline.name
    if feeder is None:
        return
    state, settings = feeder.state(), feeder.settings()
    todo = "" if state.running else f"Ask `airflow cdc diagnose {subject}` why."
    yield Check(subject, "sink connector", "ok" if state.running else "warn", f"{feeder.name} {state.state}", todo)
    offsets = _groups(run).committed(feeder.group(settings))
    topics = sum(len(partitions) for partitions in offsets.values())
    yield Check(subject, "consumer group", "ok", f"{feeder.group(settings)} has offsets of {topics} partitions")
    sink, definitions = cast("Judges", run.clients.sink), captured(run)
    faults = [f"{name} is {what}" for name, what in sink.faults(definitions, topic_names(run, list(definitions)))]
    todo = "Correct the sink connector's settings: till then no recovery can put the sink right." if faults else ""
    text = "; ".join(faults) or "corrections can be applied"
    yield Check(subject, "sink connector's settings", "bad" if faults else "ok", text, todo)
    for table, column, why in sink.losses(definitions, topic_names(run, list(definitions))):
        yield Check(subject, "values", "warn", f"{table}.{column} is not compared: {why}")
