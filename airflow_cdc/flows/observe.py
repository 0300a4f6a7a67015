"""Step 1: read the facts of every system at one time; what can't be read is Unknown, with its reason."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Generic, Self, TypeVar

from airflow_cdc.core.errors import ConfigError, DeadlineError, foreseen
from airflow_cdc.core.observation import (
    Ahead,
    Capture,
    ConnectorFacts,
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
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, lost_where, seems_stuck
from airflow_cdc.decisions.diagnosis.lag import ahead_of, late_ahead, late_events, waiting_of
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, choices
from airflow_cdc.events.record import SchemaId
from airflow_cdc.flows.capture import capture_in
from airflow_cdc.flows.feeder import feeder_facts, places_of
from airflow_cdc.flows.lateness import load_observation, young_events
from airflow_cdc.flows.run import Run, named_replicas, now_iso
from airflow_cdc.flows.schemas import registry_of
from airflow_cdc.kinds import rules_for
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import StoredObservation, known_to_differ

log = logging.getLogger("airflow_cdc.observe")

T = TypeVar("T")

# a connector that is only slow produces or commits something well within this time
WATCH_SECONDS = 12.0
_AT_ONCE = 8  # so that hanging parts leave room for those that are asked later


def observe(run: Run, watch: float = WATCH_SECONDS, within: float | None = None) -> Observation:
    """Read connector, transport, sink and control side by side, then schemas, then the source.

    A part that cannot be read, or not within `within` seconds, is Unknown. The source comes last, because an offset
    read after the server's position could seem to be ahead of the server. Only a connector that seems to be stuck is
    watched, for `watch` more seconds.
    """
    connector, rules = _Once(run, _connector), rules_for(run.pipeline)
    with _Parts(run, within) as parts:
        pending = (
            parts.ask("the connector", connector),
            parts.ask("the topics", lambda r: _transport(r, connector(r))),
            parts.ask("the sink", _sink),
            parts.ask("the control store", lambda r: r.clients.control.facts()),
        )
        filling = parts.ask("the sink connector", lambda r: feeder_facts(r, connector(r)))
        # a catalog that hangs leaves time to ask the source
        known, topics = parts.answer(pending[0], share=0.5), parts.answer(pending[1], share=0.5)
        sink, control = parts.answer(pending[2], share=0.5), parts.answer(pending[3], share=0.5)
        schema: SchemaFacts | Unknown = Unknown("the connector could not be read")
        if not isinstance(known, Unknown):  # its settings name the schema history's topic
            schema = parts.answer(parts.ask("the definitions", lambda r: _schema(r, connector(r))))
        unread = Observation(run.pipeline, "", Unknown("not read yet"), known, topics, sink, control, schema)
        source = parts.answer(parts.ask("the source", lambda r: _source(r, unread)))
        capture = None if isinstance(known, Unknown) else known.capture
        sink = parts.answer(parts.ask("the lag", lambda r: _with_lag(r, sink, topics, capture)))
        feeder = parts.answer(filling)
        observation = replace(unread, taken_at=now_iso(), source=source, sink=sink, feeder=feeder)
        if run.clients.replicas and lost_where(observation, rules, DETOUR):  # they matter only then
            replicas = {
                conn_id: parts.ask(f"the replica {conn_id}", partial(_replica, conn_id=conn_id))
                for conn_id in run.clients.replicas
            }
            observation = replace(
                observation, replicas={conn_id: parts.answer(one) for conn_id, one in replicas.items()}
            )
    return _watched(run, observation, watch) if seems_stuck(observation, rules) else observation


class _Once(Generic[T]):
    """A value read by the first caller that needs it; the others wait for its result, or its error."""

    def __init__(self, run: Run, reader: Callable[[Run], T]) -> None:
        self._run, self._reader, self._lock = run, reader, threading.Lock()
        self._answer: tuple[T] | Exception | None = None

    def __call__(self, _run: Run) -> T:
        with self._lock:
            if self._answer is None:
                try:
                    self._answer = (self._reader(self._run),)
                except Exception as error:
                    self._answer = error
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer[0]


class _Parts:
    """Reads parts side by side, in threads, until a common deadline.

    A late thread ends by its own client's timeouts; its answer is ignored.
    """

    def __init__(self, run: Run, within: float | None) -> None:
        self._run, self._within, self._began = run, within, time.monotonic()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="cdc-part")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=self._within is None, cancel_futures=True)

    def ask(self, part: str, reader: Callable[[Run], T | Unknown]) -> Future[T | Unknown]:
        """Start to read a part."""
        return self._pool.submit(_or_unknown, part, reader, self._run)

    def answer(self, future: Future[T | Unknown], share: float = 1.0) -> T | Unknown:
        """A part's facts; Unknown if it can't be read within this share of the time."""
        if self._within is None:
            return future.result()
        seconds = self._within * share
        try:
            return future.result(max(0.0, self._began + seconds - time.monotonic()))
        except TimeoutError:
            return Unknown(f"no answer within the {seconds:g} s that this part of a look may take")


def _or_unknown(part: str, reader: Callable[[Run], T | Unknown], run: Run) -> T | Unknown:
    """The part, or Unknown for any error: one odd answer must not end the watch of the pipeline."""
    try:
        return reader(run)
    except Exception as error:
        return Unknown(str(foreseen(error, f"reading {part}")))


def _source(run: Run, observation: Observation) -> SourceFacts:
    offset = observation.connector.offset if isinstance(observation.connector, ConnectorFacts) else None
    return run.clients.source.facts_for(run.pipeline.source.tables, offset.position if offset else None)


def _replica(run: Run, conn_id: str) -> ReplicaFacts:
    return named_replicas(run)[conn_id].facts(conn_id)


def _connector(run: Run) -> ConnectorFacts:
    name, connector = run.pipeline.connector.name, run.clients.connector
    facts = connector.facts(name)
    return connector.own_topics.with_elsewhere(name, facts, run.clients.transport, partial(_texts, run, facts.capture))


def _texts(run: Run, capture: Capture | None, ids: Iterable[SchemaId]) -> Mapping[SchemaId, str]:
    """The schemas that the connector's records were written with. Raises ConfigError and TransportError."""
    registry = registry_of(run, capture)
    return {} if registry is None else registry.texts(ids)


