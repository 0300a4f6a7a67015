"""The rows about topics that do not hold what was applied from them any more, or not yet: alike for every transport with offsets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from airflow_cdc.core.observation import TransportFacts
from airflow_cdc.core.problem import FULL_SNAPSHOT, AnyCase, Evidence, Problem
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicState
from airflow_cdc.decisions.diagnosis.evidence import evidence, tables_of, transport_of


def transport_replaced(case: AnyCase) -> Evidence | None:
    """A topic is not the one that was applied to the sink: other id, other partitions, or it ends before the stamp."""
    transport = transport_of(case.seen)
    if transport is None:
        return None
    texts = dict(text for stamp in _stamps(case) for text in _replaced(stamp, transport))
    return evidence(case, "sink stamps and topics", texts) if texts else None


def transport_gap(case: AnyCase) -> Evidence | None:
    """Retention or compaction removed events before they were applied."""
    transport = transport_of(case.seen)
    if transport is None:
        return None
    texts = {
        f"{topic}/{number}": f"applied up to {at}, the first event there is {state.partitions[number][0]}"
        for stamp in _stamps(case)
        for topic, number, at, state in _stamped(stamp, transport)
        if number in state.partitions and at < state.partitions[number][0]
    }
    texts |= dict(_forgotten_deletes(case, transport))
    return evidence(case, "sink stamps and topics", texts) if texts else None


_DELETES_KEPT_MS = 86_400_000  # the default of delete.retention.ms


def _forgotten_deletes(case: AnyCase, transport: TransportFacts) -> Iterator[tuple[str, str]]:
    """Compacted topics with more to apply, whose deletes may have been removed since the last apply (INV 17)."""
    now = datetime.fromisoformat(case.seen.taken_at).timestamp()
    for facts in (tables_of(case.seen) or {}).values():
        if facts.stamp is None or facts.stamped_at is None:
            continue
        for topic, number, at, state in _stamped(facts.stamp, transport):
            settings = transport.configs.get(topic, {})
            retention_s = int(settings.get("delete.retention.ms", _DELETES_KEPT_MS)) / 1000
            behind = number in state.partitions and at < state.partitions[number][1]
            if "compact" in settings.get("cleanup.policy", "") and behind and now - facts.stamped_at > retention_s:
                age = f"{now - facts.stamped_at:.0f} s ago"
                yield (
                    f"{topic}/{number} is compacted",
                    f"applied up to {at} {age}, deletes are kept for {retention_s:.0f} s",
                )


def _stamps(case: AnyCase) -> tuple[Stamp, ...]:
    return tuple(facts.stamp for facts in (tables_of(case.seen) or {}).values() if facts.stamp)


def _stamped(stamp: Stamp, transport: TransportFacts) -> Iterator[tuple[str, int, int, TopicState]]:
    """Topic, partition and next offset from a stamp, for topics that are still the same."""
    for topic, offsets in stamp.offsets.items():
        state = transport.topics.get(topic)
        if state is not None and offsets.is_of(state.id) is not False:
            for number, at in offsets.next.items():
                yield topic, number, at, state


def _replaced(stamp: Stamp, transport: TransportFacts) -> Iterator[tuple[str, str]]:
    for topic, offsets in stamp.offsets.items():
        state = transport.topics.get(topic)
        if state is None:
            if topic in transport.of_table.values() and any(offsets.next.values()):
                yield topic, "it was applied from, and no longer exists"
        elif offsets.is_of(state.id) is False:  # brokers before 2.8 give no id: apply checks by the records
            yield topic, f"its id is {state.id}, it was applied from {offsets.topic_id}"
        elif len(state.partitions) != len(offsets.next):
            yield topic, f"{len(state.partitions)} partitions, it was applied from {len(offsets.next)}"
        else:
            ends = {n: end for n, (_, end) in state.partitions.items()}
            beyond = {n: at for n, at in offsets.next.items() if at > ends.get(n, 0)}
            if beyond:
                yield topic, f"applied up to {beyond}, beyond its ends {ends}"


TOPIC_ROWS = (
    Problem(
        "TRANSPORT_REPLACED",
        60,
        "A topic is not the one that the sink was applied from: recreated, shortened or repartitioned.",
        transport_replaced,
        FULL_SNAPSHOT,
    ),
    Problem(
        "TRANSPORT_GAP",
        61,
        "Events were removed from a topic before they were applied.",
        transport_gap,
        FULL_SNAPSHOT,
    ),
)
