"""Session functions that Spark SQL lacks, vectorised over Arrow: `core/types.py` and `core/encoding.py` call them.

cdc_double_text(double): the shortest decimal text that reads back as the same number, written as MySQL writes it.
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

# MySQL writes 0.00000000000001 and 100000000000000 plainly, and anything beyond with an exponent (dtoa.c, my_gcvt).
_FIRST_POINT, _LAST_POINT = -14, 15


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


def double_text(value: float) -> str:
    """A finite number as MySQL's CAST(value + 0e0 AS CHAR) writes it."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return "0"  # -0 too
    # where the decimal point stands, counted from the first digit that is not 0
    point = len(digits) - len(fraction) + int(exponent or 0)
    sign = "-" if value < 0 else ""
    if point >= _FIRST_POINT and (point <= _LAST_POINT or len(significant) > point):
        return sign + _plain(significant, point)
    fraction = f".{significant[1:]}" if len(significant) > 1 else ""
    return f"{sign}{significant[0]}{fraction}e{point - 1}"


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
    return f"{whole}.{fraction}" if fraction else whole


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


def double_texts(values: pa.Array) -> pa.Array:
    """`double_text` of each value. Arrow writes the same shortest digits; only its exponents are not MySQL's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.cast(pc.add(values, 0.0), pa.string())
    odd = pc.fill_null(pc.match_substring(texts, "e"), False)
    if not pc.any(odd).as_py():
        return texts
    rewritten = pa.array([double_text(x.as_py()) for x in values.filter(odd)], pa.string())
    return pc.replace_with_mask(texts, odd, rewritten)


def _each(function: Callable[..., str | None], *columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())


def _vectorised() -> dict[str, Any]:
    # The annotations are what Spark reads the kind of function from; strings would not be resolved here.
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def _double_text(values: Any) -> Any:
        return double_texts(values)

    def _json(texts: Any) -> Any:
        return _each(_json_writer(), texts)

    def _bytes(texts: Any, scales: Any) -> Any:
        return _each(decimal_bytes, texts, scales)

    def _decimal(texts: Any, scales: Any) -> Any:
        return _each(decimal_plain, texts, scales)

    functions = {
        "cdc_double_text": (_double_text, 1),
        "cdc_json_canonical": (_json, 1),
        "cdc_decimal_bytes": (_bytes, 2),
        "cdc_decimal_plain": (_decimal, 2),
    }
    made = {}
    for name, (function, arguments) in functions.items():
        names = list(function.__code__.co_varnames[:arguments])
        function.__annotations__ = dict.fromkeys([*names, "return"], pa.Array)
        made[name] = arrow_udf(function, "string")
    return made
