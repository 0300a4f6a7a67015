"""A session function that Spark SQL lacks: cdc_json_canonical(string), with sorted keys, no spaces, numbers in one form.

NULL for what is not JSON. `adapters/mysql_values.py` and `canonical/spark.py` call it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare import json_text
from airflow_cdc.decisions.compare.json_text import json_canonical, json_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_functions(spark: SparkSession) -> None:
    """Register the function in this session. Raises SchemaError if the session is not in UTC and ANSI mode.

    Both settings silently change the meaning of the expressions.
    """
    for key, wanted in (("spark.sql.session.timeZone", "UTC"), ("spark.sql.ansi.enabled", "true")):
        value = spark.conf.get(key)
        if value != wanted:
            raise SchemaError(f"{key} is {value}", where="Spark session", todo=f"Set it to {wanted}.")
    from pyspark import cloudpickle

    # by value, as nested functions are: executors then need pyarrow only, not this package
    cloudpickle.register_pickle_by_value(json_text)
    spark.udf.register("cdc_json_canonical", _json_canonical())


def _json_canonical() -> Any:
    """The function as this Spark takes it.

    Before 4.1 Spark calls Python over Arrow by way of pandas, which executors need not have: there it is called row by row.
    """
    from pyspark.sql import functions

    if not hasattr(functions, "arrow_udf"):
        return functions.udf(lambda text: None if text is None else json_canonical(text), "string")
    import pyarrow as pa  # that Spark's Python need not have it

    def canonical(texts: pa.Array) -> pa.Array:
        write = json_writer()
        return pa.array([None if text is None else write(text) for text in texts.to_pylist()], pa.string())

    # Spark infers the kind of function from the annotations; string annotations would not be resolved here
    canonical.__annotations__ = {"texts": pa.Array, "return": pa.Array}
    return functions.arrow_udf(canonical, "string")
