"""What a changed table definition means for a mirror that only sees row events (INV 13).

DDL may change rows without any row event. Only changes that leave every old row's value as it was, and under which
events from before and after the change decode alike, pass; everything else stops the table and is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_cdc.core.errors import MALFORMED, RereadNeededError, SchemaError
from airflow_cdc.core.table import Column, Table

# A sink table's property: the source definition its rows were written by, as JSON.
DEFINITION = "cdc.definition"


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """How a mirror follows its source from one definition to the next. Empty if nothing changed.

    Attributes:
        added: new columns; old rows hold NULL in them, unless they are `filled`.
        widened: columns whose type holds more than before.
        dropped: columns that are gone; events from before still name them.
        filled: new column → what all old rows hold in it, as text. It never was nullable.
        never_null: columns that allowed NULL before and do not now: followed if no row of the mirror holds one.
    """

    added: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    never_null: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether the mirror's columns change."""
        return bool(self.added or self.widened or self.dropped)


def dump_definition(table: Table) -> str:
    """The text for the property DEFINITION."""
    return json.dumps(table.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def load_definition(properties: Mapping[str, str]) -> Table | None:
    """The definition that a table's properties hold, or None. Raises SchemaError if it cannot be read."""
    text = properties.get(DEFINITION)
    try:
        return None if text is None else Table.from_json(json.loads(text))
    except MALFORMED as error:
        raise SchemaError(
            f"the property {DEFINITION} cannot be read: {error}", todo="Recover the table: that writes it again."
        ) from error


def check_added(table: Table, column: Column, defaults: Mapping[str, str | None] | None) -> None:
    """Raise SchemaError unless every row from before the column was added holds NULL in it."""
    if column.generated:
        raise refused(table, f"the generated column {column.name} was added: old rows have a value in it")
    if not column.nullable:
        raise refused(table, f"column {column.name} was added as NOT NULL: old rows have a value in it")
    if defaults is None or column.name not in defaults:
        raise refused(table, f"column {column.name} was added and its default is unknown")
    if defaults[column.name] is not None:
        raise refused(table, f"column {column.name} was added with a default: old rows have that value in it")


def stored_definition(properties: Mapping[str, str], fingerprint: str | None) -> Table | None:
    """The definition that a table's properties hold, if it is of that fingerprint (None: none is known).

    Compared as it was written: a newer version of this package may describe more of a column.
    """
    definition = load_definition(properties)
    if definition is None or fingerprint is None:
        return definition
    text = json.dumps(json.loads(properties[DEFINITION]), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return definition if hashlib.sha256(text.encode("ascii")).hexdigest() == fingerprint else None


def refused(table: Table, what: str) -> RereadNeededError:
    """The error for a change that only reading the table again can follow."""
    return RereadNeededError(
        f"the source's definition changed, and events do not contain the effect: {what}",
        where=f"table {table.full_name}",
        todo="Recover the table (full_snapshot), or let apply re-read it (policy.schema_change).",
    )
