"""Updates that the source's log holds only in part, so that the connector sends no event of them (INV 31).

Only a table with JSON documents can have any; it is read again, as after any change without events.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_cdc.core.errors import RereadNeededError
from airflow_cdc.core.ports import LogLook
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Json
from airflow_cdc.flows.capture import present
from airflow_cdc.flows.run import Run
from airflow_cdc.reports.stored import LASTING

log = logging.getLogger("airflow_cdc.partial")

LOOKED: Final = f"{LASTING}partial_updates"
# where the first look begins; and table → where its next one does
_FIRST, _NEXT = "first", "next"
# so many events are looked at again rather than write the control document
FEW_EVENTS: Final = 2_000
# a look from the same place would read more than these each time: a fourth of a second of the server's
MANY_EVENTS: Final = 50_000


@dataclass(frozen=True, slots=True)
class InPart:
    """What an apply's look at the log says.

    Attributes:
        tables: those with such updates.
        upto: table → where its next look begins, once it is read again if it is among `tables`; only what is worth a write.
        what, todo: see LogLook.
    """

    tables: frozenset[str] = frozenset()
    upto: Mapping[str, str] = field(default_factory=dict)
    what: str = ""
    todo: str = ""

    def refuse(self, table: Table) -> None:
        """Raise RereadNeededError for such a table."""
        if table.full_name in self.tables:
            raise RereadNeededError(
                self.what,
                where=f"table {table.full_name}",
                todo=f"{self.todo} Recover the table, or let apply re-read it (policy.schema_change).",
            )

    def settle(self, run: Run, stopped: Collection[str]) -> None:
        """Let the next apply look from here on, but for tables that are not read again yet."""
        settled = {name: place for name, place in self.upto.items() if name not in self.tables or name not in stopped}
        if settled:
            before = run.clients.control.ledger_get(LOOKED).get(_NEXT, {})
            run.clients.control.ledger_set(LOOKED, _NEXT, {**before, **settled})


def begin(run: Run) -> None:
    """Note where the first look is to begin: before W, since a recovery reads everything before that."""
    if _FIRST not in run.clients.control.ledger_get(LOOKED) and (look := run.clients.source.partial_updates("")):
        run.clients.control.ledger_once(LOOKED, _FIRST, look.upto)


@dataclass(slots=True)
class Looks:
    """Looks at the log before an apply begins, again and again; noted nowhere, so that the apply finds the same.

    `ends`: where an apply's look would begin → where ours has ended, and after how many events. `documents`: the tables that
    have JSON documents; None: not read yet.
    """

    ends: dict[str, tuple[str, int]] = field(default_factory=dict)
    documents: frozenset[str] | None = None

    def tables(self, run: Run, names: Sequence[str]) -> list[str]:
        """Those of the tables with such updates since the last apply's look; all with JSON documents if that is long ago,
        since only an apply notes from where on the next one looks. A log that can't be looked at names none.
        """
        # a recovery notes a place only if the source has such events, so that the others' definitions need not be read
        places = {place: tables for place, tables in _places(run, names).items() if place}
        if places and self.documents is None:
            self.documents = frozenset(_with_documents(present(run, names).values()))
        found = set[str]()
        for place, tables in places.items():
            begin, events = self.ends.get(place, (place, 0))
            of_documents = (self.documents or frozenset()).intersection(tables)
            look = run.clients.source.partial_updates(begin) if of_documents else None
            if look is not None:
                self.ends[place] = look.upto, events + look.events
                found |= of_documents & look.tables if events + look.events <= MANY_EVENTS else of_documents
        return sorted(found)


def in_part(run: Run, definitions: Iterable[Table]) -> InPart:
    """Look at the log since the last look, for those of the tables that have JSON documents."""
    logged = InPart()
    for place, tables in _places(run, _with_documents(definitions)).items():
        look = run.clients.source.partial_updates(place)
        if look is not None:
            logged = _with(logged, look, place, tables)
    return logged


def _with_documents(definitions: Iterable[Table]) -> Sequence[str]:
    return [t.full_name for t in definitions if any(isinstance(column.type, Json) for column in t.mirrored)]


def _places(run: Run, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Where an apply's look begins → the tables that it is for: one place, but for tables that are not read again yet."""
    places = run.clients.control.ledger_get(LOOKED)
    since = defaultdict[str, list[str]](list)
    for name in names:
        since[places.get(_NEXT, {}).get(name, places.get(_FIRST, ""))].append(name)
    return since


def _with(logged: InPart, look: LogLook, place: str, tables: Sequence[str]) -> InPart:
    if look.why:
        log.warning(
            "updates that are logged in part were not looked for: %s; the nightly comparison finds them", look.why
        )
    partial = look.tables & set(tables)
    worth = partial or look.why or not place or look.events > FEW_EVENTS
    upto = {**logged.upto, **(dict.fromkeys(tables, look.upto) if worth else {})}
    return InPart(logged.tables | partial, upto, look.what or logged.what, look.todo or logged.todo)
