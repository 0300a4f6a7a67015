"""One of Canal's messages, whatever it is written in: the rows of one statement of one table, and the changes that they are.

A record tells its place in the log by GTID alone: the set of all transactions up to its own. Rows of one transaction are in
the order of the topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from airflow_cdc.core.table import Table
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    OPS,
    TRUNCATE,
    UPDATE,
    WITH_AFTER,
    WITH_BEFORE,
    LogPlace,
    Opened,
    Record,
    Side,
    Want,
    Wires,
)

# a row, or what an update replaced in it: column → its text, None for NULL
Row: TypeAlias = Mapping[str, object]

_TRUNCATE: Final = "TRUNCATE"
_UPDATE: Final = "UPDATE"
_OPS: Final = {"INSERT": CREATE, _UPDATE: UPDATE, "DELETE": DELETE, _TRUNCATE: TRUNCATE}
# One server's transactions without a hole: then the last number is that of the record's own transaction.
_ONE_SERVER: Final = re.compile(r"([0-9a-f-]{36}):(?:1-)?([0-9]{1,19})")
_MOST: Final = 2**63


class Message(NamedTuple):
    """A message as it is written. Everything may be None: not there."""

    data: Sequence[Row | None] | None
    old: Sequence[Row | None] | None
    database: str | None
    table: str | None
    type: str | None
    is_ddl: bool | None
    es: int | None
    gtid: str | None


class _Change(NamedTuple):
    """One row's change. `at`: its number within the message; `was`: what it replaced."""

    at: int
    op: str
    now: Row | None
    was: Row | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Makes the changes of one table out of messages. `others`: whether a change of another table is told."""

    table: Table
    want: Want
    others: bool
    _names: tuple[str, ...] = field(init=False)
    _known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", tuple(column.name for column in self.table.mirrored))
        object.__setattr__(self, "_known", frozenset(self._names))

    def of(self, message: Message, record: Record, first: int, nth: int) -> Iterator[Opened]:
        """The changes of a message, none of a statement that changes no row itself.

        `first`: how many rows stand before it in its record, of any table, `nth` how many changes that are given out.
        """
        if message.is_ddl and message.type not in {None, _TRUNCATE}:
            return
        if None not in (message.database, message.table):
            table = f"{message.database}.{message.table}"
            if table != self.table.full_name:
                if self.others:
                    yield Opened(_op(message), nth=nth, table=table)
                return
        place = _place(message, record)
        for number, one in enumerate(self._changes(message), nth):
            at = None if place is None else place._replace(row=2 * first + one.at)
            yield self._opened(message, one, at, number)

    def _changes(self, message: Message) -> Iterator[_Change]:
        """A change that moves a row to another key is a delete of the old key and a create of the new one, as everywhere."""
        op = _op(message)
        if not message.data:
            yield _Change(0, op, None, None)
            return
        old = message.old if message.type == _UPDATE and message.old else ()
        for n, now in enumerate(message.data):
            was = old[n] if n < len(old) else None
            if was is not None and any(name in was for name in self.table.key):
                yield _Change(2 * n, DELETE, now, was)
                yield _Change(2 * n + 1, CREATE, now, None)
            else:
                yield _Change(2 * n, op, now, was)

    def _opened(self, message: Message, change: _Change, at: LogPlace | None, nth: int) -> Opened:
        op, now, was = change.op, change.now, change.was
        before = None if now is None else {**now, **(was or {})}
        key = before if op == DELETE else now
        old_known = was is not None or message.type == "DELETE"
        return Opened(
            op,
            None if key is None else _wires(key, self.table.key),
            self._image(before) if self.want.before is not Side.NONE and op in WITH_BEFORE and old_known else None,
            self._image(now) if self.want.after is not Side.NONE and op in WITH_AFTER else None,
            at,
            nth=nth,
            ts_ms=message.es,
            bad=_bad(message, change, at),
            unknown=self._unknown(now),
        )

    def _image(self, row: Row | None) -> Wires | None:
        return None if row is None else _wires(row, self._names)

    def _unknown(self, now: Row | None) -> tuple[str, ...]:
        return (
            () if now is None or now.keys() <= self._known else tuple(name for name in now if name not in self._known)
        )


def _wires(row: Row, names: Sequence[str]) -> Wires:
    return tuple(row.get(name) for name in names)


def _op(message: Message) -> str:
    return _OPS.get(message.type or "", message.type or "")


def _place(message: Message, record: Record) -> LogPlace | None:
    """The place of the message's transaction; the change's own number is still to be put in."""
    match = _ONE_SERVER.fullmatch(message.gtid or "")
    if match is None or int(match[2]) >= _MOST:
        return None
    origin, n = match[1], int(match[2])
    return LogPlace(origin, n, record.offset, 0, f"{origin}/gtid", n, f"{origin}:{n}", message.es)


def _bad(message: Message, change: _Change, at: LogPlace | None) -> str:
    """Why the change can't be applied, whatever its values are."""
    if not change.op:
        return "the value is not a change event: it has no type"
    if change.op not in OPS:
        return f"unknown type {change.op}"
    if at is None:
        return "the event has no position: its gtid is not the set of one server without a hole"
    if change.now is None and change.op != TRUNCATE:
        return "the event has no row"
    if (
        message.type == _UPDATE
        and None not in (message.data, message.old)
        and len(message.data or ()) != len(message.old or ())
    ):
        return "the event has not an old row for each row"
    return ""
