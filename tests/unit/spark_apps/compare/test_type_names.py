"""The names of Spark's types, which are told without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from airflow_cdc.spark_apps.compare.expectations import _type_name
from airflow_cdc.spark_apps.types import spark_type
from tests.contract.stage_writer import TYPES

NAMES = sorted({spark_type(kind) for kind in TYPES.values()} | {"int"})


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_sparks(text: str) -> None:
    assert _type_name(text) == type(StructType.fromDDL(f"c {text}")["c"].dataType).__name__
