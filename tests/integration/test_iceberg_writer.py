"""The suite of stage writers on Iceberg."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from tests.contract.stage_writer import StageWriterSuite, WriterBench


@dataclass(frozen=True)
class LakeBench:
    """A namespace of the session's lake."""

    sink: Lake
    writer: IcebergWriter
    namespace: str

    def ids(self, table: str) -> Sequence[int]:
        return sorted(self.sink.read_arrow(self.namespace, table)["id"].to_pylist())


class TestIcebergWriter(StageWriterSuite):
    """Each test in a namespace of its own."""

    @pytest.fixture
    def bench(self, lake_properties: dict[str, str]) -> WriterBench:
        lake = Lake("lake", lake_properties)
        return LakeBench(lake, IcebergWriter(lake), f"w_{uuid.uuid4().hex[:8]}")


class TestIcebergWriterBeside(StageWriterSuite):
    """With stages in tables of their own."""

    @pytest.fixture
    def bench(self, lake_properties: dict[str, str]) -> WriterBench:
        lake = Lake("lake", {**lake_properties, "staging": "beside"})
        return LakeBench(lake, IcebergWriter(lake), f"w_{uuid.uuid4().hex[:8]}")
