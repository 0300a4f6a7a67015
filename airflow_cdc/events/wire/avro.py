"""Avro: a message is read by the schema that wrote it, and its fields are then taken by name.

So two schemas in one batch are ordinary. fastavro reads; where its compiled part is missing, as on executors that are
sent its Python files alone, it reads the same in Python. Logical types are taken out of the schemas first: Connect's own
values are wanted, and a date of the year 10,000 is no Python date.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeAlias

from airflow_cdc.events.record import Headers, Ids, SchemaId, Unreadable
from airflow_cdc.events.value import WRONG, Conversion, Shape, Wire, Wrong, as_is
from airflow_cdc.events.wire import Read, Schemas
from airflow_cdc.events.wire.decimals import fitted, is_shortest, scaled
from airflow_cdc.events.wire.drafts import Draft
from airflow_cdc.events.wire.ids import Framing

Json: TypeAlias = Any

_PLAIN: Final = {
    "int": {Wire.INT},
    "long": {Wire.INT},
    "float": {Wire.FLOAT32, Wire.FLOAT64},
    "double": {Wire.FLOAT32, Wire.FLOAT64},
    "boolean": {Wire.BOOLEAN},
    "string": {Wire.STRING},
    "enum": {Wire.STRING},
    "bytes": {Wire.BYTES},
    "fixed": {Wire.BYTES},
}
# how the name of Connect's Decimal ends, by which its bytes are told from others
_DECIMAL: Final = ".connect.data.Decimal"
_MALFORMED: Final = (
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    struct.error,
    AttributeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Avro:
    """Avro with its schemas in a registry. Satisfies Wiring.

    Attributes:
        renamed: field names are what `field.name.adjustment.mode=avro` makes of the columns'.
    """

    framing: Framing
    renamed: bool = False

    @property
    def headers(self) -> bool:
        """See Wiring."""
        return self.framing.ids is Ids.HEADERS

    def schema_of(self, data: bytes, headers: Headers) -> SchemaId | None:
        """See Wiring."""
        try:
            return self.framing.split(data, headers)[0]
        except Unreadable:
            return None

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:
        """See Wiring."""
        from airflow_cdc.events.wire.avro_draft import AvroDraft  # needs fastavro, which is an extra

        schema_id, begin = self.framing.split(data, headers)
        return AvroDraft.of(data, begin, schema_id, schemas.get(schema_id), legal_name if self.renamed else str)

    def reader(self, shape: Shape, schemas: Schemas) -> Read:
        """See Wiring."""
        known: dict[SchemaId, _Compiled] = {}
        names = legal_name if self.renamed else str

        def read(data: bytes, headers: Headers) -> object:
            schema_id, begin = self.framing.split(data, headers)
            if (compiled := known.get(schema_id)) is None:
                if schema_id not in schemas:
                    raise Unreadable(schema_id=schema_id)
                compiled = known[schema_id] = _compiled(schemas[schema_id], shape, names)
            read_one, take, unknown = compiled
            stream = BytesIO(data)
            stream.seek(begin)
            try:
                value = read_one(stream)
            except _MALFORMED as error:
                raise Unreadable(f"no Avro of schema {schema_id.number}: {type(error).__name__}") from None
            if stream.tell() != len(data):
                raise Unreadable(f"bytes are left over behind Avro of schema {schema_id.number}")
            if value is None:
                return None
            unknown.clear()
            taken = take(value)
            if unknown:
                raise Unreadable(unknown=tuple(sorted(unknown)), value=taken)
            return taken

        return read


def legal_name(name: str) -> str:
    """A column's name as Avro allows it. Case: `sep-1` is sep_1, and `1st` is _1st."""
    legal = "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name)
    return f"_{legal}" if legal[:1].isdigit() else legal


class _Compiled(NamedTuple):
    """A schema: what reads a message by it, what takes its value apart, and where that puts the names of unknown fields."""

    reader: Callable[[BytesIO], object]
    take: Conversion
    unknown: set[str]


def _compiled(text: str, shape: Shape, names: Callable[[str], str]) -> _Compiled:
    import fastavro

    named: dict[str, Json] = {}
    try:
        raw = json.loads(text)
        schema = fastavro.parse_schema(without_logical(raw), named_schemas=named)
        reading, schemaless = _Reading(named, names), fastavro.schemaless_reader
        return _Compiled(lambda stream: schemaless(stream, schema, None), reading.take(schema, shape), reading.unknown)
    except (*_MALFORMED, fastavro.schema.SchemaParseException) as error:
        raise Unreadable(f"its schema is no Avro schema: {type(error).__name__}") from None


def without_logical(schema: Json) -> Json:
    """Case: a Connect Date is {"type": "int", "logicalType": "date"}, which fastavro would make a Python date."""
    if isinstance(schema, list):
        return [without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {key: without_logical(one) for key, one in schema.items() if key != "logicalType"}
    return schema


@dataclass(frozen=True, slots=True)
class _Reading:
    """Shapes laid over one schema. What does not fit is seen here, once, and not at each record."""

    named: Mapping[str, Json]
    names: Callable[[str], str]
    unknown: set[str] = field(default_factory=set)

    def take(self, schema: Json, shape: Shape) -> Conversion:
        """What makes a Connect value of what fastavro reads."""
        schema = self._one(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        match shape.wire:
            case Wire.STRUCT if kind == "record":
                return self._struct(schema, shape)
            case Wire.ARRAY if kind == "array" and shape.of:
                of = self._nullable(schema["items"], shape.of)
                return lambda value: [of(one) for one in value]
            case Wire.MAP if kind == "map" and shape.of:
                of = self._nullable(schema["values"], shape.of)
                return lambda value: {key: of(one) for key, one in value.items()}
            case Wire.DECIMAL if isinstance(schema, dict) and schema.get("connect.name", "").endswith(_DECIMAL):
                return _decimal(int(schema["scale"]), shape.scale)
        return as_is if shape.wire in _PLAIN.get(kind, ()) else (lambda _value: WRONG)

    def _one(self, schema: Json) -> Json:
        """The one type beside NULL, a name looked up; a union of several is of none."""
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            schema = others[0] if len(others) == 1 else "null"
        while isinstance(schema, str) and schema in self.named:
            schema = self.named[schema]
        return schema

    def _nullable(self, schema: Json, shape: Shape) -> Conversion:
        take = self.take(schema, shape)
        return take if take is as_is else (lambda value: None if value is None else take(value))

    def _struct(self, schema: Json, shape: Shape) -> Conversion:
        fields = {one["name"]: one["type"] for one in schema["fields"]}
        parts = [self.names(name) for name, _ in shape.parts]
        takes = [
            self.take(fields[name], part) if name in fields else as_is
            for name, (_, part) in zip(parts, shape.parts, strict=True)
        ]
        converters = [(at, take) for at, take in enumerate(takes) if take is not as_is]
        others = frozenset(fields.keys() - set(parts)) if shape.whole else frozenset()
        unknown = self.unknown

        def struct_(value: Mapping[str, object]) -> tuple[object, ...]:
            unknown.update(others)
            values = list(map(value.get, parts))
            for at, take in converters:
                if (one := values[at]) is not None:
                    values[at] = take(one)
            return tuple(values)

        return struct_


def _decimal(written: int, wanted: int) -> Conversion:
    """Unscaled bytes → a decimal of the column's scale; WRONG if it has more digits."""

    def decimal(value: bytes) -> Decimal | Wrong:
        if not is_shortest(value):
            return WRONG
        number = scaled(value, written)
        return number if written == wanted else fitted(number, wanted)

    return decimal
