"""A small session of Spark, and no server: what a batch changes, and what a comparison counts, on frames that a test makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from tests.apply_support import Bench
from tests.spark_session import COLLECTED, embedded_catalog, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a socket of pyspark's leaves to the garbage collector is no fault of a test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(COLLECTED))


@pytest.fixture(scope="session")
def lake_properties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Properties of an embedded Iceberg catalog for PyIceberg."""
    return embedded_catalog(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, lake_properties: dict[str, str]) -> Iterator[SparkSession]:
    """A session on one core, whose plans are as small as they can be."""
    smallest = {
        "spark__master": "local[1]",
        "spark__sql__shuffle__partitions": "1",
        "spark__sql__adaptive__enabled": "false",
    }
    with local_session(tmp_path_factory.mktemp("spark"), lake_properties, **smallest) as session:
        yield session


@pytest.fixture
def bench(spark: SparkSession, lake_properties: dict[str, str]) -> Bench:
    """A lake with targets and stages, in that session."""
    return Bench(spark, Lake("lake", lake_properties))
