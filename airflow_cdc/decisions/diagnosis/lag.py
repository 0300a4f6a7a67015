"""How far a sink's main tables are behind their topics, and a connector behind its source's log.

Comparisons do not show the first, because they catch up first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_cdc.core.amounts import span
from airflow_cdc.core.observation import (
    Ahead,
    ControlFacts,
    Observation,
    Shown,
    SinkFacts,
    SinkTableFacts,
    TransportFacts,
)
from airflow_cdc.core.problem import AnyCase, Evidence
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of

# partition → (next offset to apply, end)
Waiting = Mapping[int, tuple[int, int]]


def waiting_of(table: str, facts: SinkTableFacts, transport: TransportFacts) -> Waiting:
    """The part of the table's topic that is not applied; {} if all is, or if no stamp of this very topic exists."""
    state = transport.topics.get(transport.of_table.get(table, ""))
    if facts.stamp is None or state is None:
        return {}
    known = facts.stamp.offsets.get(state.name)
    if known is not None and known.topic_id != state.id:
        return {}
    nexts = {p: facts.stamp.next_offset(state.name, p) or 0 for p in state.partitions}
    return {
        p: (max(nexts[p], begin), end) for p, (begin, end) in state.partitions.items() if max(nexts[p], begin) < end
    }


def late_events(waiting: Waiting, young: Mapping[int, int | None]) -> int:
    """How many waiting events are too old. `young`: partition → first event that is young enough; None: none is."""
    firsts = {p: end if young.get(p) is None else young[p] or 0 for p, (_, end) in waiting.items()}
    return sum(max(0, min(firsts[p], end) - begin) for p, (begin, end) in waiting.items())


def shown(ms: int | None, earlier: Shown | None, at: str) -> Shown | None:
    """The clock of the events at `at` (ISO), which says `ms` (None: nothing); None if it never said anything.

    A clock that shows what it showed at the look before has not been seen since: it is known by its newest record, and
    none came. Worked case: one event waits, and nobody writes. Its own time is the newest, so the first look knows no
    age of it, and one that is an hour later knows that it has waited for an hour.
    """
    if ms is None or (earlier is not None and earlier.ms == ms):
        return earlier
    return Shown(ms, at)


def now_of(clock: Shown, at: str) -> int:
    """What the clock shows at `at` (ISO) at least, in epoch ms."""
    passed = datetime.fromisoformat(at) - datetime.fromisoformat(clock.since)
    return clock.ms + max(0, int(passed.total_seconds() * 1000))


def ahead_of(state: TopicState, earlier: Ahead | None, at: str) -> Ahead | None:
    """What waits in front of a topic at `at` (ISO); None if nothing does.

    Such messages tell no time. But a topic that ends where it ended at an earlier look has got none of those that waited
    then, and they leave in their order: as many still wait.
    """
    end = TopicOffsets.end_of(state)
    if not state.ahead:
        return None
    if earlier is None or earlier.end != end:
        return Ahead(state.ahead, state.ahead, at, end)
    return Ahead(state.ahead, min(earlier.seen, state.ahead), earlier.since, end)


def late_ahead(ahead: Ahead | None, max_lag: float, at: str) -> int:
    """How many messages in front of a topic are known to have waited for longer than `max_lag` seconds at `at` (ISO)."""
    if ahead is None:
        return 0
    waited = datetime.fromisoformat(at) - datetime.fromisoformat(ahead.since)
    return ahead.seen if waited.total_seconds() > max_lag else 0


def events_waiting(obs: Observation) -> int | None:
    """How many events wait to be applied, in their topics and in front of them; None if unknown, or if others apply them."""
    transport = transport_of(obs)
    ours = obs.pipeline.has_sink and obs.pipeline.is_applied
    if not ours or not isinstance(obs.sink, SinkFacts) or transport is None or not transport.topics:
        return None
    most = dict.fromkeys(transport.topics, 0)  # tables may share a topic
    for name, facts in obs.sink.tables.items():
        if waits := waiting_of(name, facts, transport):
            topic = transport.of_table[name]
            most[topic] = max(most[topic], _count(waits))
    return sum(most.values()) + sum(state.ahead for state in transport.topics.values())


def sink_behind(case: AnyCase) -> Evidence | None:
    """Events wait longer than the policy allows, or they wait and the newest apply failed."""
    obs = case.seen
    transport, sink, control = transport_of(obs), obs.sink, obs.control
    if not isinstance(sink, SinkFacts) or transport is None or not obs.pipeline.is_applied:
        return None
    waiting = {name: waits for name in sink.tables if any(waits := _waits(name, sink, transport))}
    error = control.apply_error if isinstance(control, ControlFacts) else ""
    if not sink.late and not (waiting and error):
        return None
    limit = obs.pipeline.policy.max_lag
    shown = {f"waiting for {name}": _text(*waits, sink.late.get(name, 0), limit) for name, waits in waiting.items()}
    failed = evidence(case, "control table", {"the newest apply failed": error}) if error else {}
    return {**evidence(case, "sink stamps and topics", shown), **failed}


def _waits(table: str, sink: SinkFacts, transport: TransportFacts) -> tuple[int, int]:
    """How many events wait for the table in its topic, and in front of it."""
    facts, ahead = sink.tables[table], sink.ahead.get(transport.of_table.get(table, ""))
    return _count(waiting_of(table, facts, transport)), ahead.count if ahead and facts.stamp else 0


@dataclass(frozen=True, slots=True)
class Reading:
    """At `at` (seconds of any steady clock) the connector was reading changes written at `written` (epoch seconds)."""

    at: float
    written: float


def seconds_left(first: Reading, last: Reading, target: float) -> float | None:
    """Seconds until changes written at `target` are read, at the pace between the readings; None without progress."""
    gained, took = last.written - first.written, last.at - first.at
    if gained <= 0 or took <= 0:
        return None
    return max(0.0, (target - last.written) * took / gained)


def progress_text(first: Reading, last: Reading, target: float, now: datetime) -> str:
    """One line for a log: what the connector reads now, how old that is, and when it should be done."""
    written = datetime.fromtimestamp(last.written, UTC).isoformat(timespec="seconds")
    reads = f"the connector reads what was written at {written}, {span(max(0.0, target - last.written))} before the end"
    left = seconds_left(first, last, target)
    if left is None:
        return f"{reads}; when it will be there is not known yet"
    end = datetime.fromtimestamp(now.timestamp() + left, UTC).isoformat(timespec="seconds")
    return f"{reads}; expected to be there in {span(left)}, at {end}"


def _count(waits: Waiting) -> int:
    return sum(end - begin for begin, end in waits.values())


def _text(count: int, ahead: int, late: int, limit: int) -> str:
    outside = f" and {ahead} that were not brought there yet" if ahead else ""
    return f"{count} events{outside}, {late} of them for longer than policy.max_lag of {limit} s"
