"""Reading an observation, and writing down what was read: shared by the predicates of the PROBLEMS table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset
from airflow_cdc.core.diagnosis.observation import (
    ConnectorFacts,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    TaskState,
    TransportFacts,
)
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.sources.mysql.gtid import GtidSet

# name → value read, from where, at what time
Evidence: TypeAlias = dict[str, str]

_SHOWN = 400


# ---- reading the observation -------------------------------------------------------------------


def source_of(obs: Observation) -> SourceFacts | None:
    return obs.source if isinstance(obs.source, SourceFacts) else None


def connector_of(obs: Observation) -> ConnectorFacts | None:
    return obs.connector if isinstance(obs.connector, ConnectorFacts) else None


def transport_of(obs: Observation) -> TransportFacts | None:
    return obs.transport if isinstance(obs.transport, TransportFacts) else None


def tables_of(obs: Observation) -> Mapping[str, SinkTableFacts] | None:
    return obs.sink.tables if isinstance(obs.sink, SinkFacts) else None


def offset_of(obs: Observation) -> MySqlOffset | None:
    """The connector's stored offset; None also where it cannot be read (see offset_fault)."""
    connector = connector_of(obs)
    if connector is None or not connector.offset:
        return None
    try:
        return MySqlOffset.from_value(connector.offset)
    except CdcError:
        return None


def offset_fault(obs: Observation) -> str:
    """Why the stored offset cannot be read; "" when it can, or there is none."""
    connector = connector_of(obs)
    if connector is None or not connector.offset:
        return ""
    try:
        MySqlOffset.from_value(connector.offset)
    except CdcError as error:
        return str(error)
    return ""


def has_no_offset(obs: Observation) -> bool:
    connector = connector_of(obs)
    return connector is not None and not connector.offset


def both(obs: Observation) -> tuple[SourceFacts, MySqlOffset] | None:
    """The source's facts and the stored offset, if both are known and the server keeps a log."""
    source, offset = source_of(obs), offset_of(obs)
    return None if source is None or offset is None or not source.log_bin else (source, offset)


def failed_tasks(connector: ConnectorFacts) -> tuple[TaskState, ...]:
    return tuple(task for task in connector.tasks if task.state == "FAILED")


def runs(obs: Observation) -> bool:
    """Whether the connector and all of its tasks claim to run."""
    connector = connector_of(obs)
    if connector is None or connector.state != "RUNNING":
        return False
    return bool(connector.tasks) and all(task.state == "RUNNING" for task in connector.tasks)


def executed(source: SourceFacts) -> GtidSet:
    """All that the server holds, transactions under way included: a connector may have seen those already."""
    return (source.gtid_executed or GtidSet()) | (source.gtid_owned or GtidSet())


def known_servers(obs: Observation) -> frozenset[str]:
    """server_uuids that the sink's tables were last read from, and those that the connector was led to since."""
    stamps = [facts.stamp for facts in (tables_of(obs) or {}).values() if facts.stamp]
    marks = [stamp.watermark for stamp in stamps if stamp.watermark]
    led_to = obs.control.servers if isinstance(obs.control, ControlFacts) else ()
    return frozenset([*(str(mark["server"]) for mark in marks if mark.get("server")), *led_to])


def same_address(obs: Observation) -> bool:
    """Whether connector and diagnosis connect to the same host and port: then both see the same server."""
    source, address = source_of(obs), connector_address(obs)
    if source is None or not address or not source.address:
        return False
    return _host(address) == _host(source.address)


def connector_address(obs: Observation) -> str:
    """host:port that the connector is set to; "" if it is not known."""
    connector = connector_of(obs)
    if connector is None:
        return ""
    return f"{connector.config.get('database.hostname', '')}:{connector.config.get('database.port', '3306')}"


def _host(address: str) -> str:
    return address.strip().lower().replace("localhost:", "127.0.0.1:")


# ---- writing it down ---------------------------------------------------------------------------


def evidence(obs: Observation, where: str, values: Mapping[str, object]) -> Evidence:
    """Each value with where and when it was read."""
    return {name: f"{value} [{where}, {obs.taken_at}]" for name, value in values.items()}


def offset_evidence(obs: Observation) -> Evidence:
    offset = offset_of(obs)
    shown = (
        "none" if offset is None else f"{offset.position} {shorten(str(offset.gtids or offset.domains or ''))}".strip()
    )
    return evidence(obs, "connector offsets", {"stored offset": shown})


def server(source: SourceFacts) -> str:
    """How evidence names the server. Without a uuid of its own, an id that somebody gave it and its address must do."""
    return f"server {source.server_uuid}" if source.server_uuid else f"server_id {source.server_id} at {source.address}"


def gtid_evidence(obs: Observation, source: SourceFacts, stored: GtidSet, **sets: GtidSet) -> Evidence:
    shown = {
        f"gtids {name}": f"{shorten(str(gtids)) or 'none'} ({gtids.count} transactions)" for name, gtids in sets.items()
    }
    return {
        **evidence(obs, "connector offsets", {"gtids stored": shorten(str(stored))}),
        **evidence(obs, server(source), shown),
        **state_evidence(obs),
    }


def file_evidence(obs: Observation, source: SourceFacts, offset: MySqlOffset) -> Evidence:
    files = source.binlog_files
    listed = f"{files[0].name} to {files[-1].name} ({len(files)} files)" if files else "none"
    sizes = {file.name: file.size for file in files}
    size = {"file size": sizes[offset.file]} if offset.file in sizes else {}
    return {
        **evidence(obs, "connector offsets", {"stored position": offset.position}),
        **evidence(obs, server(source), {"binlog files": listed, "end": source.current, **size}),
        **state_evidence(obs),
    }


def states(connector: ConnectorFacts) -> Evidence:
    tasks = {f"task {task.id} state": task.state for task in connector.tasks}
    return {"connector state": connector.state, **(tasks or {"tasks": "none"})}


def state_evidence(obs: Observation) -> Evidence:
    connector = connector_of(obs)
    return evidence(obs, "connector status", states(connector)) if connector else {}


def shorten(text: str, limit: int = _SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def trace_excerpt(trace: str, limit: int = 800) -> str:
    """The first line of a stack trace and its causes, without secrets, at most `limit` characters."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    telling = lines[:1] + [line for line in lines[1:] if line.startswith("Caused by:")]
    return shorten(mask_text(" | ".join(dict.fromkeys(telling))), limit)
