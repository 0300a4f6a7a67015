"""Corrections in Debezium's own form: a row as its snapshot writes one, and the delete of a ghost (INV 23, 47).

Each is made of a record of the topic: its newest one, or of a ghost its last one. Only the row, the operation, the times and
the place are replaced.
"""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.events.frame import Sealed, Standing
from airflow_cdc.events.record import DELETE, READ, Opened, Record, Unreadable, Wires
from airflow_cdc.events.value import Shape, Values, Wire, written_key, written_row

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.events.source import SourceBlock
    from airflow_cdc.core.table import Table
    from airflow_cdc.events.record import Headers
    from airflow_cdc.events.wire import Schemas, Wiring
    from airflow_cdc.events.wire.drafts import Draft, Part

_NULL: Final = Shape(Wire.STRING)
_OF: Final = {int: Shape(Wire.INT), str: Shape(Wire.STRING)}
_ENVELOPE: Final = frozenset({"before", "after", "source", "op"})
# a field → how many of it a microsecond has, and how many microseconds it has
_CLOCKS: Final[Mapping[str, tuple[int, int]]] = {"ts_ms": (1, 1000), "ts_us": (1, 1), "ts_ns": (1000, 1)}


class Pattern(NamedTuple):
    """What corrections of a table are made by: a record of its topic, and where they stand."""

    table: Table
    values: Values
    template: Record
    schemas: Schemas
    place: Standing


@dataclass(frozen=True, slots=True)
class KeySealer:
    """Writes keys as those of a topic's newest record are written."""

    draft: Draft
    shape: Shape

    @classmethod
    def of(cls, wiring: Wiring, pattern: Pattern) -> KeySealer:
        """Raises SchemaError where the topic's keys have other columns than the table's, or more."""
        key = pattern.template.key
        if key is None:
            raise SchemaError(
                "the topic's newest record has no key",
                where=f"table {pattern.table.full_name}",
                todo="Let the connector write keys: corrections find their row by it.",
            )
        draft = wiring.draft(key, pattern.template.headers, pattern.schemas)
        shape = written_key(pattern.table, pattern.values)
        if other := other_columns("key", draft, tuple(draft.fields), shape, pattern.table):
            raise other
        return cls(draft, shape)

    def sealed(self, wires: Wires) -> bytes:
        """The bytes of a key."""
        return self.draft.sealed(parts_of(self.draft, self.shape, wires))


@dataclass(frozen=True, slots=True)
class EnvelopeSealer:
    """Seals changes of one table. `template` is the record that they are made of.

    `other`: the error of a row where the template was written for other columns than the table has now. A delete does not
    need these: it carries the row of the ghost's own last record, whatever columns the table had then.
    """

    table: Table
    block: SourceBlock
    key: KeySealer
    value: Draft
    row: Shape
    template: Record
    place: Standing
    other: SchemaError | None

    @classmethod
    def of(cls, key: KeySealer, value: Wiring, block: SourceBlock, pattern: Pattern) -> EnvelopeSealer:
        """Raises SchemaError for a record without a value."""
        table, template = pattern.table, pattern.template
        if template.value is None:
            raise SchemaError(
                "a tombstone is no record that others are made of",
                where=f"table {table.full_name}",
                todo="Let the connector write a row of this table, then recover.",
            )
        draft = value.draft(template.value, template.headers, pattern.schemas)
        row = written_row(table, pattern.values)
        if not draft.fields.keys() >= _ENVELOPE:
            raise Unreadable("is no change event")
        other = other_columns("row", draft, draft.declared("after"), row, table)
        return cls(table, block, key, draft, row, template, pattern.place, other)

    def __call__(self, change: Opened) -> Sequence[Sealed]:
        """A row of the source, as the connector's snapshot writes it; or a delete of the template's row, and its tombstone.

        Raises `other` for a row.
        """
        if change.op == READ and change.key is not None and change.after is not None:
            if self.other:
                raise self.other
            row = self.value.struct(parts_of(self.value, self.row, change.after))
            event = self._event(READ, self._null, row, "true")
            return (Sealed(self.key.sealed(change.key), event, self.template.headers),)
        if change.op != DELETE:
            raise Unreadable(f"a change {change.op!r} is not written into a topic")
        last = self.value.fields["after"]
        if self.value.inside(last) is None:
            raise Unreadable("has no row that could be deleted")
        event = self._event(DELETE, last, self._null, None)
        headers: Headers = self.template.headers
        return (Sealed(self.template.key, event, headers), Sealed(self.template.key, None, headers))

    @property
    def _null(self) -> Part:
        return self.value.part(_NULL, None)

    def _event(self, op: str, before: Part, after: Part, snapshot: str | None) -> bytes:
        fields = dict(self.value.fields)
        source = dict(self.value.inside(fields["source"]) or {})
        told = {**dict(self.block.standing(self.place)), "snapshot": snapshot, **clocks(source, self.place.micros)}
        source |= {name: plain_part(self.value, value) for name, value in told.items() if name in source}
        fields |= {
            "before": before,
            "after": after,
            "op": plain_part(self.value, op),
            "source": self.value.struct(source),
        }
        fields |= {
            name: plain_part(self.value, value) for name, value in clocks(fields, time.time_ns() // 1000).items()
        }
        if "transaction" in fields:
            fields["transaction"] = self._null
        return self.value.sealed(fields)


def plain_part(draft: Draft, value: object) -> Part:
    """A text, a number or NULL of the envelope."""
    return draft.part(_NULL, None) if value is None else draft.part(_OF[type(value)], value)


def clocks(fields: Container[str], micros: int) -> dict[str, int]:
    """Those of the fields that say when, at this time."""
    return {name: micros * times // parts for name, (times, parts) in _CLOCKS.items() if name in fields}


def parts_of(draft: Draft, shape: Shape, wires: Wires) -> dict[str, Part]:
    """Connect values as the fields of a struct."""
    named = zip(shape.parts, wires, strict=True)
    return {draft.name_of(name): draft.part(part, value) for (name, part), value in named}


def other_columns(
    what: str, draft: Draft, names: Sequence[str] | None, shape: Shape, table: Table
) -> SchemaError | None:
    """The error of a record that has other fields than are written; `names`: its own, None where it declares none."""
    wanted = [draft.name_of(name) for name, _ in shape.parts]
    if names is None or list(names) == wanted:
        return None
    return SchemaError(
        f"the topic's newest record has the {what} ({', '.join(names)}), and the table now has ({', '.join(wanted)})",
        where=f"table {table.full_name}",
        todo="Let the connector send one change of the table, or snapshot it again, then recover: rows are written as its newest"
        " record is.",
    )
