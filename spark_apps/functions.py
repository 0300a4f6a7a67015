"""Session functions that Spark SQL lacks, vectorised over Arrow: `core/types.py` and `core/encoding.py` call them.

cdc_double_bits(double): the 64 bits of a number, with one zero.
cdc_json_canonical(string): sorted keys, no spaces, numbers in one form; NULL for what is no JSON.
cdc_decimal_bytes(string, int): base64 of a big-endian two's complement number with so many decimals, as plain text.
cdc_decimal_plain(string, int): a decimal in any notation as plain text with so many decimals.

Each gives NULL for a value it cannot read, so that the caller finds a bad record instead of a failed job.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession


def register_functions(spark: SparkSession) -> None:
    """Make the functions known to this session. SchemaError if the session is not in UTC and ANSI mode.

    Both settings change what the expressions of core/types.py mean without any error.
    """
    for key, wanted in (("spark.sql.session.timeZone", "UTC"), ("spark.sql.ansi.enabled", "true")):
        found = spark.conf.get(key)
        if found != wanted:
            raise SchemaError(f"{key} is {found}", where="Spark session", todo=f"Set it to {wanted}.")
    from pyspark import cloudpickle

    # by value: executors then need pyarrow only, not this package
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for name, function in _vectorised().items():
        spark.udf.register(name, function)


def json_canonical(text: str) -> str | None:
    """One text for equal JSON documents; None if it is no JSON."""
    return _json_writer()(text)


def _json_writer() -> Callable[[str], str | None]:
    """Decoder and encoder made once for many documents: making them costs as much as a small document."""
    decode = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant).decode
    encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode

    def write(text: str) -> str | None:
        try:
            value = decode(text)
        except (ValueError, RecursionError):
            return None
        written = encode(value)
        try:
            written.encode()
        except UnicodeEncodeError:  # half of a surrogate pair: only an escape can write it
            return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
        return written

    return write


def _finite(text: str) -> float:
    number = float(text) + 0.0
    if not math.isfinite(number):
        raise ValueError(text)
    return number


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
    """A decimal in any notation → plain text with `scale` decimals; None if it has more, or is no number."""
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


def double_bits(values: pa.Array) -> pa.Array:
    """The IEEE 754 bits of each number as a signed integer; -0 counts as 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.add(values, 0.0).view(pa.int64())


def _each(function: Callable[..., str | None], *columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())


def _vectorised() -> dict[str, Any]:
    # The annotations are what Spark reads the kind of function from; strings would not be resolved here.
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def _bits(values: Any) -> Any:
        return double_bits(values)

    def _json(texts: Any) -> Any:
        return _each(_json_writer(), texts)

    def _bytes(texts: Any, scales: Any) -> Any:
        return _each(decimal_bytes, texts, scales)

    def _decimal(texts: Any, scales: Any) -> Any:
        return _each(decimal_plain, texts, scales)

    functions = {
        "cdc_double_bits": (_bits, "bigint", 1),
        "cdc_json_canonical": (_json, "string", 1),
        "cdc_decimal_bytes": (_bytes, "string", 2),
        "cdc_decimal_plain": (_decimal, "string", 2),
    }
    made = {}
    for name, (function, result, arguments) in functions.items():
        names = list(function.__code__.co_varnames[:arguments])
        function.__annotations__ = dict.fromkeys([*names, "return"], pa.Array)
        made[name] = arrow_udf(function, result)
    return made
