"""Connect values that Kafka's JsonConverter wrote, with or without the schema around them.

Two readers of one meaning: msgspec, which takes what a converter writes and nothing else, and the standard library, to
which everything else is given, and which says what is wrong. Where msgspec is missing, the second reads all: slower,
and to the same values. JSON's types are types: "12" is no number, and 12 is no text.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias, TypeGuard

from airflow_cdc.events.record import Headers, SchemaId, Unreadable
from airflow_cdc.events.value import WRONG, Conversion, Shape, Wire, Wrong, nearest_single
from airflow_cdc.events.wire import Read, Schemas
from airflow_cdc.events.wire.decimals import is_shortest, scaled
from airflow_cdc.events.wire.drafts import Draft, not_written
from airflow_cdc.events.wire.ids import Framing

try:
    import msgspec
except ImportError:  # an executor's Python may have nothing but pyarrow
    msgspec = None  # type: ignore[assignment]

NOT_UTF8: Final = "is not valid UTF-8"
NOT_JSON: Final = "is not JSON"
# Connect writes these doubles as texts
_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_LARGEST: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
# A value as the fast reader has it → the value; None where there is nothing to do
_Finish: TypeAlias = Conversion


@dataclass(frozen=True, slots=True)
class Json:
    """`wrapped`: whether a schema is around the value; None: it shows by the value's own fields."""

    wrapped: bool | None = None
    headers: bool = False

    def schema_of(self, data: bytes, headers: Headers) -> SchemaId | None:  # noqa: ARG002 - JSON needs no schema
        """See Wiring."""
        return None

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:  # noqa: ARG002 - JSON needs no schema
        """See Wiring."""
        from airflow_cdc.events.wire.json_draft import JsonDraft  # needs msgspec, which executors may not have

        return JsonDraft(data, self.wrapped)

    def reader(self, shape: Shape, schemas: Schemas) -> Read:  # noqa: ARG002 - JSON needs no schema
        """See Wiring."""
        slow = _Slow(shape, self.wrapped)
        fast = None if msgspec is None else _fast(shape, self.wrapped)
        if fast is None:
            return slow

        def read(text: bytes, headers: Headers) -> object:
            _checked(text)
            try:
                return fast(text)
            except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors, but for the depth
                return slow(text, headers)

        return read


# --- by the standard library: what everything means ----------------------------------------------------------------------


class Digits(float):
    """A number with a fraction, or an exponent, and the digits that were written for it."""

    text: str

    @classmethod
    def of(cls, text: str) -> Digits:
        number = cls(text)
        number.text = text
        return number


@dataclass(frozen=True, slots=True)
class _Slow:
    """Reads any bytes, or says why not."""

    shape: Shape
    wrapped: bool | None

    def __call__(self, text: bytes, _: Headers) -> object:
        unknown: set[str] = set()
        value = _valued(self._opened(_parsed(text)), self.shape, unknown)
        if value is WRONG or value is None:
            raise Unreadable(NOT_JSON)
        if unknown:
            raise Unreadable(unknown=tuple(sorted(unknown)), value=value)
        return value

    def _opened(self, value: object) -> object:
        wrapped = self.wrapped
        if wrapped is None and isinstance(value, dict):
            # only a struct with a field of this name can be mistaken for one in a schema
            named = "payload" in {name for name, _ in self.shape.parts}
            schema = value.get("schema")
            wrapped = (
                isinstance(schema, dict) and schema.get("type") == "struct"
                if named
                else value.get("payload") is not None
            )
        return value.get("payload") if wrapped and isinstance(value, dict) else value


