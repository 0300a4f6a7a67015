"""Step 1: read the facts of every system at one time; what can't be read is Unknown, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import (
    ConnectorFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    TransportFacts,
    Unknown,
)
from airflow_cdc.flows.captured import topic_names
from airflow_cdc.flows.run import Run, now_iso

T = TypeVar("T")


def observe(run: Run) -> Observation:
    """Read connector, transport, sink and control side by side, then the source. What can't be read is Unknown."""
    readers: dict[str, Callable[[Run], object]] = {
        "connector": _connector,
        "transport": _transport,
        "sink": _sink,
        "control": lambda r: r.clients.control.facts(),
    }
    with ThreadPoolExecutor(len(readers)) as pool:
        read = {part: pool.submit(_or_unknown, reader, run) for part, reader in readers.items()}
        facts = {part: future.result() for part, future in read.items()}
    # after the connector: an offset read later than the server's position could seem to be ahead of the server
    facts["source"] = _or_unknown(lambda r: r.clients.source.facts(), run)
    return Observation(pipeline=run.pipeline, taken_at=now_iso(), **facts)  # type: ignore[arg-type]


def _or_unknown(reader: Callable[[Run], T], run: Run) -> T | Unknown:
    try:
        return reader(run)
    except CdcError as error:
        return Unknown(str(error))


def _connector(run: Run) -> ConnectorFacts:
    return run.clients.connector.facts(run.pipeline.connector.name)


def _transport(run: Run) -> TransportFacts:
    topics = topic_names(run, run.pipeline.source.tables)
    return TransportFacts(run.clients.transport.topic_states(sorted(set(topics.values()))))


def _sink(run: Run) -> SinkFacts:
    return SinkFacts({table: _sink_table(run, table) for table in run.pipeline.source.tables})


def _sink_table(run: Run, table: str) -> SinkTableFacts:
    place = run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    found = run.clients.lake.facts(*place)
    if not found.exists or found.stamp is not None:
        return found
    # expiry may have taken every stamped snapshot: the control table's copy is as good
    return replace(found, stamp=run.clients.lake.stamp_or_mirror(*place, run.clients.control.mirrored_stamp(table)))
