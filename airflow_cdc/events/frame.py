"""What a frame is: how one connector puts a change into records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias

from airflow_cdc.core.table import Table
from airflow_cdc.events.record import Headers, Opened, Record, Want
from airflow_cdc.events.value import Values
from airflow_cdc.events.wire import Schemas

# A record → the changes of one table in it; most have one. Raises Unreadable
Open: TypeAlias = Callable[[Record], Iterable[Opened]]


class Sealed(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Frame(Protocol):
    """How a connector writes changes into records. Frozen, picklable, made of its settings; it has a Wiring or two."""

    @property
    def headers(self) -> bool:
        """Whether records must be read with their headers."""
        ...

    def table_of(self, record: Record) -> str | None:
        """The table of a record of a shared topic, cheaply; None if only opening it tells: then it is each table's."""
        ...

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:
        """Opens records of the table's topic. SchemaError if the connector cannot carry a column exactly."""
        ...
