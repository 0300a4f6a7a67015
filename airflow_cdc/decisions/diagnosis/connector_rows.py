"""The rows about the state of a connector, for every kind that has one: failed, stopped, between states, stuck."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.problem import AnyCase, Evidence, Problem
from airflow_cdc.decisions.diagnosis.evidence import (
    STATUS,
    all_failed_as,
    evidence,
    failure_evidence,
    offset_evidence,
    state_evidence,
    states,
)

STILL: Final = frozenset({"STOPPED", "PAUSED"})
# how a table differs that the connector has no definition of at all
NOT_IN_HISTORY: Final = "the schema history has no such table"
_SETTLED: Final = frozenset({"RUNNING", "FAILED", "STOPPED", "PAUSED"})


def failed_transient(case: AnyCase) -> Evidence | None:
    """Every failed task reports a lost connection. If one failed for another reason, the failure is not transient."""
    if case.connector is not None and case.connector.offset_unseen:
        return None  # nobody knows whether the source still has the position: see UNKNOWN, which tells of the failure
    return failure_evidence(case) if all_failed_as(case.failures, "CONNECTOR_FAILED_TRANSIENT") else None


def connector_failed(case: AnyCase) -> Evidence | None:
    connector = case.connector
    if connector is None or connector.offset_unseen or not (case.failures or connector.state == "FAILED"):
        return None
    return failure_evidence(case)


def connector_looping(case: AnyCase) -> Evidence | None:
    """The connector reports RUNNING and the source has more changes, but its offset stays and no events arrive."""
    connector = case.connector
    if connector is None or not connector.stands_still or not case.streams:
        return None
    watched = {"nothing moved for": f"{connector.stands_still:.0f} s of watching, while the source has more for it"}
    return {**evidence(case, STATUS, {**watched, **states(connector)}), **offset_evidence(case)}


def connector_stopped(case: AnyCase) -> Evidence | None:
    if case.connector is None or case.connector.state not in STILL:
        return None
    return state_evidence(case)


def unsettled(case: AnyCase) -> Evidence | None:
    connector = case.connector
    if connector is None:
        return None
    states = {connector.state, *(task.state for task in connector.tasks)}
    return None if connector.tasks and states <= _SETTLED else state_evidence(case)


CONNECTOR_STATES: Final = (
    Problem(
        "CONNECTOR_FAILED_TRANSIENT",
        52,
        "The connector failed because a connection was cut; the source still holds everything from its position on.",
        failed_transient,
        ("restart",),
        on_request=("full_snapshot", "diff_repair", "translate_gtid"),
        in_order=True,
    ),
    Problem(
        "CONNECTOR_FAILED",
        53,
        "The connector has failed for a reason that a restart meets again; the source still holds everything.",
        connector_failed,
        on_request=("restart", "full_snapshot", "diff_repair", "translate_gtid"),
        in_order=True,
    ),
    Problem(
        "CONNECTOR_STOPPED",
        55,
        "The connector was stopped or paused; nothing is captured until it is resumed.",
        connector_stopped,
        on_request=("restart", "full_snapshot", "diff_repair", "translate_gtid"),
        in_order=True,
    ),
    Problem("UNKNOWN", 56, "The connector is between states; look again in a moment.", unsettled, in_order=True),
    Problem(
        "CONNECTOR_LOOPING",
        57,
        "The connector claims to run and does not come past its position.",
        connector_looping,
        on_request=("restart", "full_snapshot", "diff_repair"),
        in_order=True,
    ),
)
