"""Session functions that Spark SQL lacks, vectorised over Arrow: `adapters/mysql_values.py`, `compare/encoding.py` and the decoders of events call them.

cdc_json_canonical(string): sorted keys, no spaces, numbers in one form; NULL if it is not JSON.
cdc_decimal_bytes(string, int): base64 of a big-endian two's complement number → plain text with that many decimals.
cdc_decimal_plain(string, int): a decimal in any notation → plain text with that many decimals.

Each returns NULL for a value it cannot read, so that the caller gets a bad record instead of a failed job.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

_DECIMAL_DIGITS = 65  # MySQL's DECIMAL has no more
_DOUBLE_DIGITS = 18  # Java before 19 prints no more of a DOUBLE


def register_functions(spark: SparkSession) -> None:
    """Register the functions in this session. Raises SchemaError if the session is not in UTC and ANSI mode.

    Both settings silently change the meaning of the expressions.
    """
    for key, wanted in (("spark.sql.session.timeZone", "UTC"), ("spark.sql.ansi.enabled", "true")):
        value = spark.conf.get(key)
        if value != wanted:
            raise SchemaError(f"{key} is {value}", where="Spark session", todo=f"Set it to {wanted}.")
    from pyspark import cloudpickle

    # by value: executors then need pyarrow only, not this package
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for name, function in _registrable().items():
        spark.udf.register(name, function)


def json_canonical(text: str) -> str | None:
    """The same text for equal JSON documents, whoever printed them; None if it is not JSON.

    Every number keeps all its digits: 1.0, 1.00 and 1 become 1, and 1e20 becomes 100000000000000000000, as Debezium
    prints it.
    """
    return _json_writer()(text)


class _Exact(NamedTuple):
    """A number with more digits than a double holds, as the text to write."""

    text: str


def _json_writer() -> Callable[[str], str | None]:
    """Create decoder and encoder once for many documents: creating them costs as much as a small document."""
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


def _written(value: Any) -> str:
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


def decimal_bytes(text: str, scale: int) -> str | None:
    """Base64 of an unscaled big-endian number → plain text with `scale` decimals; None if it is not base64."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return _scaled(int.from_bytes(raw, "big", signed=True), scale) if raw else None


def decimal_plain(text: str, scale: int) -> str | None:
    """A decimal in any notation → plain text with `scale` decimals; None if it has more, or is not a number."""
    try:
        sign, digits, exponent = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int) or abs(exponent) > 1000:
        return None
    shift = exponent + scale
    unscaled = int("".join(map(str, digits)))
    if shift < 0 and unscaled % 10**-shift:
        return None
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    return _scaled(-unscaled if sign else unscaled, scale)


def _scaled(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _each(function: Callable[..., str | None], *columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())


def _json_texts(texts: Any) -> Any:
    return _each(_json_writer(), texts)


def _bytes_texts(texts: Any, scales: Any) -> Any:
    return _each(decimal_bytes, texts, scales)


def _decimal_texts(texts: Any, scales: Any) -> Any:
    return _each(decimal_plain, texts, scales)


class _Function(NamedTuple):
    """One session function: over one row's values, and over columns of them."""

    row: Callable[..., str | None]
    columns: Callable[..., Any]
    arguments: tuple[str, ...]


_FUNCTIONS: Final = {
    "cdc_json_canonical": _Function(json_canonical, _json_texts, ("texts",)),
    "cdc_decimal_bytes": _Function(decimal_bytes, _bytes_texts, ("texts", "scales")),
    "cdc_decimal_plain": _Function(decimal_plain, _decimal_texts, ("texts", "scales")),
}


def _registrable() -> dict[str, Any]:
    """The functions as this Spark takes them. Before 4.1 it calls Python over Arrow by way of pandas, which executors
    need not have: there they are called row by row.
    """
    from pyspark.sql import functions

    make = _vectorised if hasattr(functions, "arrow_udf") else _by_row
    return {name: make(function) for name, function in _FUNCTIONS.items()}


def _vectorised(function: _Function) -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    # Spark infers the kind of function from the annotations; string annotations would not be resolved here
    function.columns.__annotations__ = dict.fromkeys((*function.arguments, "return"), pa.Array)
    return arrow_udf(function.columns, "string")


def _by_row(function: _Function) -> Any:
    from pyspark.sql.functions import udf

    row = function.row
    return udf(lambda first, *others: None if first is None else row(first, *others), "string")


def utf8_text(value: str) -> str:
    """SQL: bytes as text; NULL if they are not UTF-8."""
    from pyspark.sql import functions

    # not is_valid_utf8, whose method Spark 4.1 looks up by reflection for each row: 25 % of a decoding
    if hasattr(functions, "try_validate_utf8"):
        return f"try_validate_utf8(CAST({value} AS string))"
    # Spark 3.5 has no such function; its decode puts U+FFFD for what is not UTF-8
    return f"IF(encode(decode({value}, 'UTF-8'), 'UTF-8') = {value}, CAST({value} AS string), NULL)"
