"""The keys of Debezium's records, which every form of an event has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_cdc.events.frame import said
from airflow_cdc.events.record import Record, Unreadable, Wires
from airflow_cdc.events.value import Shape, Values, Wire, key_shape

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.routing import KeyMark
    from airflow_cdc.core.table import Table
    from airflow_cdc.events.wire import Read, Schemas, Wiring

_NO_KEY = "the record has no key"


class Key(NamedTuple):
    """A record's key.

    Attributes:
        wires: its columns' values; None where there is none, or it can't be read.
        garbled: why its bytes can't be read; "" if they can.
        bad: the same, or that there is none.
        mark: what a router wrote into it.
    """

    wires: Wires | None = None
    garbled: str = ""
    bad: str = ""
    mark: object = None


_NOT_WANTED = Key()


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Reads the keys of one table's records. `reader` None: the table has no key, and none is looked at."""

    reader: Read | None
    mark: KeyMark | None
    size: int
    headers: bool = False

    @classmethod
    def of(cls, wiring: Wiring, table: Table, values: Values, mark: KeyMark | None, schemas: Schemas) -> KeyReader:
        """The reader of a table's keys. A router puts its mark beside the columns."""
        if table.keyless:
            return cls(None, mark, 0)
        parts = key_shape(table, values).parts
        marks = () if mark is None else ((mark.field, Shape(Wire.STRING)),)
        return cls(wiring.reader(Shape(Wire.STRUCT, (*parts, *marks)), schemas), mark, len(parts), wiring.headers)

    def read(self, record: Record) -> Key:
        """The key of a record."""
        if self.reader is None:
            return _NOT_WANTED
        if record.key is None:
            return Key(bad=_NO_KEY)
        try:
            wires = self.reader(record.key, record.headers if self.headers else ())
        except Unreadable as error:
            why = said("key", error)
            return Key(garbled=why, bad=why)
        if wires is None:
            return Key(bad=_NO_KEY)
        return Key(wires) if self.mark is None else Key(wires[: self.size], mark=wires[self.size])

    def other(self, key: Key) -> str:
        """The table of a tombstone in a shared topic, if it is not this one: its key alone says so."""
        if self.mark is None or type(key.mark) is not str or key.mark == self.mark.value:
            return ""
        return key.mark
