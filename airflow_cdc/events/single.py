"""Numbers of single precision that are sent as decimal digits: rounded once."""

from __future__ import annotations

import math
import struct

from airflow_cdc.events.value import NoValueError


def nearest_single(number: float) -> float:
    """The nearest number of single precision to the digits that `number` was read from. NoValueError where it is not certain.

    The digits were rounded to a double first, and twice is not always as good as once: 1.000000059604644776 is above the
    middle between 1 and its neighbour, and its double is that middle. So both doubles beside it have to give the same.
    """
    try:
        below, here, above = struct.unpack(
            "<3f", struct.pack("<3f", math.nextafter(number, -math.inf), number, math.nextafter(number, math.inf))
        )
    except OverflowError as error:
        raise NoValueError from error
    if not below == here == above:
        raise NoValueError
    return float(here)
