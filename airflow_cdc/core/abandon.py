"""Giving up an open recovery, or some of its tables: how the control document reads afterwards.

An abandoned table keeps the stamp it had before the recovery, which is of a lower epoch than the control document
asks for: apply refuses it, and the diagnosis names it, until another recovery publishes it (INV 1, 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from airflow_cdc.core.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.core.errors import UsageError

Document = dict[str, Any]

ABANDONED: Final = "abandoned"
# what a detour writes as soon as it has changed something of the connector
_TOUCHED = ("offset_before", "config_changed", "replica")


@dataclass(frozen=True, slots=True)
class Abandonment:
    """Who gave up tables of which recovery, when, and why."""

    at: str
    who: str
    reason: str
    run_id: str


def abandoned_tables(recovery: Mapping[str, Any], asked: Sequence[str]) -> tuple[str, ...]:
    """The tables of the open recovery to give up: those asked for, or all that are not published yet.

    Raises UsageError for a table that is not in the recovery or is published, and for a detour whose connector still
    has to be put back.
    """
    tables, published = list(recovery["tables"]), set(recovery.get("published") or {})
    if recovery.get("strategy") in POSITION_ONLY:
        _check_position_only(recovery, asked)
    if strangers := sorted(set(asked) - set(tables)):
        raise UsageError(
            f"the open recovery {recovery['run_id']} has no table {strangers[0]}",
            todo=f"Choose from: {', '.join(table for table in tables if table not in published)}.",
        )
    if done := sorted(set(asked) & published):
        raise UsageError(
            f"{done[0]} is published already, and equal to its source: there is nothing to abandon",
            todo="Leave it out.",
        )
    return tuple(asked) or tuple(table for table in tables if table not in published)


def _check_position_only(recovery: Mapping[str, Any], asked: Sequence[str]) -> None:
    if any(recovery.get(field) for field in _TOUCHED):
        raise UsageError(
            f"the open recovery is a {recovery['strategy']} that has changed the connector's position or address",
            todo="Trigger cdc_recovery with the strategy full_snapshot: it puts the connector back first; that recovery "
            "can be finished or abandoned.",
        )
    if asked:
        raise UsageError(
            f"the open recovery is a {recovery['strategy']}, which has no tables of its own", todo="Leave out --table."
        )


def without_tables(document: Document, tables: Iterable[str], given_up: Abandonment) -> Document:
    """The control document once `tables` of its open recovery are given up; with the last one the recovery closes."""
    recovery, note, gone = document["recovery"], asdict(given_up), set(tables)
    left = [table for table in recovery["tables"] if table not in gone]
    run_id = recovery["run_id"]
    mine = document["ledger"].get(run_id, {})
    notes = {**(mine.get(ABANDONED) or {}), **dict.fromkeys(sorted(gone), note)}
    closing = {} if left else {"recovery": ABANDONED, "closed_at": given_up.at}
    return {
        **document,
        "recovery": {**recovery, "tables": left} if left else None,
        ABANDONED: {**(document.get(ABANDONED) or {}), **dict.fromkeys(sorted(gone), note)},
        "ledger": {**document["ledger"], run_id: {**mine, ABANDONED: notes, **closing}},
    }


def recovered(document: Document, tables: Iterable[str]) -> Document:
    """The control document once `tables` were published: they are abandoned no longer."""
    done = set(tables)
    left = {table: note for table, note in (document.get(ABANDONED) or {}).items() if table not in done}
    return {**document, ABANDONED: left}
