"""Evidence texts, shared by the rows of the diagnosis of all systems."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.core.observation import (
    ConnectorFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    TransportFacts,
)
from airflow_cdc.core.problem import AnyCase, Evidence, Failure
from airflow_cdc.core.text import shorten, trace_excerpt

OFFSETS = "connector offsets"
STATUS = "connector status"


def transport_of(obs: Observation) -> TransportFacts | None:
    return obs.transport if isinstance(obs.transport, TransportFacts) else None


def tables_of(obs: Observation) -> Mapping[str, SinkTableFacts] | None:
    return obs.sink.tables if isinstance(obs.sink, SinkFacts) else None


def evidence(case: AnyCase, where: str, values: Mapping[str, object]) -> Evidence:
    """Each value with where and when it was read."""
    return {name: f"{value} [{where}, {case.seen.taken_at}]" for name, value in values.items()}


def server_evidence(case: AnyCase, values: Mapping[str, object]) -> Evidence:
    """Values read from the source's server; {} if it could not be read."""
    return evidence(case, case.source.server, values) if case.source else {}


def offset_evidence(case: AnyCase) -> Evidence:
    """The stored position, or the fact that there is none, or that it can't be read."""
    unseen = case.connector is not None and case.connector.offset_unseen
    nothing = "unknown, as it can't be read where it is kept" if unseen else "none"
    shown = nothing if case.stored is None else shorten(str(case.stored))
    return evidence(case, OFFSETS, {"stored offset": shown})


def states(connector: ConnectorFacts) -> dict[str, str]:
    """The states of the connector and its tasks."""
    tasks = {f"task {task.id} state": task.state for task in connector.tasks}
    return {"connector state": connector.state, **(tasks or {"tasks": "none"})}


def state_evidence(case: AnyCase) -> Evidence:
    """The connector's state as evidence; {} if the connector could not be read."""
    return evidence(case, STATUS, states(case.connector)) if case.connector else {}


def failure_evidence(case: AnyCase) -> Evidence:
    """The states, and for each failed task its error and what that means."""
    traces = {f"task {one.task.id} trace": trace_excerpt(one.task.trace) or "none given" for one in case.failures}
    meant = {f"task {one.task.id} means": one.named.meaning for one in case.failures if one.named}
    return {**state_evidence(case), **evidence(case, STATUS, {**traces, **meant})}


def failed_as(case: AnyCase, code: str) -> Evidence | None:
    """Evidence, if a failed task's error means this problem code."""
    return failure_evidence(case) if any(failure.code == code for failure in case.failures) else None


def all_failed_as(failures: tuple[Failure, ...], code: str) -> bool:
    """Whether there are failures and the errors of all of them mean this problem code."""
    return bool(failures) and all(failure.code == code for failure in failures)
