"""Bytes ↔ Connect values: one module per format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from airflow_cdc.events.record import Headers, SchemaId
from airflow_cdc.events.value import Shape

if TYPE_CHECKING:
    from airflow_cdc.events.wire.drafts import Draft

# The texts of schemas, all that a reader is ever given. An executor asks no registry: a record whose schema is not here
# is Unreadable with its `schema_id`, and the driver, which looks it up, has the records decoded once more.
Schemas: TypeAlias = Mapping[SchemaId, str]
# The key or the value of a record, which is not None, and the record's headers → its Connect value by a Shape
Read: TypeAlias = Callable[[bytes, Headers], Any]
# A Connect value by a Shape → the bytes of a key or a value, and the headers that belong to them
Write: TypeAlias = Callable[[Any], tuple[bytes, Headers]]


class Wiring(Protocol):
    """One format of a record's key or value. Frozen, picklable, made of the connector's settings."""

    @property
    def headers(self) -> bool:
        """Whether records must be read with their headers."""
        ...

    def schema_of(self, data: bytes, headers: Headers) -> SchemaId | None:
        """The id of the schema with which a key or a value was written; None for a format that needs none, and where it can't be told."""
        ...

    def reader(self, shape: Shape, schemas: Schemas) -> Read:
        """Reads a key or a value as `shape`, whatever schema it was written with: fields go by name.

        A STRUCT is a tuple in the shape's order, None for a field that is NULL or not there, WRONG for one of another
        type. It raises Unreadable: with `why` for bytes that are not of the format, or whose value itself is of another
        type; with `schema_id` for a schema that is not in `schemas`; with `unknown` for all fields that a `whole` struct
        has no part for, and with the `value` that was read.
        """
        ...

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:
        """A key or value taken apart, of which others are made. Raises Unreadable; ConfigError for a format that is not written."""
        ...
