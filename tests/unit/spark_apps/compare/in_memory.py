"""A source with a numbered log and a sink, both in memory: what a comparison reads, written by the reference alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from airflow_cdc.core.position import Covered
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.canonical import key_text, row_hash
from airflow_cdc.decisions.compare.changelog import Event
from airflow_cdc.decisions.compare.leaves import (
    IntegerLeaves,
    KeyHash,
    Leaf,
    LeafScheme,
    leaf_at,
    leaf_of,
    merge_leaves,
    row_leaf,
)
from airflow_cdc.decisions.compare.part import WHOLE, LeafRows, Part
from airflow_cdc.decisions.compare.verdict import Image, Rows

Row = Mapping[str, Any]
WAL = "wal"


def image_of(table: Table, row: Row) -> Image:
    """A row as both sides write it."""
    return (row_hash(table, row),)


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of one table on one side, which no later change reaches."""

    table: Table
    rows: Sequence[Row]

    def within(self, part: Part) -> list[Row]:
        """The rows of a part, which is made of ranges of the key here."""
        chosen = part.rows
        if chosen is None:
            return list(self.rows)
        assert isinstance(chosen, LeafRows)
        assert isinstance(chosen.scheme, IntegerLeaves)
        width, column = chosen.scheme.width, chosen.scheme.column
        return [row for row in self.rows if leaf_at(width, row[column]) in chosen.leaves]

    def digest(self, scheme: LeafScheme, part: Part) -> dict[int, Leaf]:
        return merge_leaves(
            [
                {leaf_of(self.table, scheme, key_text(self.table, row)): row_leaf(row_hash(self.table, row))}
                for row in self.within(part)
            ]
        )

    def texts(self, scheme: LeafScheme, leaves: Sequence[int], part: Part) -> list[tuple[str, str]]:
        pairs = [(key_text(self.table, row), row_hash(self.table, row)) for row in self.within(part)]
        return [pair for pair in pairs if leaf_of(self.table, scheme, pair[0]) in leaves]

    def under(self, keys: Iterable[str], part: Part) -> Rows:
        wanted, found = set(keys), Rows()
        for row in self.within(part):
            if (key := key_text(self.table, row)) in wanted:
                found.setdefault(key, []).append(image_of(self.table, row))
        return found


@dataclass(frozen=True, slots=True)
class View:
    """A read view of the source. `position`: the number of the last change that it shows; None where views do not say."""

    held: Held
    position: int | None

    def leaves(self, scheme: LeafScheme, part: Part) -> dict[int, Leaf]:
        return self.held.digest(scheme, part)

    def count(self) -> int:
        return len(self.held.rows)

    def bounds(self) -> tuple[int, int] | None:
        if self.held.table.keyless or not self.held.rows:
            return None
        numbers = [row[self.held.table.key[0]] for row in self.held.rows]
        return min(numbers), max(numbers)

    def hashes(self, scheme: LeafScheme, leaves: Sequence[int], part: Part) -> list[tuple[str, str]]:
        return self.held.texts(scheme, leaves, part)

    def images(self, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        return self.held.under(keys, part)


@dataclass(frozen=True, slots=True)
class Sink:
    """The sink's pinned version."""

    held: Held
    version: int = 7
    spark: Any = None
    small: None = None

    def leaves(self, _table: Table, scheme: LeafScheme, part: Part = WHOLE) -> dict[int, Leaf]:
        return self.held.digest(scheme, part)

    def count(self) -> int:
        return len(self.held.rows)

    def hashes(
        self, _table: Table, scheme: LeafScheme, leaves: Sequence[int], part: Part = WHOLE
    ) -> list[tuple[str, str]]:
        return self.held.texts(scheme, leaves, part)

    def images(self, _table: Table, keys: Iterable[str], part: Part = WHOLE) -> Rows:
        return self.held.under(keys, part)


class Log:
    """Its positions are the numbers of changes."""

    def covered(self, position: int | None) -> Covered:
        return Covered(numbers={WAL: ((1, position),)}) if position else Covered()


@dataclass(slots=True)
class Source:
    """One table with a log of changes. Satisfies what a comparison asks of a RowReader.

    Attributes:
        exact_views: whether a view says which changes it shows.
        meanwhile: called before each new view with how many there were; it may change rows.
        opened: how many views were opened.
        older: of the next views, how many changes each shows; after them each shows all.
    """

    table: Table
    rows: list[Row]
    exact_views: bool = False
    events: list[Event] = field(default_factory=list)
    meanwhile: Callable[[int], None] = lambda _opened: None
    opened: int = 0
    older: list[int] = field(default_factory=list)
    states: list[tuple[Row, ...]] = field(default_factory=list)
    visible: list[object] = field(default_factory=list)
    key_hash: KeyHash = KeyHash.CRC32

    def change(self, before: Row | None, after: Row | None) -> int:
        """One change in the log; returns how many there are."""
        number, row = len(self.events) + 1, cast("Row", after or before)
        self.states = self.states or [tuple(self.rows)]
        if before is not None:
            self.rows.remove(before)
        if after is not None:
            self.rows.append(after)
        self.states.append(tuple(self.rows))
        op = "c" if before is None else "d" if after is None else "u"
        was, now = (None if one is None else image_of(self.table, one) for one in (before, after))
        key = None if self.table.keyless else key_text(self.table, row)
        place = (number, number, 0)
        self.events.append(Event(0, number - 1, op, WAL, place, (WAL, number), f"{WAL}:{number}", key, was, now))
        return number

    @property
    def end(self) -> dict[int, int]:
        """The end of its topic now."""
        return {0: len(self.events)}

    @property
    def topic(self) -> Any:
        return SimpleNamespace(log=Log(), name="orders")

    @contextmanager
    def view(self, _table: Table, *, at: object) -> Iterator[View]:
        del at
        self.meanwhile(self.opened)
        self.opened += 1
        shows = self.older.pop(0) if self.older else len(self.events)
        rows = self.states[shows] if shows < len(self.events) else tuple(self.rows)
        yield View(Held(self.table, rows), shows if self.exact_views else None)

    @contextmanager
    def views(self, tables: Sequence[Table], *, at: object) -> Iterator[list[View]]:
        with self.view(tables[0], at=at) as one:
            yield [one]

    def wait_visible(self, at: object, _timeout: float) -> None:
        self.visible.append(at)

    def sizes(self, tables: Sequence[Table]) -> dict[str, Any]:
        return {table.full_name: SimpleNamespace(rows=len(self.rows)) for table in tables}
