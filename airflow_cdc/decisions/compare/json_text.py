"""The one text that the sink keeps, and a comparison takes, of a JSON document, whoever printed it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

_DECIMAL_DIGITS = 65  # MySQL's DECIMAL has no more
_DOUBLE_DIGITS = 18  # Java before 19 prints no more of a DOUBLE


def json_canonical(text: str) -> str | None:
    """The same text for equal JSON documents, whoever printed them; None if it is not JSON.

    Every number keeps all its digits: 1.0, 1.00 and 1 become 1, and 1e20 becomes 100000000000000000000, as Debezium
    prints it.
    """
    return json_writer()(text)


class _Exact(NamedTuple):
    """A number with more digits than a double holds, as the text to write."""

    text: str


def json_writer() -> Callable[[str], str | None]:
    """json_canonical for many documents, by one thread: creating decoder and encoder costs as much as a small document."""
    exact: list[_Exact] = []

    def fraction(text: str) -> int | float | _Exact:
        number = json_number(text)
        if isinstance(number, _Exact):
            exact.append(number)
        return number

    decode = json.JSONDecoder(parse_float=fraction, parse_int=_whole, parse_constant=_no_constant).decode
    encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode

    def write(text: str) -> str | None:
        exact.clear()
        try:
            value = decode(text)
            written = _written(value) if exact else encode(value)
        except (ValueError, RecursionError):
            return None
        try:
            written.encode()
        except UnicodeEncodeError:  # half of a surrogate pair: only an escape can write it
            return "".join(c if c < "\ud800" or c > "\udfff" else f"\\u{ord(c):04x}" for c in written)
        return written

    return write


def _written(value: object) -> str:
    """The value as the encoder writes it, extended by exact numbers, which the encoder does not support."""
    if isinstance(value, _Exact):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_written(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def json_number(text: str) -> int | float | _Exact:
    """A JSON number with a point or an exponent, by its value. Raises ValueError if it is too large for a double.

    MySQL prints a DOUBLE in its shortest form. Debezium prints all digits of its binary value where Java would write
    an exponent: 0.00001 arrives as 0.0000100000000000000008180305391403130954586… Canal prints a DOUBLE as Java does,
    which before Java 19 is not always the shortest form: 4.9E-324. Any other digits are a DECIMAL's.
    """
    double = float(text) + 0.0
    if not math.isfinite(double):
        raise ValueError(text)
    if not double:
        return 0
    if repr(double) == text and not double.is_integer():
        return double
    number = Decimal(text)
    if number == number.to_integral_value():
        # MySQL writes an exponent only for a DOUBLE, where 1e23 is the shortest text and not the exact value
        return _by_size(int(double) if "e" in text.lower() else int(number))
    of_java = "E" in text and len(number.as_tuple().digits) <= _DOUBLE_DIGITS
    if of_java or number in (Decimal(double), Decimal(repr(double))):
        return double
    return _Exact(f"{number:f}".rstrip("0"))


def _whole(text: str) -> int | float:
    return _by_size(int(text)) if len(text) > _DECIMAL_DIGITS else int(text)


def _by_size(number: int) -> int | float:
    """A number too large for a DECIMAL must be a DOUBLE, which is written in its shortest form: 1e+300."""
    return number if abs(number) < 10**_DECIMAL_DIGITS else _finite(number)


def _finite(number: int) -> float:
    try:
        return float(number)
    except OverflowError as error:
        raise ValueError("too large for a double") from error


def _no_constant(text: str) -> float:
    raise ValueError(text)
