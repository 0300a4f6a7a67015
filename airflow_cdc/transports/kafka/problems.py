"""Predicates about what lies between connector and sink: topics, and the connector's schema history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from airflow_cdc.connectors.debezium.history import NOT_IN_HISTORY
from airflow_cdc.core.apply.stamp import Stamp
from airflow_cdc.core.diagnosis.evidence import (
    Evidence,
    connector_of,
    evidence,
    executed,
    has_no_offset,
    offset_evidence,
    offset_of,
    source_of,
    state_evidence,
    tables_of,
    transport_of,
)
from airflow_cdc.core.diagnosis.observation import (
    ConnectorFacts,
    ControlFacts,
    HistoryFacts,
    Observation,
    SchemaFacts,
    TransportFacts,
)
from airflow_cdc.core.topics import TopicState
from airflow_cdc.sources.mariadb import problems as domains


def schema_history_missing(obs: Observation) -> Evidence | None:
    """The connector has an offset, and the definitions that it decodes with are gone, all or in part."""
    history = _history(obs)
    if history is None or has_no_offset(obs):
        return None
    where = f"topic {history.topic}"
    if history.state is None:
        return {**evidence(obs, where, {"schema history": "the topic does not exist"}), **state_evidence(obs)}
    cut = {number: first for number, (first, _) in history.state.partitions.items() if first > 0}
    if not history.records or cut:
        shown: dict[str, object] = {"records": history.records, "first offsets": cut or "0"}
        return {**evidence(obs, where, shown), **state_evidence(obs)}
    return None


def ddl_in_gap(obs: Observation) -> Evidence | None:
    """A definition changed and the connector, which has read everything, does not know: it decodes with the old one.

    A DDL that still stands in the log ahead of the connector is no fault: it will be read in its turn. One in a purged
    gap is told beside the purge, see `with_ddl`.
    """
    told = changed_definitions(obs)
    return {**told, **offset_evidence(obs)} if told and _has_read_everything(obs) else None


def with_ddl(row: Callable[[Observation], Evidence | None]) -> Callable[[Observation], Evidence | None]:
    """A row about a lost position that also says which definitions changed: the purged log can't tell."""

    def found(obs: Observation) -> Evidence | None:
        evidence_of_row = row(obs)
        return None if evidence_of_row is None else {**evidence_of_row, **changed_definitions(obs)}

    return found


def self_healed(obs: Observation) -> Evidence | None:
    """The connector copied its tables by itself after the last recovery: what was deleted in the gap is still there."""
    history, control = _history(obs), obs.control
    if history is None or not isinstance(control, ControlFacts) or not control.closed_at:
        return None
    if not history.snapshot_at or history.snapshot_at <= control.closed_at:
        return None
    mode = (connector_of(obs) or _NOBODY).config.get("snapshot.mode", "initial")
    shown = {"connector's own snapshot at": history.snapshot_at, "snapshot.mode": mode}
    return {
        **evidence(obs, f"topic {history.topic}", shown),
        **evidence(obs, "control table", {"last recovery closed at": control.closed_at}),
    }


def compacted_keyless(obs: Observation) -> Evidence | None:
    """A table without a key behind a compacted topic: the broker refuses its events, and the connector's task dies."""
    transport = transport_of(obs)
    if transport is None:
        return None
    wrong = dict(_compacted_keyless(obs, transport))
    return evidence(obs, "topic settings", wrong) if wrong else None


def history_misconfigured(obs: Observation) -> Evidence | None:
    """A schema history that will lose its beginning, or has no order."""
    wrong = dict(_bad_history(_history(obs)))
    return evidence(obs, "topic settings", wrong) if wrong else None


def transport_replaced(obs: Observation) -> Evidence | None:
    """A topic is another one than the sink was applied from: other id, other partitions, or shorter than the stamp."""
    transport = transport_of(obs)
    if transport is None:
        return None
    found = dict(text for stamp in _stamps(obs) for text in _replaced(stamp, transport))
    return evidence(obs, "sink stamps and topics", found) if found else None


def transport_gap(obs: Observation) -> Evidence | None:
    """Retention or compaction removed events before they were applied."""
    transport = transport_of(obs)
    if transport is None:
        return None
    found = {
        f"{topic}/{number}": f"applied up to {at}, the first event there is {state.partitions[number][0]}"
        for stamp in _stamps(obs)
        for topic, number, at, state in _stamped(stamp, transport)
        if number in state.partitions and at < state.partitions[number][0]
    }
    found |= dict(_forgotten_deletes(obs, transport))
    return evidence(obs, "sink stamps and topics", found) if found else None