def _transport(run: Run, connector: ConnectorFacts) -> TransportFacts:
    capture = capture_in(connector)
    try:
        topics = {table: capture.topic_of(table) for table in run.pipeline.source.tables}
    except ConfigError as error:  # a fact about topics: the position is judged without them (INV 40)
        return TransportFacts({}, unnamed=str(error))
    states = run.clients.transport.topic_states(sorted(set(topics.values())))
    return TransportFacts(states, topics, run.clients.transport.topic_configs(tuple(states)))


def _schema(run: Run, connector: ConnectorFacts) -> SchemaFacts:
    """Reads the definitions first: a history read later can only be ahead of them, which the log then shows."""
    capture = capture_in(connector)
    definitions, defaults = run.clients.source.definitions_and_defaults(run.pipeline.source.tables)
    history = run.clients.connector.own_topics.history(capture, run.clients.transport, definitions)
    return SchemaFacts(definitions, history, defaults)


def _sink(run: Run) -> SinkFacts:
    if not run.pipeline.has_sink:
        return SinkFacts({})
    mirrors = cache(run.clients.control.mirrored_stamps)  # the document of all tables: read once, if any table needs it
    places = places_of(run, run.pipeline.source.tables)
    tables = {table: _sink_table(run, table, place, mirrors) for table, place in places.items()}
    differs = known_to_differ(ReportStore(run.report_dir).runs(run.pipeline.name))
    return SinkFacts(tables, differs=tuple(table for table in differs if table in tables))


def _with_lag(
    run: Run, sink: SinkFacts | Unknown, transport: TransportFacts | Unknown, capture: Capture | None
) -> SinkFacts | Unknown:
    """The sink's facts with the events that have waited too long; the broker is asked only if any event waits."""
    if isinstance(sink, Unknown) or isinstance(transport, Unknown):
        return sink
    waiting = {name: waits for name, facts in sink.tables.items() if (waits := waiting_of(name, facts, transport))}
    parts = {transport.of_table[name]: waits for name, waits in waiting.items()}
    max_lag, at = run.pipeline.policy.max_lag, now_iso()
    young, clock = young_events(run, parts, capture, at)
    ahead = _ahead(run, transport, at)
    late = {
        name: late_events(waiting.get(name, {}), young.get(topic, {})) + late_ahead(ahead.get(topic), max_lag, at)
        for name, topic in transport.of_table.items()
        if name in sink.tables and sink.tables[name].stamp is not None
    }
    return replace(sink, late={name: count for name, count in late.items() if count}, ahead=ahead, clock=clock)


