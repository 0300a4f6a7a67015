"""The interface to one kind of source's values in Debezium's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table


class EventValues(Protocol):
    """How one kind of source's values are represented in an event, under the connector's configuration."""

    @property
    def way_out(self) -> str:
        """What a person can do about a column whose values `why_not` doubts in more rows than can be read again."""
        ...

    def check_table(self, table: Table) -> None:
        """Raise SchemaError for a table whose rows these events do not carry exactly."""
        ...

    def from_event(self, column: Column, text: str) -> str:
        """Spark expression from the raw JSON text of an event's field to the sink type.

        NULL for NULL and for text that is not a value of this type. SchemaError if the connector's modes lose precision.
        """
        ...

    def reads_as_null(self, column: Column, text: str) -> str:
        """Spark condition: the text means NULL; "" if no text does."""
        ...

    def why_not(self, column: Column) -> str:
        """Why a value of the column may be unreadable, as a dead letter's reason; "" if only a malformed one can be."""
        ...
