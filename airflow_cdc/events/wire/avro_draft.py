"""Avro of one record taken apart, and others written by the same schema: nothing is registered."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import fastavro

from airflow_cdc.events.record import SchemaId, Unreadable
from airflow_cdc.events.value import Shape, Wire
from airflow_cdc.events.wire.avro import without_logical
from airflow_cdc.events.wire.decimals import unscaled

_MALFORMED: Final = (EOFError, ValueError, LookupError, TypeError, OverflowError, struct.error, AttributeError)


@dataclass(frozen=True, slots=True)
class AvroDraft:
    """Satisfies drafts.Draft. A part is a value as fastavro reads and writes it.

    Attributes:
        head: what is before the message: the schema's id.
        text: the schema.
        legal: makes a field's name of a column's.
    """

    head: bytes
    schema: object
    text: str
    fields: Mapping[str, object]
    legal: Callable[[str], str]

    @classmethod
    def of(
        cls, data: bytes, begin: int, schema_id: SchemaId, text: str | None, legal: Callable[[str], str]
    ) -> AvroDraft:
        """Raises Unreadable."""
        if text is None:
            raise Unreadable(schema_id=schema_id)
        stream = BytesIO(data)
        stream.seek(begin)
        try:
            schema = fastavro.parse_schema(without_logical(json.loads(text)), named_schemas={})
            fields = fastavro.schemaless_reader(stream, schema, None)
        except (*_MALFORMED, fastavro.schema.SchemaParseException) as error:
            raise Unreadable(f"no Avro of schema {schema_id.number}: {type(error).__name__}") from None
        if not isinstance(fields, dict) or stream.tell() != len(data):
            raise Unreadable(f"no record of schema {schema_id.number}")
        return cls(data[:begin], schema, text, fields, legal)

    def name_of(self, column: str) -> str:
        """See Draft."""
        return self.legal(column)

    def inside(self, part: Any) -> Mapping[str, object] | None:
        """See Draft."""
        return None if part is None else dict(part)

    def struct(self, fields: Mapping[str, object]) -> dict[str, object]:
        """See Draft."""
        return dict(fields)

    def part(self, shape: Shape, value: Any) -> object:
        """See Draft."""
        if value is None:
            return None
        match shape.wire:
            case Wire.DECIMAL:
                return unscaled(value, shape.scale)
            case Wire.STRUCT:
                named = (
                    value if isinstance(value, Mapping) else dict(zip((n for n, _ in shape.parts), value, strict=True))
                )
                shapes = dict(shape.parts)
                return {name: self.part(shapes[name], one) for name, one in named.items()}
            case Wire.ARRAY if shape.of is not None:
                of = shape.of
                return [self.part(of, one) for one in value]
            case Wire.MAP if shape.of is not None:
                of = shape.of
                return {name: self.part(of, one) for name, one in value.items()}
        return value

    def declared(self, *path: str) -> Sequence[str] | None:
        """See Draft."""
        named: dict[str, Any] = {}
        schema = _record(json.loads(self.text), named)
        for name in path:
            (field,) = (one for one in schema["fields"] if one["name"] == name)
            schema = _record(field["type"], named)
        return [str(one["name"]) for one in schema["fields"]]

    def sealed(self, fields: Mapping[str, object]) -> bytes:
        """See Draft."""
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self.schema, dict(fields), strict=True)
        return self.head + stream.getvalue()


def _record(schema: Any, named: dict[str, Any]) -> Any:
    """The record in a schema, or in a union with NULL; a later mention of it is its name alone."""
    if isinstance(schema, list):
        (schema,) = (one for one in schema if one != "null")
    if isinstance(schema, str):
        return named[schema.rpartition(".")[2]]
    for field in schema.get("fields", ()):
        inner = field["type"]
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict) and one.get("type") == "record":
                _record(one, named)
    if schema.get("type") == "record":
        named[str(schema["name"]).rpartition(".")[2]] = schema
    return schema
