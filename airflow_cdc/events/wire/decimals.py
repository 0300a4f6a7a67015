"""Connect's Decimal: an unscaled number in bytes, the highest first, in two's complement. JSON has the same bytes in base64."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

# as many digits as PostgreSQL has: numeric(3,-2) is sent with the scale 2046
WIDE: Final = Context(prec=200_000)


def is_shortest(raw: bytes) -> bool:
    """Whether a number has no more bytes than it needs, and at least one, as Java writes it."""
    if len(raw) < 2:
        return bool(raw)
    return raw[0] not in {0, 255} or (raw[0] == 0) is not (raw[1] < 128)


def scaled(raw: bytes, scale: int) -> Decimal:
    """The number with so many decimals."""
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, WIDE)