_ENDLESS = 2**62
_DELETES_KEPT_MS = 86_400_000  # Kafka's default of delete.retention.ms
_NOBODY = ConnectorFacts("", (), {}, None, None, 0)


def _history(obs: Observation) -> HistoryFacts | None:
    return obs.schema.history if isinstance(obs.schema, SchemaFacts) else None


def changed_definitions(obs: Observation) -> Evidence:
    """The tables that the source defines otherwise than the connector's schema history; {} too where it has none."""
    history = _history(obs)
    if history is None:
        return {}
    told = {
        f"definition of {table}": "; ".join(said)
        for table, said in history.differences.items()
        # a table that the history never had was added to the connector: it is not decoded with an old definition
        if said != (NOT_IN_HISTORY,)
    }
    return evidence(obs, f"source and topic {history.topic}", told)


def _has_read_everything(obs: Observation) -> bool:
    """Whether the connector had read all of the log when its offset was read, which was before anything else was."""
    source, offset = source_of(obs), offset_of(obs)
    if source is None or offset is None or offset.in_snapshot:
        return False
    if offset.domains:
        return domains.read_all(source, offset)
    if source.gtid_mode == "ON":
        return bool(offset.gtids) and executed(source).issubset(offset.gtids or executed(source))
    return offset.position.comparable(source.current) and offset.position >= source.current


def _compacted_keyless(obs: Observation, transport: TransportFacts) -> Iterator[tuple[str, str]]:
    definitions = obs.schema.definitions if isinstance(obs.schema, SchemaFacts) else {}
    for table, topic in transport.of_table.items():
        policy = transport.configs.get(topic, {}).get("cleanup.policy", "")
        if "compact" in policy and table in definitions and definitions[table].keyless:
            yield topic, f"cleanup.policy={policy}, but {table} has no key: its events are refused"


def _bad_history(history: HistoryFacts | None) -> Iterator[tuple[str, str]]:
    if history is None or history.state is None:
        return
    if len(history.state.partitions) > 1:
        yield f"partitions of {history.topic}", f"{len(history.state.partitions)}, must be 1: its order is lost"
    for setting in ("retention.ms", "retention.bytes"):
        value = history.config.get(setting, "-1")
        if "delete" in history.config.get("cleanup.policy", "delete") and not _endless(value):
            yield f"{setting} of {history.topic}", f"{value}, must be -1: the connector needs all of it for ever"


def _endless(value: str) -> bool:
    """-1, or a number that means it: Debezium itself writes the largest there is."""
    return value == "-1" or (value.isdigit() and int(value) >= _ENDLESS)


def _forgotten_deletes(obs: Observation, transport: TransportFacts) -> Iterator[tuple[str, str]]:
    """Compacted topics with more to apply, whose deletes may have been removed since the last was applied (INV 17)."""
    now = datetime.fromisoformat(obs.taken_at).timestamp()
    for facts in (tables_of(obs) or {}).values():
        if facts.stamp is None or facts.stamped_at is None:
            continue
        for topic, number, at, state in _stamped(facts.stamp, transport):
            settings = transport.configs.get(topic, {})
            kept = int(settings.get("delete.retention.ms", _DELETES_KEPT_MS)) / 1000
            behind = number in state.partitions and at < state.partitions[number][1]
            if "compact" in settings.get("cleanup.policy", "") and behind and now - facts.stamped_at > kept:
                age = f"{now - facts.stamped_at:.0f} s ago"
                yield f"{topic}/{number} is compacted", f"applied up to {at} {age}, deletes are kept for {kept:.0f} s"


def _stamps(obs: Observation) -> tuple[Stamp, ...]:
    return tuple(facts.stamp for facts in (tables_of(obs) or {}).values() if facts.stamp)


def _stamped(stamp: Stamp, transport: TransportFacts) -> Iterator[tuple[str, int, int, TopicState]]:
    """Topic, partition and next offset of a stamp, for topics that are still the same."""
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
                yield topic, "it was applied from, and does not exist any more"
        elif offsets.is_of(state.id) is False:  # brokers before 2.8 give no id: apply looks closer
            yield topic, f"its id is {state.id}, it was applied from {offsets.topic_id}"
        elif len(state.partitions) != len(offsets.next):
            yield topic, f"{len(state.partitions)} partitions, it was applied from {len(offsets.next)}"
        else:
            ends = {n: end for n, (_, end) in state.partitions.items()}
            beyond = {n: at for n, at in offsets.next.items() if at > ends.get(n, 0)}
            if beyond:
                yield topic, f"applied up to {beyond}, beyond its ends {ends}"
