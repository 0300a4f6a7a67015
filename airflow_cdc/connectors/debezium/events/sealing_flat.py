"""Corrections in the flattened form: the row, and as much of the envelope as the transform keeps beside it.

Only where a delete leaves its row, marked as deleted (`rewrite`): of other forms the bytes of a delete differ from converter to
converter, and some leave nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_cdc.connectors.debezium.events.sealing import (
    KeySealer,
    Pattern,
    clocks,
    other_columns,
    parts_of,
    plain_part,
)
from airflow_cdc.connectors.debezium.flattening import DELETED, Deletes
from airflow_cdc.events.frame import Sealed
from airflow_cdc.events.record import DELETE, READ, Opened, Unreadable
from airflow_cdc.events.value import written_row
from airflow_cdc.events.wire.drafts import not_written

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.events.source import SourceBlock
    from airflow_cdc.connectors.debezium.flattening import FlattenedForm
    from airflow_cdc.core.errors import SchemaError
    from airflow_cdc.events.value import Shape
    from airflow_cdc.events.wire import Wiring
    from airflow_cdc.events.wire.drafts import Draft, Part

_TOMBSTONE_TOO: Final = "rewrite-with-tombstone"


@dataclass(frozen=True, slots=True)
class FlattenedSealer:
    """Seals changes of one table. `other`: see EnvelopeSealer."""

    form: FlattenedForm
    block: SourceBlock
    key: KeySealer
    value: Draft
    row: Shape
    pattern: Pattern
    other: SchemaError | None

    @classmethod
    def of(
        cls, form: FlattenedForm, wirings: tuple[Wiring, Wiring], block: SourceBlock, pattern: Pattern
    ) -> FlattenedSealer:
        """Raises ConfigError for a form in which nothing is written."""
        if form.deletes != {Deletes.ROW} or form.headers:
            raise not_written("flattened events but those whose deletes are rows (rewrite) and that add no headers")
        template, row = pattern.template, written_row(pattern.table, pattern.values)
        if template.value is None:
            raise Unreadable("is a tombstone")
        draft = wirings[1].draft(template.value, template.headers, pattern.schemas)
        columns = draft.declared()
        names = None if columns is None else [one for one in columns if one not in form.added]
        other = other_columns("row", draft, names, row, pattern.table)
        return cls(form, block, KeySealer.of(wirings[0], pattern), draft, row, pattern, other)

    def __call__(self, change: Opened) -> Sequence[Sealed]:
        """See EnvelopeSealer."""
        headers = self.pattern.template.headers
        if change.op == READ and change.key is not None and change.after is not None:
            if self.other:
                raise self.other
            row = parts_of(self.value, self.row, change.after)
            event = self.value.sealed(row | self._added(READ, "true"))
            return (Sealed(self.key.sealed(change.key), event, headers),)
        if change.op != DELETE:
            raise Unreadable(f"a change {change.op!r} is not written into a topic")
        event = self.value.sealed({**self.value.fields, **self._added(DELETE, None)})
        delete = Sealed(self.pattern.template.key, event, headers)
        return (delete, Sealed(delete.key, None, headers)) if _TOMBSTONE_TOO in self.form.setting else (delete,)

    def _added(self, op: str, snapshot: str | None) -> dict[str, Part]:
        """What stands beside the row, in its order."""
        place, fields = self.pattern.place, dict(self.form.fields)
        of_source = [part.removeprefix("source.") for part in fields if part.startswith("source.")]
        source: Mapping[str, object] = {
            **dict(self.block.standing(place)),
            "snapshot": snapshot,
            **clocks(of_source, place.micros),
        }
        told = {f"source.{name}": value for name, value in source.items()}
        told |= {"op": op, **clocks([one for one in fields if "." not in one], time.time_ns() // 1000)}
        values = {name: told[part] for part, name in fields.items() if part in told}
        values[DELETED] = "true" if op == DELETE else "false"
        return {
            name: plain_part(self.value, values[name]) if name in values else self.value.fields[name]
            for name in self.value.fields
            if name in self.form.added
        }
