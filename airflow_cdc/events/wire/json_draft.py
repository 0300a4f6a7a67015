"""JSON as Kafka's JsonConverter writes it: Jackson's escapes, Java's numbers, and a schema around it that stays as it was."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import msgspec

from airflow_cdc.events.record import Unreadable
from airflow_cdc.events.value import Shape, Wire
from airflow_cdc.events.wire.decimals import unscaled

_NULL: Final = b"null"
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
# what Jackson escapes: quotes, backslashes, control characters, and characters beyond the first 65,536, as two halves
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')
_SHORT: Final[Mapping[str, str]] = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def text_of(text: str) -> str:
    """A JSON string as Jackson writes it. Case: 😀 is written as its two halves, é as it is."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    one = match[0]
    if (short := _SHORT.get(one)) is not None:
        return short
    code = ord(one)
    if code < 0x10000:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def float_of(number: float, *, single: bool = False) -> str:
    """A number as Java writes it: Double.toString, or Float.toString for a `single`.

    The fewest digits that give the number again, and at least two. Java 17 sometimes writes one digit more; that is the
    same number. Case: 1.0E10, 0.001, 5.684341886080802E-14, 4.9E-324.
    """
    if not math.isfinite(number):
        return f'"{"NaN" if math.isnan(number) else "-Infinity" if number < 0 else "Infinity"}"'
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    digits, exponent = _digits(abs(number), single=single)
    sign = "-" if number < 0 else ""
    if -3 <= exponent < 7:
        whole, rest = (digits[: exponent + 1], digits[exponent + 1 :]) if exponent >= 0 else ("", digits)
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{rest}"
        return f"{sign}{whole.ljust(exponent + 1, '0')}.{rest or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(number: float, *, single: bool) -> tuple[str, int]:
    """The digits without zeros at the end, and the exponent of the first: (2, -3) for 0.002 is ("2", -3)."""
    # of one digit alone, Java takes the nearest number of two: 4.9E-324 and not 5E-324
    for size in range(1, 17):
        text = f"{number:.{size}e}"
        if _same(float(text), number, single=single):
            mantissa, _, exponent = text.partition("e")
            return mantissa.replace(".", "").rstrip("0"), int(exponent)
    raise ValueError(number)


def _same(read: float, number: float, *, single: bool) -> bool:
    if not single:
        return read == number
    try:
        return bool(struct.unpack("<f", struct.pack("<f", read))[0] == number)
    except OverflowError:
        return False


def json_of(shape: Shape, value: Any) -> str:
    """A Connect value as JSON."""
    if value is None:
        return "null"
    match shape.wire:
        case Wire.STRUCT:
            named = value if isinstance(value, Mapping) else dict(zip((n for n, _ in shape.parts), value, strict=True))
            shapes = dict(shape.parts)
            return "{" + ",".join(f"{text_of(n)}:{json_of(shapes[n], one)}" for n, one in named.items()) + "}"
        case Wire.ARRAY if shape.of is not None:
            of = shape.of
            return "[" + ",".join(json_of(of, one) for one in value) + "]"
        case Wire.MAP if shape.of is not None:
            of = shape.of
            return "{" + ",".join(f"{text_of(n)}:{json_of(of, one)}" for n, one in value.items()) + "}"
    return _SCALARS[shape.wire](value, shape)


def _bytes(value: bytes, _: Shape) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _decimal(value: Decimal, shape: Shape) -> str:
    return _bytes(unscaled(value, shape.scale), shape)


_SCALARS: Final[Mapping[Wire, Callable[[Any, Shape], str]]] = {
    Wire.INT: lambda value, _: str(int(value)),
    Wire.FLOAT32: lambda value, _: float_of(value, single=True),
    Wire.FLOAT64: lambda value, _: float_of(value),
    Wire.BOOLEAN: lambda value, _: "true" if value else "false",
    Wire.STRING: lambda value, _: text_of(value),
    Wire.BYTES: _bytes,
    Wire.DECIMAL: _decimal,
}


@dataclass(frozen=True)
class JsonDraft:
    """Satisfies drafts.Draft. A part is its bytes. `wrapped`: whether a schema is around the value; None: its fields show it."""

    data: bytes
    wrapped: bool | None = None

    @cached_property
    def _outer(self) -> Mapping[str, msgspec.Raw] | None:
        """{schema, payload}; None if the value is bare."""
        raw = _opened(self.data)
        around = raw.keys() == {"schema", "payload"} if self.wrapped is None else self.wrapped
        return raw if around else None

    @cached_property
    def fields(self) -> Mapping[str, bytes]:
        """See Draft."""
        inner = self.data if self._outer is None else bytes(self._outer["payload"])
        return {name: bytes(part) for name, part in _opened(inner).items()}

    def name_of(self, column: str) -> str:
        """See Draft."""
        return column

    def inside(self, part: bytes) -> Mapping[str, bytes] | None:
        """See Draft."""
        return None if part == _NULL else {name: bytes(one) for name, one in _opened(part).items()}

    def struct(self, fields: Mapping[str, bytes]) -> bytes:
        """See Draft."""
        return b"{" + b",".join(text_of(name).encode() + b":" + one for name, one in fields.items()) + b"}"

    def part(self, shape: Shape, value: object) -> bytes:
        """See Draft."""
        return json_of(shape, value).encode()

    def declared(self, *path: str) -> Sequence[str] | None:
        """See Draft."""
        if self._outer is None:
            return None
        schema = json.loads(bytes(self._outer["schema"]))
        for name in path:
            (schema,) = (one for one in schema["fields"] if one["field"] == name)
        return [str(one["field"]) for one in schema["fields"]]

    def sealed(self, fields: Mapping[str, bytes]) -> bytes:
        """See Draft."""
        inner = self.struct(fields)
        if self._outer is None:
            return inner
        return self.struct({name: inner if name == "payload" else bytes(one) for name, one in self._outer.items()})


def _opened(data: bytes) -> Mapping[str, msgspec.Raw]:
    try:
        return _PARTS.decode(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable("is no JSON object") from error
