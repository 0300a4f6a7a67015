"""What Debezium writes in the same way whatever the source is: bytes in texts, instants, and the years that a sink can hold."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_cdc.events.value import NoValueError

EPOCH, MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
FIRST_MICROS, LAST_MICROS = -62135596800000000, 253402300799999999  # years 1 to 9999
FIRST_DAY, LAST_DAY = -719162, 2932896  # the same years
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)


def instant(text: str) -> int:
    """Microseconds since 1970 of ISO-8601 with Z. Raises NoValueError for another form, ValueError for no such day."""
    if _INSTANT.fullmatch(text) is None:
        raise NoValueError
    return (datetime.fromisoformat(text) - EPOCH) // MICRO


def iso_instant(micros: int, digits: int) -> str:
    """The inverse of `instant`, with so many digits behind the seconds."""
    moment = f"{EPOCH + MICRO * micros:%Y-%m-%dT%H:%M:%S.%f}".rjust(26, "0")  # a year before 1000 has no zeros here
    return f"{moment[: 20 + digits] if digits else moment[:19]}Z"


def of_base64(text: str | bytes) -> bytes:
    """The bytes in a text with its padding. Raises ValueError."""
    return base64.b64decode(text, validate=True)


def of_url_safe(text: str | bytes) -> bytes:
    """The bytes in a text of the alphabet for URLs, whose padding is kept, too. Raises ValueError."""
    return base64.b64decode(text, altchars=b"-_", validate=True)


# binary.handling.mode → the bytes in a text, and the inverse
BYTES_IN_TEXT: Final[Mapping[str, tuple[Callable[[str | bytes], bytes], Callable[[bytes], bytes]]]] = {
    "base64": (of_base64, base64.b64encode),
    "base64-url-safe": (of_url_safe, base64.urlsafe_b64encode),
    "hex": (binascii.unhexlify, binascii.hexlify),
}
