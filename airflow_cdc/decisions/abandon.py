"""Giving up an open recovery, or some of its tables.

An abandoned table keeps the stamp it had before the recovery, which is of a lower epoch than the control document
asks for: apply refuses it, and the diagnosis names it, until another recovery publishes it (INV 1, 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.decisions.diagnosis.strategy import POSITION_ONLY

ABANDONED: Final = "abandoned"


@dataclass(frozen=True, slots=True)
class Abandonment:
    """Who gave up tables of which recovery, when, and why."""

    at: str
    who: str
    reason: str
    run_id: str


def abandoned_tables(recovery: OpenRecovery, chosen: Sequence[str]) -> tuple[str, ...]:
    """The tables of the open recovery to give up: the chosen ones, or all that are not published and proven yet.

    Raises UsageError for a table that is not in the recovery or is settled, and for a detour whose connector still
    has to be restored.
    """
    tables, unsettled = recovery.tables, recovery.unsettled
    if recovery.strategy in POSITION_ONLY:
        _check_position_only(recovery, chosen)
    if strangers := sorted(set(chosen) - set(tables)):
        raise UsageError(
            f"the open recovery {recovery.run_id} has no table {strangers[0]}",
            todo=f"Choose from: {', '.join(unsettled)}.",
        )
    if done := sorted(set(chosen) - set(unsettled)):
        raise UsageError(
            f"{done[0]} is already published and equal to its source: there is nothing to abandon",
            todo="Leave it out.",
        )
    return tuple(chosen) or tuple(unsettled)


def _connector_changed(recovery: OpenRecovery) -> bool:
    """Whether a recovery that only moves the position has changed something of the connector."""
    moved = recovery.backup is not None and bool(recovery.backup.value)
    return moved or bool(recovery.settings_before) or bool(recovery.replica.conn_id)


def _check_position_only(recovery: OpenRecovery, chosen: Sequence[str]) -> None:
    if _connector_changed(recovery):
        raise UsageError(
            f"the open recovery is a {recovery.strategy} that has changed the connector's position or address",
            todo="Trigger cdc_recovery with the strategy full_snapshot: it first restores the connector, and "
            "can be finished or abandoned.",
        )
    if chosen:
        raise UsageError(
            f"the open recovery is a {recovery.strategy}, which has no tables of its own", todo="Leave out --table."
        )
