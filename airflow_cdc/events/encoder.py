"""The inverse of the decoder: rows of the source → changes of which a connector's frame makes its own records.

What is written is read again by the decoder as the same row: a value for which that does not hold is refused by the name of its
column, as is a column whose values can't be written exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_cdc.core.errors import MALFORMED, SchemaError
from airflow_cdc.events.record import READ, Opened

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table
    from airflow_cdc.events.value import Conversion, Values


@dataclass(frozen=True, slots=True)
class Encoder:
    """Makes changes of one table's rows. `writes`: each column's name, and what makes a Connect value of its value."""

    table: Table
    writes: tuple[tuple[str, Conversion], ...]

    def changes(self, rows: pa.Table) -> Iterator[Opened]:
        """Each row, in the columns' sink types, as a row of a snapshot. Raises SchemaError for a value that can't be written."""
        names = [name for name, _ in self.writes]
        at = [names.index(name) for name in self.table.key]
        for row in zip(*(logical(rows[name]) for name in names), strict=True):
            wires = [self._wire(name, write, value) for (name, write), value in zip(self.writes, row, strict=True)]
            yield Opened(READ, key=[wires[one] for one in at], after=wires)

    def _wire(self, name: str, write: Conversion, value: object) -> object:
        if value is None:
            return None
        try:
            return write(value)
        except (*MALFORMED, ArithmeticError) as error:
            raise SchemaError(
                "the column has a value that the connector's events would not carry as it is",
                where=f"column {name} of {self.table.full_name}",
                todo="Exclude the column on the connector, or correct the value, and recover again.",
            ) from error


def encoder(table: Table, values: Values) -> Encoder:
    """The encoder of a table's rows. Raises SchemaError for columns that can't be written exactly."""
    made = [(column.name, values.value(column).write) for column in table.mirrored]
    if refused := [name for name, write in made if write is None]:
        raise SchemaError(
            f"values of {', '.join(refused)} can't be written as the connector writes them",
            where=f"table {table.full_name}",
            todo="Let the connector snapshot the table again, then recover: only rows that are gone are left to write. Or exclude"
            " the columns on the connector.",
        )
    return Encoder(table, tuple((name, write) for name, write in made if write is not None))


def logical(values: pa.Array | pa.ChunkedArray) -> Sequence[object]:
    """A column's values as a table of values reads and writes them: an instant is microseconds, a date days."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    read: Sequence[object] = values.to_pylist()
    return read
