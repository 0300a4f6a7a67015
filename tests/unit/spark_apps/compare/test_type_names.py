"""The names of Spark's types, which are told without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import types

from airflow_cdc.decisions.compare.expectations import type_name
from airflow_cdc.spark_apps.types import spark_type
from tests.contract.stage_writer import TYPES

NAMES = sorted({spark_type(kind) for kind in TYPES.values()} | {"int"})


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_sparks(text: str) -> None:
    named = getattr(types, type_name(text))
    assert text.startswith(named.typeName() if "(" in text or "<" in text else named().simpleString())
