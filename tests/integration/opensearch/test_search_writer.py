"""The suite of stage writers on OpenSearch, and what only an index refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import SchemaError, SinkError, StaleHeadError
from airflow_cdc.core.types import Integer, Text
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.spark_apps.adapters.opensearch import OpenSearchWriter
from tests.contract.stage_writer import SMALL, Scene, StageWriterSuite, WriterBench, opened, table_of
from tests.integration.opensearch.test_sink import asked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SearchBench:
    """A namespace of the node."""

    sink: SearchSink
    writer: OpenSearchWriter
    namespace: str

    def ids(self, table: str) -> Sequence[int]:
        hits = asked(self.sink.endpoint.url, f"{self.namespace}.{table}/_search", {"size": 100})["hits"]["hits"]
        return sorted(hit["_source"]["id"] for hit in hits)


class TestOpenSearchWriter(StageWriterSuite):
    """Each test in a namespace of its own."""

    @pytest.fixture
    def bench(self, sink: SearchSink, namespace: str) -> WriterBench:
        return SearchBench(sink, OpenSearchWriter(sink), namespace)

    def test_a_table_without_a_key_is_refused(self, bench: WriterBench, scene: Scene) -> None:
        with pytest.raises(SchemaError, match="without a primary key"):
            bench.writer.define(scene.stage, replace(SMALL, key=()), [])

    @pytest.mark.parametrize("name", ["a.b", "_id", "cdc_deleted"])
    def test_a_column_that_cannot_be_a_field_is_refused(self, bench: WriterBench, scene: Scene, name: str) -> None:
        with pytest.raises(SchemaError, match=name):
            bench.writer.define(scene.stage, table_of({"id": Integer(64), name: Text()}), [])

    def test_an_index_is_not_read_at_an_older_version(self, scene: Scene) -> None:
        scene.snapshot((1, "a"))
        old = scene.writer.version(scene.stage)
        scene.change((1, 5, "b"))
        with pytest.raises(SinkError, match="as it is"):
            scene.writer.at(scene.spark, scene.stage, old)

    def test_a_batch_is_refused_after_another_writer_committed(self, bench: WriterBench, spark: SparkSession) -> None:
        scene = opened(bench, spark, SMALL)
        scene.snapshot((1, "a"))
        bench.sink.publish(scene.stage, scene.writer.version(scene.stage), scene.stage.base_head)
        applied = Scene(bench, spark, SMALL, bench.sink.stage_for_changes(bench.namespace, "t", "apply_1"))
        bench.sink.commit_nothing(bench.namespace, "t", scene.summary(99))
        with pytest.raises(StaleHeadError, match="another writer"):
            applied.change((1, 5, "b"))
        assert bench.sink.stamp(bench.namespace, "t").offsets["t"].next == {0: 99}

    def test_a_key_too_long_for_an_id_is_found_again(self, bench: WriterBench, spark: SparkSession) -> None:
        table = replace(table_of({"id": Integer(64), "word": Text()}), key=("word",))
        scene = opened(bench, spark, table)
        scene.snapshot((1, "x" * 600), (2, "x" * 601))
        rows = [(("x" * 600,), True, None, (0, 5))]
        schema = (
            "key struct<word: string>, deleted boolean, after struct<id: bigint, word: string>,"
            " cdc struct<partition: int, offset: bigint>"
        )
        scene.writer.changes(scene.stage, table, spark.createDataFrame(rows, schema), scene.summary(6))
        assert [row["id"] for row in scene.read()] == [2]
