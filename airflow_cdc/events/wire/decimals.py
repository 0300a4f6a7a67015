"""Connect's Decimal: an unscaled number in bytes, the highest first, in two's complement. JSON has the same bytes in base64.

A decimal of at most 15 digits can also be sent as a double, from which it comes back exactly.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Final

from airflow_cdc.events.value import WRONG, Wrong

# as many digits as PostgreSQL has: numeric(3,-2) is sent with the scale 2046
WIDE: Final = Context(prec=200_000)

# a decimal of so many digits is the only one of its scale that has this nearest double (C's DBL_DIG)
DOUBLE_DIGITS: Final = 15


def is_shortest(raw: bytes) -> bool:
    """Whether a number has no more bytes than it needs, and at least one, as Java writes it."""
    if len(raw) < 2:
        return bool(raw)
    return raw[0] not in {0, 255} or (raw[0] == 0) is not (raw[1] < 128)


def scaled(raw: bytes, scale: int) -> Decimal:
    """The number with so many decimals."""
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, WIDE)


def unscaled(number: Decimal, scale: int) -> bytes:
    """The inverse of `scaled`, as short as Java writes it. Raises ValueError for a number with more decimals."""
    whole = number.scaleb(scale, WIDE)
    value = int(whole)
    if value != whole:
        raise ValueError(f"{number} has more than {scale} decimals")
    # one more bit than the number has: its sign
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(size, "big", signed=True)


def of_double(number: float, scale: int) -> Decimal:
    """The decimal of at most DOUBLE_DIGITS digits and this scale whose nearest double was sent. Raises ValueError for no such double."""
    if not math.isfinite(number):
        raise ValueError(number)
    fitted = Decimal(number).quantize(Decimal(1).scaleb(-scale), context=WIDE)
    if float(fitted) != number:
        raise ValueError(number)
    return fitted.copy_abs() if fitted.is_zero() else fitted


def fitted(number: Decimal, scale: int) -> Decimal | Wrong:
    """The number with a column's scale; WRONG if it has more digits than that.

    A column that was widened has events of both scales in one batch.
    """
    nearest = number.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    return nearest if nearest == number else WRONG
