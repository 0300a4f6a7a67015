"""What Spark 3.5 has no function for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_cdc.spark_apps.driver.functions import utf8_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = (
    b"plain",
    "ü€😀\ufffd".encode(),
    b"\xff",
    b"a\xc3",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"",
    None,
)


def _read(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("value", VALUES)
def test_text_is_what_python_reads_or_null(spark: SparkSession, value: bytes | None) -> None:
    frame = spark.createDataFrame([(value,)], "v binary")
    assert frame.selectExpr(f"{utf8_text('v')} AS t").collect()[0]["t"] == _read(value)
