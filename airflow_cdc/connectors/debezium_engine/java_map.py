"""The file of Kafka Connect's FileOffsetBackingStore: a Java HashMap of byte arrays, as Java serialises it.

Only this one shape is read. Anything else is refused: it is another class's file, or damaged. (The libraries that read
Java's format write none of it back.) The layout is Java's Object Serialization Stream Protocol, version 5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

_MAGIC: Final = b"\xac\xed\x00\x05"
# an object of the class HashMap: its uid, that it writes itself, and its two fields
_MAP: Final = (
    b"\x73\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02F\x00\nloadFactorI\x00\tthresholdxp"
)
_BLOCK: Final = b"\x77\x08"
_FIRST_ARRAY: Final = b"\x75\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00xp"
# an array of the class that is the third thing in the stream
_NEXT_ARRAY: Final = b"\x75\x71\x00\x7e\x00\x02"
_NULL: Final = b"\x70"
_END: Final = b"\x78"
_LOAD_FACTOR: Final = 0.75
_FEWEST_BUCKETS: Final = 16
# Java's own limits: it takes no table for larger, and no load factor for further from 1
_MOST_BUCKETS: Final = 1 << 30
_LOAD_FACTORS: Final = (0.25, 4.0)


class NotAMapError(ValueError):
    """The bytes are not such a map."""


@dataclass(frozen=True, slots=True)
class JavaMap:
    """The entries in their order; a value None is Java's null.

    `load_factor`, `threshold` and `buckets` say how large Java's table was; they are kept as they were.
    """

    entries: Mapping[bytes, bytes | None] = field(default_factory=dict)
    load_factor: float = _LOAD_FACTOR
    threshold: int = 12
    buckets: int = _FEWEST_BUCKETS

    def having(self, key: bytes, value: bytes | None) -> JavaMap:
        """A copy with another value under `key`; None takes the key away."""
        rest = {name: one for name, one in self.entries.items() if name != key or value is not None}
        entries = rest if value is None else {**rest, key: value}
        buckets = self.buckets
        while len(entries) > buckets * self.load_factor and buckets < _MOST_BUCKETS:
            buckets *= 2
        return replace(self, entries=entries, buckets=buckets, threshold=int(buckets * self.load_factor))

    def to_bytes(self) -> bytes:
        """As Java writes it."""
        parts = [_MAGIC, _MAP, struct.pack(">fi", self.load_factor, self.threshold)]
        parts += [_BLOCK, struct.pack(">ii", self.buckets, len(self.entries))]
        head = _FIRST_ARRAY
        for one in (part for entry in self.entries.items() for part in entry):
            if one is None:
                parts.append(_NULL)
                continue
            parts += [head, struct.pack(">i", len(one)), one]
            head = _NEXT_ARRAY
        return b"".join((*parts, _END))

    @classmethod
    def from_bytes(cls, content: bytes) -> JavaMap:
        """Read it. Raises NotAMapError."""
        reader = _Reader(content)
        reader.expect(_MAGIC + _MAP)
        load_factor, threshold = reader.numbers(">fi")
        reader.expect(_BLOCK)
        buckets, size = reader.numbers(">ii")
        low, high = _LOAD_FACTORS
        if not (low <= load_factor <= high and 1 <= buckets <= _MOST_BUCKETS and threshold >= 0 and size >= 0):
            raise NotAMapError(
                f"no map of Java's: {size} entries in {buckets} places, with load factor {load_factor:g}"
            )
        entries: dict[bytes, bytes | None] = {}
        for _ in range(int(size)):
            key = reader.array()
            if key is None:
                raise NotAMapError("a key is null")
            entries[key] = reader.array()
        reader.expect(_END)
        reader.end()
        return cls(entries, load_factor, int(threshold), int(buckets))


@dataclass(slots=True)
class _Reader:
    content: bytes
    at: int = 0
    arrays: int = 0

    def expect(self, content: bytes) -> None:
        if not self._next_is(content):
            raise NotAMapError(f"no map of byte arrays: something else stands at byte {self.at}")

    def numbers(self, form: str) -> tuple[float, ...]:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def array(self) -> bytes | None:
        if self._next_is(_NULL):
            return None
        self.expect(_NEXT_ARRAY if self.arrays else _FIRST_ARRAY)
        self.arrays += 1
        (length,) = self.numbers(">i")
        return self._take(int(length))

    def end(self) -> None:
        if self.at != len(self.content):
            raise NotAMapError(f"{len(self.content) - self.at} bytes follow the map")

    def _next_is(self, content: bytes) -> bool:
        if not self.content.startswith(content, self.at):
            return False
        self.at += len(content)
        return True

    def _take(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self.content):
            raise NotAMapError(f"it ends within the map, after {len(self.content)} bytes")
        content = self.content[self.at : self.at + length]
        self.at += length
        return content
