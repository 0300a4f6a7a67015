"""Protobuf: a message is read by the schema that wrote it, and its fields are then taken by name.

The bytes have numbers and lengths, no names and no zeros. So a schema's text is read once (proto_text.py), shapes are laid
over it, and what is left for each record is a table from tag to place. It needs no package: executors have pyarrow alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from airflow_cdc.events.record import Headers, Ids, SchemaId, Unreadable
from airflow_cdc.events.value import WRONG, Missing, Shape, Wire, Wrong
from airflow_cdc.events.wire import Read, Schemas
from airflow_cdc.events.wire.avro import legal_name
from airflow_cdc.events.wire.decimals import fitted, is_shortest, scaled
from airflow_cdc.events.wire.drafts import Draft, not_written
from airflow_cdc.events.wire.ids import Framing
from airflow_cdc.events.wire.proto_text import ENUM, ProtoField, ProtoFile, ProtoMessage, parse

# The bytes, and a place in them → the value there, and the place behind it
_Take: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_DECIMAL: Final = "confluent.type.Decimal"
# messages that a converter uses and no registry is asked for: skip.known.types is its default
_WRAPPERS: Final[Mapping[str, str]] = {
    f"google.protobuf.{name}Value": kind
    for name, kind in (
        ("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "uint64"), ("Int32", "int32"),
        ("UInt32", "uint32"), ("Bool", "bool"), ("String", "string"), ("Bytes", "bytes"),
    )
}  # fmt: skip
_KNOWN: Final[Mapping[str, ProtoMessage]] = {
    _DECIMAL: ProtoMessage(
        _DECIMAL,
        [ProtoField("value", 1, "bytes"), ProtoField("precision", 2, "uint32"), ProtoField("scale", 3, "int32")],
    ),
    **{name: ProtoMessage(name, [ProtoField("value", 1, kind)]) for name, kind in _WRAPPERS.items()},
}
_DECIMAL_SHAPE: Final = Shape(
    Wire.STRUCT,
    (("value", Shape(Wire.BYTES, missing=Missing.ZERO)), ("scale", Shape(Wire.INT, missing=Missing.ZERO))),
)
_MALFORMED: Final = (ValueError, LookupError, struct.error, RecursionError)


@dataclass(frozen=True, slots=True)
class Protobuf:
    """Protobuf with its schemas in a registry, as Confluent's converter writes it. Satisfies Wiring.

    Attributes:
        renamed: as Avro's.
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

    def reader(self, shape: Shape, schemas: Schemas) -> Read:
        """See Wiring."""
        files: dict[SchemaId, ProtoFile] = {}
        readers: dict[tuple[SchemaId, tuple[int, ...]], tuple[_Message, set[str]]] = {}
        names = legal_name if self.renamed else str

        def compiled(schema_id: SchemaId, indexes: tuple[int, ...]) -> tuple[_Message, set[str]]:
            if schema_id not in schemas:
                raise Unreadable(schema_id=schema_id)
            if schema_id not in files:
                files[schema_id] = _file(schemas[schema_id])
            try:
                message = files[schema_id].at(indexes)
            except LookupError:
                raise Unreadable(f"its schema {schema_id.number} has no message {list(indexes)}") from None
            file = files[schema_id]
            reading = _Reading(file.messages, names, _marks(file))
            own = readers[schema_id, indexes] = reading.message(message, shape), reading.unknown
            return own

        def read(data: bytes, headers: Headers) -> object:
            schema_id, begin = self.framing.split(data, headers)
            try:
                indexes, begin = _indexes(data, begin)
                ours = readers.get((schema_id, indexes)) or compiled(schema_id, indexes)
                message, unknown = ours
                unknown.clear()
                value = message.read(data, begin, len(data))
            except Unreadable:
                raise
            except _MALFORMED as error:
                raise Unreadable(f"no Protobuf of schema {schema_id.number}: {type(error).__name__}") from None
            if unknown:
                raise Unreadable(unknown=tuple(sorted(unknown)), value=value)
            return value

        return read

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:  # noqa: ARG002 - as Wiring asks
        """See Wiring."""
        raise not_written("Protobuf")


def _file(text: str) -> ProtoFile:
    try:
        return parse(text)
    except _MALFORMED as error:
        raise Unreadable(f"its schema is no .proto that can be read: {type(error).__name__}") from None


def _marks(file: ProtoFile) -> bool:
    """Whether a field that may be NULL is marked as such: `optional`, or a message around the value.

    The converter marks all of them or none, and every event of Debezium has one: `ts_ms`.
    """
    every = (one for message in file.messages.values() for one in message.fields)
    return any(one.presence or one.type in _WRAPPERS for one in every)


