"""Records taken apart and put together again: what is not replaced stays as its connector wrote it.

A correction is the topic's newest record with another row in it. So its schema, its ids and the order of its fields are the
connector's own by construction, and nothing is registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.events.value import Shape

# A field's value as its format has it: bytes of JSON, a value of Avro
Part: TypeAlias = Any


def not_written(form: str) -> ConfigError:
    """The error of a format in which no corrections are written."""
    return ConfigError(
        f"corrections are not written in {form}",
        where="the connector's configuration",
        todo="Use JSON or Avro for key and value, or recover the consumers' tables by a snapshot of the connector's own.",
    )


class Draft(Protocol):
    """The key or the value of one record. Raises Unreadable where its bytes are not of the format."""

    @property
    def fields(self) -> Mapping[str, Part]:
        """The fields of its struct, in their order."""
        ...

    def name_of(self, column: str) -> str:
        """The name of a column's field."""
        ...

    def inside(self, part: Part) -> Mapping[str, Part] | None:
        """The fields of a struct, in their order; None for NULL."""
        ...

    def struct(self, fields: Mapping[str, Part]) -> Part:
        """The inverse of `inside`."""
        ...

    def part(self, shape: Shape, value: object) -> Part:
        """A Connect value by its shape (a struct's may be a mapping of its fields); None: NULL."""
        ...

    def declared(self, *path: str) -> Sequence[str] | None:
        """The names that the schema gives to the fields of the struct there; None where no schema says it."""
        ...

    def sealed(self, fields: Mapping[str, Part]) -> bytes:
        """The bytes of a key or value with these fields."""
        ...
