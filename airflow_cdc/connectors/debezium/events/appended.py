"""Changes as the rows of a change log hold them: a sink connector appended each, and kept neither bytes nor place.

What is left of a change: its operation, and the row after it, or before it was deleted, in Connect values as schemaless JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.connectors.debezium.events.keys import KeyReader
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.table import Table
from airflow_cdc.events.frame import Open, Seal, Standing, said
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    READ,
    UPDATE,
    WITH_AFTER,
    Opened,
    Record,
    SchemaId,
    Unreadable,
    Want,
)
from airflow_cdc.events.value import WRONG, Shape, Values, Wire, row_shape
from airflow_cdc.events.wire import Schemas
from airflow_cdc.events.wire.json import Json

_PLAIN: Final = Json(wrapped=False)
_OPS: Final = frozenset({CREATE, UPDATE, DELETE, READ})


@dataclass(frozen=True, slots=True)
class Appended:
    """Satisfies events.frame.Frame. A record's key holds the key's columns, its value `op` and `after`."""

    headers: bool = False

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:  # noqa: ARG002 - JSON needs no schema
        """See Frame."""
        return ()

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:  # noqa: ARG002 - as Frame asks
        """See Frame."""
        keys = KeyReader.of(_PLAIN, table, values, None, schemas)
        shape = Shape(Wire.STRUCT, (("op", Shape(Wire.STRING)), ("after", row_shape(table, values))))
        reader = _PLAIN.reader(shape, schemas)

        def opened(record: Record) -> Iterable[Opened]:
            key = keys.read(record)
            try:
                op, after = reader(record.value or b"", ())
            except Unreadable as error:
                return (Opened("", key.wires, bad=key.bad or said("value", error)),)
            row = None if after is WRONG or op not in WITH_AFTER else after
            return (Opened(op, key.wires, None, row, bad=key.bad or _bad(op, row)),)

        return opened

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:  # noqa: ARG002
        """See Frame: nothing is written like a row of a log."""
        raise ConfigError(
            "rows of a change log are read, and not written",
            where=f"table {table.full_name}",
            todo="Write into the table's topic.",
        )


def _bad(op: object, row: object) -> str:
    if op not in _OPS:
        return f"unknown op {op}"
    return "the change has no row after it" if row is None and op in WITH_AFTER else ""
