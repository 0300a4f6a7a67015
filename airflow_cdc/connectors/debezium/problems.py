"""Predicates about the connector: its offset, its state, and what it says of a failure."""

from __future__ import annotations

from airflow_cdc.connectors.debezium.config import healing_settings
from airflow_cdc.core.diagnosis.error_texts import Explanation, named
from airflow_cdc.core.diagnosis.evidence import (
    Evidence,
    connector_of,
    evidence,
    failed_tasks,
    has_no_offset,
    offset_evidence,
    offset_of,
    runs,
    shorten,
    state_evidence,
    states,
    trace_excerpt,
)
from airflow_cdc.core.diagnosis.observation import ConnectorFacts, Observation

_STILL = frozenset({"STOPPED", "PAUSED"})
_SETTLED = frozenset({"RUNNING", "FAILED", "STOPPED", "PAUSED"})
_STATUS = "connector status"
_NOTHING = Explanation("", "", "")


def offset_ambiguous(obs: Observation) -> Evidence | None:
    """Positions under a second key, or different ones in two topics: which one counts is for a person to say."""
    connector = connector_of(obs)
    if connector is None or not (connector.other_partitions or connector.elsewhere):
        return None
    keys = {f"another key {n}": shorten(str(dict(key))) for n, key in enumerate(connector.other_partitions, 1)}
    topics = {f"offset in {topic}": shorten(str(dict(value))) for topic, value in connector.elsewhere.items()}
    return {**offset_evidence(obs), **evidence(obs, "connector offsets", {**keys, **topics})}


def snapshot_interrupted(obs: Observation) -> Evidence | None:
    """The connector ended while it copied its tables: its offset is one of that copy, or its trace says so."""
    connector, offset = connector_of(obs), offset_of(obs)
    if connector is None or runs(obs):
        return None
    inside = offset is not None and offset.in_snapshot
    ended = connector.state in _STILL or bool(failed_tasks(connector))
    if ended and (inside or _says(connector, "SNAPSHOT_INTERRUPTED")):
        return {**offset_evidence(obs), **_failure(obs, connector)}
    return None


def duplicate_server_id(obs: Observation) -> Evidence | None:
    return _failed_as(obs, "DUPLICATE_SERVER_ID")


def failed_transient(obs: Observation) -> Evidence | None:
    """Every failed task says that a connection was cut; a failure of another kind among them is not passing."""
    connector = connector_of(obs)
    if connector is None:
        return None
    failed = failed_tasks(connector)
    passing = [(named(task.trace) or _NOTHING).code == "CONNECTOR_FAILED_TRANSIENT" for task in failed]
    return _failure(obs, connector) if failed and all(passing) else None


def connector_failed(obs: Observation) -> Evidence | None:
    connector = connector_of(obs)
    if connector is None or not (failed_tasks(connector) or connector.state == "FAILED"):
        return None
    return _failure(obs, connector)


def connector_looping(obs: Observation) -> Evidence | None:
    """It claims to run, the source has more for it, and it neither moves nor produces."""
    connector = connector_of(obs)
    if connector is None or not connector.stands_still or not runs(obs):
        return None
    seen = {"nothing moved for": f"{connector.stands_still:.0f} s of watching, while the source has more for it"}
    return {**evidence(obs, _STATUS, {**seen, **states(connector)}), **offset_evidence(obs)}


def connector_stopped(obs: Observation) -> Evidence | None:
    connector = connector_of(obs)
    if connector is None or connector.state not in _STILL:
        return None
    return evidence(obs, _STATUS, states(connector))


def unsettled(obs: Observation) -> Evidence | None:
    connector = connector_of(obs)
    if connector is None:
        return None
    found = {connector.state, *(task.state for task in connector.tasks)}
    if connector.tasks and found <= _SETTLED:
        return None
    return evidence(obs, _STATUS, states(connector))


def connector_misconfigured(obs: Observation) -> Evidence | None:
    """Settings with which the connector passes over a gap by itself instead of failing (INV 5)."""
    connector = connector_of(obs)
    if connector is None:
        return None
    healing = healing_settings(connector.config)
    shown = {f"setting {n}": setting for n, setting in enumerate(healing, 1)}
    return evidence(obs, "connector config", shown) if healing else None


def no_offset(obs: Observation) -> bool:
    """Whether the connector has no offset at all, under any key."""
    connector = connector_of(obs)
    return has_no_offset(obs) and connector is not None and not connector.other_partitions


def _failed_as(obs: Observation, code: str) -> Evidence | None:
    connector = connector_of(obs)
    return _failure(obs, connector) if connector is not None and _says(connector, code) else None


def _says(connector: ConnectorFacts, code: str) -> bool:
    return any((named(task.trace) or _NOTHING).code == code for task in failed_tasks(connector))


def _failure(obs: Observation, connector: ConnectorFacts) -> Evidence:
    traces = {f"task {task.id} trace": trace_excerpt(task.trace) or "none given" for task in failed_tasks(connector)}
    meant = {f"task {task.id} means": told.meaning for task in failed_tasks(connector) if (told := named(task.trace))}
    return {**state_evidence(obs), **evidence(obs, _STATUS, {**traces, **meant})}
