"""Session functions that Spark SQL lacks, vectorised over Arrow: `adapters/mysql_values.py` and `compare/encoding.py` call them.

cdc_json_canonical(string): sorted keys, no spaces, numbers in one form; NULL if it is not JSON.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare import json_text
from airflow_cdc.decisions.compare.json_text import json_canonical, json_writer

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


def _each(function: Callable[..., str | None], *columns: pa.Array) -> pa.Array:
    import pyarrow as pa

    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([None if row[0] is None else function(*row) for row in rows], pa.string())


def _json_texts(texts: Any) -> Any:
    return _each(json_writer(), texts)


class _Function(NamedTuple):
    """One session function: over one row's values, and over columns of them."""

    row: Callable[..., str | None]
    columns: Callable[..., Any]
    arguments: tuple[str, ...]


_FUNCTIONS: Final = {
    "cdc_json_canonical": _Function(json_canonical, _json_texts, ("texts",)),
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