def _indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Which message of its file a record is of: how many numbers, and they. Case: the one byte 0 is the first message."""
    count, at = _zigzag(data, at)
    if count == 0:
        return (0,), at
    indexes = []
    if not 0 < count <= len(data):
        raise ValueError
    for _ in range(count):
        index, at = _zigzag(data, at)
        indexes.append(index)
    return tuple(indexes), at


# --- a message: from tag to place ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Message:
    """How a message's bytes become a tuple of a shape's parts.

    Attributes:
        places: tag → the place in the tuple, how the value is read, and whether there may be many; -1 for nobody's.
        empty: the parts of a message without any field.
        lists: places of lists that a message without elements has empty.
        others: fields that the shape has no part for, where that is an error; they are added to `unknown`.
    """

    places: Mapping[int, tuple[int, _Take, bool]]
    empty: tuple[object, ...]
    lists: tuple[int, ...] = ()
    others: frozenset[str] = frozenset()
    unknown: set[str] = field(default_factory=set)

    def read(self, data: bytes, at: int, end: int) -> tuple[Any, ...]:
        """The message between two places. Raises ValueError, or LookupError, for bytes that are none."""
        values = list(self.empty)
        for place in self.lists:
            values[place] = []
        places = self.places
        while at < end:
            tag = data[at]
            if tag < 128:
                at += 1
            else:
                tag, at = _varint(data, at)
            place, take, many = places[tag]
            value, at = take(data, at)
            if place < 0:
                continue
            if many and value is not WRONG:
                so_far = values[place]
                values[place] = so_far + value if type(so_far) is list else value
            else:
                values[place] = value
        if at != end:
            raise ValueError
        if self.others:
            self.unknown.update(self.others)
        return tuple(values)

    def take(self, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        """The message behind its length."""
        size, at = _varint(data, at)
        end = at + size
        if end > len(data):
            raise ValueError
        return self.read(data, at, end), end


@dataclass(frozen=True, slots=True)
class _Reading:
    """Shapes laid over one schema. What does not fit is seen here, once, and not at each record.

    `marks`: whether the schema marks fields that may be NULL.
    """

    messages: Mapping[str, ProtoMessage]
    names: Callable[[str], str]
    marks: bool
    unknown: set[str] = field(default_factory=set)

    def message(self, message: ProtoMessage, shape: Shape) -> _Message:
        """What reads a message as a STRUCT. Another shape has no value in it."""
        own = {one.name: one for one in message.fields}
        fields = [(self.names(name), part) for name, part in shape.parts]
        places: dict[int, tuple[int, _Take, bool]] = {}
        empty: list[object] = []
        lists: list[int] = []
        for place, (name, part) in enumerate(fields):
            one = own.pop(name, None)
            if one is None:
                empty.append(None)
                continue
            many = one.repeated and part.wire is Wire.ARRAY
            take = self._take(one, part)
            for tag, how in _tags(one, take, many=many):
                places[tag] = (place, how, many)
            empty.append(self._missing(one, part, fits=take is not None))
            if empty[-1] == []:
                lists.append(place)
        others = frozenset(own) if shape.whole else frozenset()
        for one in own.values():
            places.update({tag: (-1, how, False) for tag, how in _tags(one, None, many=False)})
        return _Message(places, tuple(empty), tuple(lists), others, self.unknown)

    def _take(self, one: ProtoField, shape: Shape) -> _Take | None:
        """What reads one value of a field; None if it is of another type than the shape's."""
        if one.repeated is not (shape.wire is Wire.ARRAY):
            return None
        of = shape.of if shape.wire is Wire.ARRAY else shape
        if of is None:
            return None
        if one.type in _SCALARS:
            return _SCALARS[one.type].take if of.wire in _SCALARS[one.type].wires else None
        if one.type in _WRAPPERS:
            return self._wrapped(one.type, of)
        if one.type == _DECIMAL:
            return self._decimal(of) if of.wire is Wire.DECIMAL else None
        message = self.messages.get(one.type)
        return None if message is None or of.wire is not Wire.STRUCT else self.message(message, of).take

    def _missing(self, one: ProtoField, shape: Shape, *, fits: bool) -> object:
        """What it means that a field is not in a message. A list never tells NULL from no elements."""
        if shape.missing is Missing.NULL or (not one.repeated and (one.presence or one.type not in _SCALARS)):
            return None
        if not fits or (shape.missing is Missing.UNKNOWN and (one.repeated or not self.marks)):
            return WRONG
        return [] if one.repeated else _SCALARS[one.type].zero

    def _wrapped(self, name: str, shape: Shape) -> _Take | None:
        if shape.wire not in _SCALARS[_WRAPPERS[name]].wires:
            return None
        part = Shape(shape.wire, missing=Missing.ZERO)
        parts = self.message(_KNOWN[name], Shape(Wire.STRUCT, (("value", part),))).take

        def wrapped(data: bytes, at: int) -> tuple[object, int]:
            (value,), at = parts(data, at)
            return value, at

        return wrapped

    def _decimal(self, shape: Shape) -> _Take:
        parts, scale = (
            _Reading(self.messages, str, marks=True).message(_KNOWN[_DECIMAL], _DECIMAL_SHAPE).take,
            shape.scale,
        )

        def decimal(data: bytes, at: int) -> tuple[Decimal | Wrong, int]:
            (raw, digits), at = parts(data, at)
            if not is_shortest(raw):
                return WRONG, at
            number = scaled(raw, digits)
            return number if digits == scale else fitted(number, scale), at

        return decimal


