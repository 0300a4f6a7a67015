"""Session functions that Spark SQL lacks, vectorised over Arrow: `adapters/mysql_values.py`, `compare/encoding.py` and the decoders of events call them.

cdc_json_canonical(string): sorted keys, no spaces, numbers in one form; NULL if it is not JSON.
cdc_decimal_bytes(string, int): base64 of a big-endian two's complement number → plain text with that many decimals.
cdc_decimal_plain(string, int): a decimal in any notation → plain text with that many decimals.

Each returns NULL for a value it cannot read, so that the caller gets a bad record instead of a failed job.
"""

from __future__ import annotations

import base64
import binascii
import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare import json_text
from airflow_cdc.decisions.compare.json_text import json_canonical, json_writer

# PostgreSQL's numeric has up to 131,072 digits before the point and 16,383 after it: no source has more
_MOST_DIGITS: Final = 131_072 + 16_383
_MOST_SHIFT: Final = 16_383
_MOST_BYTES: Final = 62_000

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession


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
    for module in (sys.modules[__name__], json_text):
        cloudpickle.register_pickle_by_value(module)
    for name, function in _registrable().items():
        spark.udf.register(name, function)


def decimal_bytes(text: str, scale: int) -> str | None:
    """Base64 of an unscaled big-endian number → plain text with `scale` decimals; None if it is not base64."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not 0 < len(raw) <= _MOST_BYTES:
        return None
    unscaled = int.from_bytes(raw, "big", signed=True)
    # Python writes no integer of more than 4,300 digits as text, but a decimal of any length
    return _scaled("-" if unscaled < 0 else "", f"{Decimal(abs(unscaled)):f}", scale)


def decimal_plain(text: str, scale: int) -> str | None:
    """A decimal in any notation → plain text with `scale` decimals; None if it has more, or is not a number."""
    try:
        sign, digits, exponent = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int) or abs(exponent) > _MOST_SHIFT or len(digits) > _MOST_DIGITS:
        return None
    shift, unscaled = exponent + scale, "".join(map(str, digits))
    if shift < 0:
        if unscaled[shift:].strip("0"):
            return None
        unscaled = unscaled[:shift]
    else:
        unscaled += "0" * shift
    return _scaled("-" if sign else "", unscaled.lstrip("0"), scale)


def _scaled(sign: str, unscaled: str, scale: int) -> str:
    digits = unscaled.rjust(scale + 1, "0")
    sign = sign if digits.strip("0") else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _each(function: Callable[..., str | None], *columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())


def _json_texts(texts: Any) -> Any:
    return _each(json_writer(), texts)


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