def _parsed(text: bytes) -> object:
    try:
        return json.loads(_checked(text), parse_float=Digits.of, parse_int=_whole, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(NOT_JSON) from error


def _checked(text: bytes) -> str:
    """The text. All of it, although msgspec would pass over what is not asked for: half a microsecond for a kilobyte."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(NOT_UTF8) from error


def _whole(text: str) -> int | Digits:
    return int(text) if len(text) <= 4000 else Digits.of(text)  # Python refuses to read longer ones


def _no_constant(_: str) -> float:
    raise ValueError(NOT_JSON)


def _valued(value: object, shape: Shape, unknown: set[str]) -> object:
    """The value as `shape` wants it; names of fields that a whole struct does not have are added to `unknown`."""
    if value is None:
        return None
    match shape.wire:
        case Wire.STRUCT:
            if type(value) is not dict:
                return WRONG
            if shape.whole:
                unknown.update(set(value) - {name for name, _ in shape.parts})
            return tuple(_valued(value.get(name), part, unknown) for name, part in shape.parts)
        case Wire.ARRAY if shape.of is not None:
            of = shape.of
            return [_valued(one, of, unknown) for one in value] if type(value) is list else WRONG
        case Wire.MAP if shape.of is not None:
            of = shape.of
            return (
                {name: _valued(one, of, unknown) for name, one in value.items()}
                if type(value) is dict and all(map(_is_text, value))
                else WRONG
            )
    return _SCALARS[shape.wire](value, shape)


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is text, without half of a surrogate pair."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _int(value: object, _: Shape) -> int | Wrong:
    return value if type(value) is int else WRONG


def _boolean(value: object, _: Shape) -> bool | Wrong:
    return value if type(value) is bool else WRONG


def _string(value: object, _: Shape) -> str | Wrong:
    return value if _is_text(value) else WRONG


def _float64(value: Any, _: Shape) -> float | Wrong:
    if type(value) is str and value in _WORDS:
        return float(value)
    if type(value) not in {int, Digits}:
        return WRONG
    try:
        number = float(value)
    except OverflowError:
        return WRONG
    return number if math.isfinite(number) else WRONG


def _float32(value: Any, shape: Shape) -> float | Wrong:
    number = _float64(value, shape)
    if number is WRONG or not math.isfinite(number):
        return number
    exact = Fraction(value.text) if isinstance(value, Digits) else Fraction(value)
    return _nearest(number, exact)


def _bytes(value: object, _: Shape) -> bytes | Wrong:
    try:
        return base64.b64decode(value, validate=True) if _is_text(value) else WRONG
    except (binascii.Error, ValueError):
        return WRONG


def _decimal(value: object, shape: Shape) -> Decimal | Wrong:
    raw = _bytes(value, shape)
    return scaled(raw, shape.scale) if raw is not WRONG and is_shortest(raw) else WRONG


_SCALARS: Final[Mapping[Wire, Callable[[object, Shape], object]]] = {
    Wire.INT: _int,
    Wire.FLOAT32: _float32,
    Wire.FLOAT64: _float64,
    Wire.BOOLEAN: _boolean,
    Wire.STRING: _string,
    Wire.BYTES: _bytes,
    Wire.DECIMAL: _decimal,
}


# --- FLOAT: rounded once -------------------------------------------------------------------------------------------------


def _nearest(number: float, exact: Fraction) -> float | Wrong:
    """The number of single precision that is nearest to `exact`, whose double is `number`; the even one of two."""
    try:
        near = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        near = math.copysign(_LARGEST, number)
        # half a step above the largest is infinite
        return near if abs(exact) < Fraction(_LARGEST) + Fraction(2) ** 103 else WRONG
    bits = struct.unpack("<i", struct.pack("<f", near))[0]
    around = [_of_bits(bits + step) for step in (0, -1, 1)]
    finite = [one for one in around if math.isfinite(one)]
    return min(finite, key=lambda one: (abs(Fraction(one) - exact), _bits(one) & 1))


def _of_bits(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def _bits(number: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", number))[0])


# --- by msgspec: what converters write -----------------------------------------------------------------------------------


def _fast(shape: Shape, wrapped: bool | None) -> Callable[[bytes], object] | None:
    """Reads what a converter writes; any ValueError leaves the bytes to _Slow. None for a shape that msgspec can't have."""
    names = {name for name, _ in shape.parts}
    if shape.wire is not Wire.STRUCT or (wrapped is None and "payload" in names):
        return None
    try:
        inner, finish = _type(shape), _of_struct([_finish(part) for _, part in shape.parts])
        if wrapped is False:
            plain = msgspec.json.Decoder(inner).decode
            return lambda text: finish(plain(text))
        beside = [] if wrapped else _fields(shape)  # the fields themselves, or a payload that has them
        made = msgspec.defstruct(
            "Either",
            [*beside, ("payload", inner | None, None)],
            gc=False,
            rename=_renames(shape) | {"payload": "payload"},
        )
    except (TypeError, ValueError):  # a name with a quote or a control character cannot be a field
        return None
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(made).decode

    def read(text: bytes) -> object:
        event = decode(text)
        if event.payload is not None:
            return finish(event.payload)
        if wrapped:
            raise ValueError
        return finish(event)[:-1]

    return None if wrapped is None and shape.whole else read


def _type(shape: Shape) -> Any:
    match shape.wire:
        case Wire.STRUCT:
            return msgspec.defstruct(
                "Part", _fields(shape), gc=False, rename=_renames(shape), forbid_unknown_fields=shape.whole
            )
        case Wire.ARRAY if shape.of is not None:
            return list[_type(shape.of) | None]  # type: ignore[misc]
        case Wire.MAP if shape.of is not None:
            return dict[str, _type(shape.of) | None]  # type: ignore[misc]
    return _TYPES[shape.wire]


def _fields(shape: Shape) -> list[tuple[str, Any, None]]:
    return [(f"f{at}", _type(part) | None, None) for at, (_, part) in enumerate(shape.parts)]


def _renames(shape: Shape) -> dict[str, str]:
    return {f"f{at}": name for at, (name, _) in enumerate(shape.parts)}


_TYPES: Final[Mapping[Wire, Any]] = {
    Wire.INT: int,
    Wire.FLOAT32: float,
    Wire.FLOAT64: float,
    Wire.BOOLEAN: bool,
    Wire.STRING: str,
    Wire.BYTES: bytes,
    Wire.DECIMAL: bytes,
}


def _finish(shape: Shape) -> _Finish | None:
    """What is still to be done with a value that msgspec has read."""
    match shape.wire:
        case Wire.STRUCT:
            return _of_struct([_finish(part) for _, part in shape.parts])
        case Wire.ARRAY | Wire.MAP if shape.of is not None:
            return _of_many(_finish(shape.of), shape.wire)
        case Wire.FLOAT32:
            return nearest_single
        case Wire.DECIMAL:
            scale = shape.scale
            return lambda raw: _decimal_of(raw, scale)
    return None


def _decimal_of(raw: bytes, scale: int) -> Decimal:
    if not is_shortest(raw):
        raise ValueError
    return scaled(raw, scale)


def _of_struct(parts: Sequence[_Finish | None]) -> Callable[[Any], tuple[object, ...]]:
    left = [(at, finish) for at, finish in enumerate(parts) if finish is not None]
    as_tuple = msgspec.structs.astuple
    if not left:
        return as_tuple

    def finished(event: Any) -> tuple[object, ...]:
        values = list(as_tuple(event))
        for at, finish in left:
            if (value := values[at]) is not None:
                values[at] = finish(value)
        return tuple(values)

    return finished


def _of_many(finish: _Finish | None, wire: Wire) -> _Finish | None:
    if finish is None:
        return None
    each = finish
    if wire is Wire.ARRAY:
        return lambda many: [None if one is None else each(one) for one in many]
    return lambda many: {name: None if one is None else each(one) for name, one in many.items()}


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """See Wiring: JSON behind a schema's id, as converters of JSON Schema write it; Connect's JSON, read without a schema."""

    framing: Framing

    @property
    def headers(self) -> bool:
        """See Wiring: the id is not needed, wherever it is."""
        return False

    def schema_of(self, data: bytes, headers: Headers) -> SchemaId | None:  # noqa: ARG002 - JSON needs no schema
        """See Wiring."""
        return None

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:  # noqa: ARG002 - as Wiring asks
        """See Wiring."""
        raise not_written("JSON Schema")

    def reader(self, shape: Shape, schemas: Schemas) -> Read:
        """See Wiring."""
        read = Json(wrapped=False).reader(shape, schemas)

        def framed(data: bytes, headers: Headers) -> object:
            _, begin = self.framing.split(data, headers)
            return read(data[begin:], headers)

        return framed
