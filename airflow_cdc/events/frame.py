"""What a frame is: how one connector puts a change into records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from airflow_cdc.core.position import Position
from airflow_cdc.core.table import Table
from airflow_cdc.events.record import Headers, Opened, Record, SchemaId, Unreadable, Want
from airflow_cdc.events.value import Values
from airflow_cdc.events.wire import Schemas

# A record → the changes of one table in it; most have one. Raises Unreadable
Open: TypeAlias = Callable[[Record], Iterable[Opened]]


class Sealed(NamedTuple):
    """A record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Standing(NamedTuple):
    """Where in the source's log corrections stand, also in the words of the connector's own offset, and when (epoch microseconds)."""

    at: Mapping[str, object]
    micros: int
    position: Position


# A row to be written (READ), or the delete of the row in the template (DELETE) → the records that say it, in their order
Seal: TypeAlias = Callable[[Opened], Sequence[Sealed]]


class Frame(Protocol):
    """How a connector writes changes into records. Frozen, picklable, made of its settings; it has a Wiring or two."""

    @property
    def headers(self) -> bool:
        """Whether records must be read with their headers."""
        ...

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:
        """The ids of the schemas with which a record was written, as far as they can be told; () for a format that has none."""
        ...

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:
        """Opens records of the table's topic. SchemaError if the connector cannot carry a column exactly."""
        ...

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:
        """The inverse: writes records of the table's topic as `template`, one of its records, is written (INV 47).

        SchemaError if the template was written for other columns, ConfigError for a form in which nothing is written.
        """
        ...


def said(side: str, error: Unreadable) -> str:
    """Why a key or a value can't be read, as a dead letter says it. Case: the key is not valid UTF-8."""
    if error.schema_id is not None:
        return f"the registry does not know the schema of the {side}, {error.schema_id.kind} {error.schema_id.number}"
    return f"the {side} {error.why}" if error.why.startswith("is ") else f"the {side}: {error.why}"
