"""The suite of stage writers on Iceberg."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq
import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from tests.contract.stage_writer import Scene, StageWriterSuite, WriterBench


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

    def test_files_are_compressed_as_other_engines_do(self, scene: Scene) -> None:
        """Where a table says nothing, Iceberg's Java writers take gzip; engines that create a table set zstd."""
        scene.snapshot((1, "a"), (2, "b"))
        scene.change((1, 1, "c"))
        files = scene.bench.sink.table(*scene.stage.identifier).inspect.files()["file_path"].to_pylist()
        codecs = {
            pq.ParquetFile(path.removeprefix("file:")).metadata.row_group(0).column(0).compression for path in files
        }
        assert codecs == {"ZSTD"}


class TestIcebergWriterBeside(StageWriterSuite):
    """With stages in tables of their own."""

    @pytest.fixture
    def bench(self, lake_properties: dict[str, str]) -> WriterBench:
        lake = Lake("lake", {**lake_properties, "staging": "beside"})
        return LakeBench(lake, IcebergWriter(lake), f"w_{uuid.uuid4().hex[:8]}")
