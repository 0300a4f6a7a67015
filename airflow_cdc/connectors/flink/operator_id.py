"""The id under which Flink stores an operator's state: MurmurHash3 (128 bits, x64, seed 0) of the operator's own name."""

from __future__ import annotations

import struct
from typing import Final

_ALL: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def operator_id(uid: str) -> bytes:
    """The 16 bytes that stand before the operator's state in the metadata of a checkpoint."""
    data = uid.encode()
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 = ((_rotated(h1 ^ _mixed(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729) & _ALL
        h2 = ((_rotated(h2 ^ _mixed(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5) & _ALL
    tail = data[whole:]
    h1 ^= _mixed(int.from_bytes(tail[:8], "little"), _C1, 31, _C2) ^ len(data)
    h2 ^= _mixed(int.from_bytes(tail[8:], "little"), _C2, 33, _C1) ^ len(data)
    h1 = (h1 + h2) & _ALL
    h1, h2 = _finished(h1), _finished((h2 + h1) & _ALL)
    h1 = (h1 + h2) & _ALL
    return struct.pack("<QQ", h1, (h2 + h1) & _ALL)


def _mixed(block: int, first: int, by: int, then: int) -> int:
    return _rotated(block * first & _ALL, by) * then & _ALL


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _ALL


def _finished(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _ALL
    return value ^ value >> 33