def _ahead(run: Run, transport: TransportFacts, at: str) -> Mapping[str, Ahead]:
    """Topic → what waits in front of it, and how much of that waited at the look before already."""
    if not any(state.ahead for state in transport.topics.values()):
        return {}
    earlier = stored.ahead if (stored := load_observation(run)) else {}
    found = {name: ahead_of(state, earlier.get(name), at) for name, state in transport.topics.items()}
    return {name: ahead for name, ahead in found.items() if ahead}


def _sink_table(
    run: Run, table: str, place: tuple[str, str], mirrors: Callable[[], Callable[[str], Stamp | None]]
) -> SinkTableFacts:
    facts, staging = run.clients.sink.facts(*place), run.clients.sink.staging
    if not facts.exists or facts.stamp is not None or staging is None:
        return facts
    # expiry may have taken every stamped snapshot: the control table's copy is as good
    return replace(facts, stamp=staging.stamp_or_mirror(*place, mirrors()(table)))


def _watched(run: Run, observation: Observation, seconds: float) -> Observation:
    """Watch for a while whether the offset moves or anything arrives in the topics."""
    connector = observation.connector
    if not isinstance(connector, ConnectorFacts) or seconds <= 0:
        return observation
    name, key = run.pipeline.connector.name, connector.key or {}
    before = connector.offset.raw if connector.offset else None
    try:
        capture = capture_in(connector)
        topics = _watched_topics(observation, capture)
        if not topics and _has_topics(observation):
            return observation  # nothing says whether events arrive
        began = _produced(run, topics)

        def moved() -> bool | None:
            now = run.clients.connector.committed_offset(name, str(key.get("server", "")))
            return True if now != before or _produced(run, topics) != began else None

        poll_until(moved, timeout=seconds, interval=1.0, what="the connector moves")
    except DeadlineError:
        return replace(observation, connector=replace(connector, stands_still=seconds))
    except Exception as error:
        # it could be read a moment ago; now it is unknown whether it moves, so it is not known to be healthy
        reason = foreseen(error, "looking whether the connector moves")
        return replace(observation, connector=Unknown(str(reason)))
    return observation


def _watched_topics(observation: Observation, capture: Capture) -> list[str]:
    """The topics in which a connector that works writes something: its tables', as far as they have names, and heartbeats."""
    known = observation.transport.of_table if isinstance(observation.transport, TransportFacts) else {}
    return [topic for topic in (*known.values(), capture.heartbeat_topic) if topic]


def _has_topics(observation: Observation) -> bool:
    """Whether events arrive in topics, though they may not be known; a job that writes its tables itself has none."""
    transport = observation.transport
    return not isinstance(transport, TransportFacts) or bool(transport.unnamed)


def _produced(run: Run, topics: list[str]) -> Mapping[str, Mapping[int, int]]:
    return run.clients.transport.end_offsets(topics)


# ---- storing it --------------------------------------------------------------------------------


def store_observation(run: Run, observation: Observation, diagnosis: Diagnosis) -> None:
    """Store it where pages and commands read it: `<report_dir>/<pipeline>/observation.json`; note the server.

    A folder that can't be written only causes a warning, so that the diagnosis is still reported.
    """
    _note_server(run, observation, diagnosis)
    store = ReportStore(run.report_dir)
    try:
        offered = choices(diagnosis, observation, rules_for(run.pipeline))
        store.keep_observation(StoredObservation.of(observation, diagnosis, load_observation(run), offered))
    except Exception as error:
        reason = foreseen(error, "storing the observation")
        log.warning("the observation of %s was not kept: %s", run.pipeline.name, reason)


def _note_server(run: Run, observation: Observation, diagnosis: Diagnosis) -> None:
    """Note which server a healthy connector reads, if no stamp of ours will say it: a later look knows another one then."""
    source, control = observation.source, observation.control
    if run.pipeline.is_applied or isinstance(source, Unknown) or isinstance(control, Unknown):
        return
    if diagnosis.strategies != ("none",) or source.identity in ("", *control.servers):
        return
    try:
        run.clients.control.note_server(source.identity)
    except Exception as error:
        reason = foreseen(error, "noting the server")
        log.warning("the server that %s reads was not noted: %s", run.pipeline.name, reason)
