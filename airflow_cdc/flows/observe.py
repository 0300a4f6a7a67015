"""Step 1: read the facts of every system at one time; what can't be read is Unknown, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from airflow_cdc.core.errors import CdcError, DeadlineError
from airflow_cdc.core.evidence import offset_of
from airflow_cdc.core.history import compare_history, fold_history, newest_snapshot_ms
from airflow_cdc.core.observation import (
    ConnectorFacts,
    HistoryFacts,
    Observation,
    ReplicaFacts,
    SchemaFacts,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    TransportFacts,
    Unknown,
)
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.problems_source import gtid_purged, seems_stuck
from airflow_cdc.core.table import TableDef
from airflow_cdc.flows.captured import settings, topic_names
from airflow_cdc.flows.run import Run, now_iso
from airflow_cdc.systems.mysql_replica import read_replica
from airflow_cdc.systems.mysql_schema import read_table_defs

T = TypeVar("T")

# a connector that is only slow produces something, or commits, well within this time
WATCH_SECONDS = 12.0
_TOPIC_SETTINGS = ("cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms")
_OWN_OFFSETS = "offsets.storage.topic"


def observe(run: Run, watch: float = WATCH_SECONDS) -> Observation:
    """Read connector, transport, sink and control side by side, then schemas, then the source.

    What can't be read is Unknown. The source comes last: an offset read later than the server's position could seem
    to be ahead of the server. Only a connector that seems to stand still is watched, for `watch` seconds.
    """
    readers: dict[str, Callable[[Run], object]] = {
        "connector": _connector,
        "transport": _transport,
        "sink": _sink,
        "control": lambda r: r.clients.control.facts(),
    }
    with ThreadPoolExecutor(len(readers)) as pool:
        read = {part: pool.submit(_or_unknown, reader, run) for part, reader in readers.items()}
        facts: dict[str, Any] = {part: future.result() for part, future in read.items()}
    asked = not isinstance(facts["connector"], Unknown)  # its settings say where the schema history is
    facts["schema"] = _or_unknown(_schema, run) if asked else Unknown("the connector could not be read")
    unread = Observation(run.pipeline, "", Unknown("not read yet"), **facts)
    facts["source"] = _or_unknown(lambda r: _source(r, unread), run)
    seen = _with_replicas(run, Observation(pipeline=run.pipeline, taken_at=now_iso(), **facts))
    return _watched(run, seen, watch) if seems_stuck(seen) else seen


def _or_unknown(reader: Callable[[Run], T], run: Run) -> T | Unknown:
    try:
        return reader(run)
    except CdcError as error:
        return Unknown(str(error))


def _source(run: Run, seen: Observation) -> SourceFacts:
    offset = offset_of(seen)
    return run.clients.source.facts_for(run.pipeline.source.tables, offset.position if offset else None)


def _with_replicas(run: Run, seen: Observation) -> Observation:
    """The named replicas too, side by side, where the source has purged what the connector needs: only then they matter."""
    named = run.clients.replicas
    if not named or gtid_purged(seen) is None:
        return seen
    with ThreadPoolExecutor(len(named)) as pool:
        read = {conn_id: pool.submit(_replica, run, conn_id) for conn_id in named}
        return replace(seen, replicas={conn_id: future.result() for conn_id, future in read.items()})


def _replica(run: Run, conn_id: str) -> ReplicaFacts | Unknown:
    return _or_unknown(lambda r: read_replica(r.clients.replicas[conn_id], conn_id), run)


def _connector(run: Run) -> ConnectorFacts:
    facts = run.clients.connector.facts(run.pipeline.connector.name)
    own = facts.config.get(_OWN_OFFSETS)
    if not own or facts.offset_partition is None or facts.state == "RUNNING":
        return facts  # both topics are written one after the other: only at rest must they agree
    kept = run.clients.transport.offsets_elsewhere(run.pipeline.connector.name, facts.offset_partition, own)
    return replace(facts, elsewhere={topic: value for topic, value in kept.items() if value != facts.offset})


def _transport(run: Run) -> TransportFacts:
    topics = topic_names(run, run.pipeline.source.tables)
    states = run.clients.transport.topic_states(sorted(set(topics.values())))
    return TransportFacts(states, topics, _configs(run, tuple(states)))


def _configs(run: Run, topics: tuple[str, ...]) -> dict[str, dict[str, str]]:
    found = run.clients.transport.topic_configs(topics)
    return {topic: {key: values[key] for key in _TOPIC_SETTINGS if key in values} for topic, values in found.items()}


def _schema(run: Run) -> SchemaFacts:
    """Definitions first: a history read after them can only be ahead of them, which the log then shows."""
    with closing(run.clients.source.connect()) as connection:
        definitions = read_table_defs(connection, run.pipeline.source.tables)
    topic = settings(run).history_topic
    return SchemaFacts(definitions, None if topic is None else _history(run, topic, definitions))


def _history(run: Run, topic: str, definitions: dict[str, TableDef]) -> HistoryFacts:
    state = run.clients.transport.topic_states([topic]).get(topic)
    if state is None:
        return HistoryFacts(topic)
    known = HistoryFacts(topic, state, config=_configs(run, (topic,)).get(topic, {}))
    count = sum(end - begin for begin, end in state.partitions.values())
    if len(state.partitions) > 1:
        return replace(known, records=count)  # without an order nothing can be compared
    records = run.clients.transport.history_records(topic)
    newest = fold_history(records, settings(run).prefix)
    differences = {
        name: found for name, made in definitions.items() if (found := compare_history(made, newest.get(name)))
    }
    taken = newest_snapshot_ms(records)
    at = datetime.fromtimestamp(taken / 1000, UTC).isoformat(timespec="milliseconds") if taken else ""
    return replace(known, records=len(records), differences=differences, snapshot_at=at)


def _sink(run: Run) -> SinkFacts:
    return SinkFacts({table: _sink_table(run, table) for table in run.pipeline.source.tables})


def _sink_table(run: Run, table: str) -> SinkTableFacts:
    place = run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    found = run.clients.lake.facts(*place)
    if not found.exists or found.stamp is not None:
        return found
    # expiry may have taken every stamped snapshot: the control table's copy is as good
    return replace(found, stamp=run.clients.lake.stamp_or_mirror(*place, run.clients.control.mirrored_stamp(table)))


def _watched(run: Run, seen: Observation, seconds: float) -> Observation:
    """Look on for a while: whether the offset moves, or anything arrives in the topics."""
    connector = seen.connector
    if not isinstance(connector, ConnectorFacts) or seconds <= 0:
        return seen
    began = _produced(run)

    def moved() -> bool | None:
        now = run.clients.connector.facts(run.pipeline.connector.name)
        return True if now.offset != connector.offset or _produced(run) != began else None

    try:
        poll_until(moved, timeout=seconds, interval=1.0, what="the connector moves")
    except DeadlineError:
        return replace(seen, connector=replace(connector, stands_still=seconds))
    return seen


def _produced(run: Run) -> dict[str, dict[int, int]]:
    made = settings(run)
    topics = [*topic_names(run, run.pipeline.source.tables).values(), made.heartbeat_topic]
    return run.clients.transport.end_offsets(topics)
