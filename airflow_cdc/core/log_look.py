"""What a look at a source's log found: tables whose rows changed although a connector sees no event of it (INV 31)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLook:
    """A look at the log from a place on.

    Attributes:
        tables: "schema.table" of the changes that no event tells of.
        upto: where the next look begins, in the source's own words.
        events: how many events were looked at.
        why: why a part of the log was not looked at; "" if all of it was.
        what, todo: what happened to these tables, and what to do first, in the source's own words.
    """

    tables: frozenset[str]
    upto: str
    events: int = 0
    why: str = ""
    what: str = ""
    todo: str = ""