def _tags(one: ProtoField, take: _Take | None, *, many: bool) -> list[tuple[int, _Take]]:
    """The tags with which a field may be written, and how its value is then read. `take` None: it is gone past."""
    scalar = _SCALARS.get(one.type)
    kind = _LENGTH if scalar is None else scalar.kind
    if not one.repeated:
        return [(one.number << 3 | kind, take or _past(kind))]
    if take is None or not many:
        return [(one.number << 3 | any_kind, _past(any_kind)) for any_kind in {kind, _LENGTH}]
    tags = [(one.number << 3 | kind, _each(take))]
    return tags if kind == _LENGTH else [*tags, (one.number << 3 | _LENGTH, _packed(take))]


# --- values --------------------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
    if value >> 64:
        raise ValueError
    return value, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _signed(bits: int) -> _Take:
    """Negative numbers have 64 bits, whatever their type."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def signed(data: bytes, at: int) -> tuple[int, int]:
        value, at = _varint(data, at)
        if value >= high:
            value -= 2**64
            if value < low or value >= 0:
                raise ValueError
        return value, at

    return signed


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    return _varint(data, at)


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    value, at = _varint(data, at)
    return value != 0, at


def _fixed(code: str) -> _Take:
    unpack, size = struct.Struct(code).unpack_from, struct.calcsize(code)

    def fixed(data: bytes, at: int) -> tuple[object, int]:
        return unpack(data, at)[0], at + size

    return fixed


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _varint(data, at)
    end = at + size
    if end > len(data):
        raise ValueError
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _bytes(data, at)
    return raw.decode(), at


def _each(take: _Take) -> _Take:
    def each(data: bytes, at: int) -> tuple[list[object], int]:
        value, at = take(data, at)
        return [value], at

    return each


def _packed(take: _Take) -> _Take:
    """Numbers one behind the other, behind the length of them all."""

    def packed(data: bytes, at: int) -> tuple[list[object], int]:
        size, at = _varint(data, at)
        end, values = at + size, list[object]()
        if end > len(data):
            raise ValueError
        while at < end:
            value, at = take(data, at)
            values.append(value)
        if at != end:
            raise ValueError
        return values, at

    return packed


def _past(kind: int) -> _Take:
    """Goes past a value that is nobody's, or of another type than was asked for."""
    take = _SKIPS[kind]

    def past(data: bytes, at: int) -> tuple[Wrong, int]:
        return WRONG, take(data, at)[1]

    return past


_SKIPS: Final[Mapping[int, _Take]] = {
    _VARINT: _unsigned,
    _EIGHT: _fixed("<q"),
    _LENGTH: _bytes,
    _FOUR: _fixed("<i"),
}


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A scalar type: how it is written, as what it may be asked for, and what an absent one is."""

    kind: int
    take: _Take
    wires: frozenset[Wire]
    zero: object


_INT: Final = frozenset({Wire.INT})
_FLOATS: Final = frozenset({Wire.FLOAT32, Wire.FLOAT64})
_SCALARS: Final[Mapping[str, _Scalar]] = {
    "int32": _Scalar(_VARINT, _signed(32), _INT, 0),
    "int64": _Scalar(_VARINT, _signed(64), _INT, 0),
    "uint32": _Scalar(_VARINT, _unsigned, _INT, 0),
    "uint64": _Scalar(_VARINT, _unsigned, _INT, 0),
    "sint32": _Scalar(_VARINT, _zigzag, _INT, 0),
    "sint64": _Scalar(_VARINT, _zigzag, _INT, 0),
    "fixed32": _Scalar(_FOUR, _fixed("<I"), _INT, 0),
    "fixed64": _Scalar(_EIGHT, _fixed("<Q"), _INT, 0),
    "sfixed32": _Scalar(_FOUR, _fixed("<i"), _INT, 0),
    "sfixed64": _Scalar(_EIGHT, _fixed("<q"), _INT, 0),
    ENUM: _Scalar(_VARINT, _unsigned, frozenset(), 0),  # no converter of Debezium's events writes one
    "bool": _Scalar(_VARINT, _boolean, frozenset({Wire.BOOLEAN}), False),
    "float": _Scalar(_FOUR, _fixed("<f"), _FLOATS, 0.0),
    "double": _Scalar(_EIGHT, _fixed("<d"), _FLOATS, 0.0),
    "string": _Scalar(_LENGTH, _string, frozenset({Wire.STRING}), ""),
    "bytes": _Scalar(_LENGTH, _bytes, frozenset({Wire.BYTES}), b""),
}
