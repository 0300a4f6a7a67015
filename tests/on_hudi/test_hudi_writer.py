"""The suite of stage writers on Hudi, and what only a table with one writer has to refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from airflow_cdc.core.errors import SchemaError, SinkError, StaleHeadError
from airflow_cdc.core.types import Integer, Text
from airflow_cdc.sinks.hudi import timeline
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE, HudiEndpoint
from airflow_cdc.spark_apps.adapters import hudi_table
from airflow_cdc.spark_apps.adapters.hudi import HudiWriter
from airflow_cdc.spark_apps.types import sink_type
from tests.contract.stage_writer import SMALL, Scene, StageWriterSuite, WriterBench, opened, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.table import Table
    from airflow_cdc.sinks.hudi.client import Stage as HudiStage


@dataclass(frozen=True)
class HudiBench:
    """A namespace of the folder; readers have a session of their own."""

    sink: Any
    writer: HudiWriter
    namespace: str
    spark: SparkSession

    def ids(self, table: str) -> Sequence[int]:
        folder = self.sink.folder((self.namespace, table))
        if not folder.exists():
            return []
        return sorted(row["id"] for row in self.spark.newSession().read.format("hudi").load(str(folder)).collect())


def published(bench: HudiBench, scene: Scene, *rows: tuple[int, str]) -> None:
    """Rows that readers see."""
    scene.snapshot(*rows)
    bench.sink.publish(scene.stage, scene.writer.version(scene.stage), scene.stage.base_head)


def applied(bench: HudiBench, spark: SparkSession, table: Table = SMALL) -> Scene:
    """A batch on its way into the table."""
    return Scene(bench, spark, table, bench.sink.stage_for_changes(bench.namespace, "t", "apply_1"))


def foreign(bench: HudiBench, spark: SparkSession) -> None:
    """Another writer adds a row."""
    rows = spark.sql(f"SELECT 99L AS id, 'other' AS word, '99' AS {hudi_table.KEY}, false AS {hudi_table.DELETED}")
    table = hudi_table.HudiTable(bench.sink.folder((bench.namespace, "t")), "t")
    hudi_table.write(rows, table, hudi_table.ADD, {})


class TestHudiWriter(StageWriterSuite):
    """Each test in a folder of its own, with copy-on-write tables."""

    TABLE_TYPE: ClassVar[str] = COPY_ON_WRITE

    @pytest.fixture
    def sink(self, tmp_path: Path) -> HudiSink:
        return HudiSink(HudiEndpoint(str(tmp_path), self.TABLE_TYPE))

    @pytest.fixture
    def bench(self, sink: HudiSink, namespace: str, spark: SparkSession) -> WriterBench:
        return HudiBench(sink, HudiWriter(sink), namespace, spark)

    def test_a_table_without_a_key_is_refused(self, bench: HudiBench, scene: Scene) -> None:
        with pytest.raises(SchemaError, match="without a primary key"):
            bench.writer.define(cast("HudiStage", scene.stage), replace(SMALL, key=()), [])

    @pytest.mark.parametrize("name", ["a b", "_hoodie_commit_time", "_CDC_key", "é"])
    def test_a_column_that_hudi_cannot_hold_is_refused(self, bench: HudiBench, scene: Scene, name: str) -> None:
        with pytest.raises(SchemaError, match=name):
            bench.writer.define(cast("HudiStage", scene.stage), table_of({"id": Integer(64), name: Text()}), [])

    def test_keys_that_hudi_writes_alike_are_two_rows(self, bench: HudiBench, spark: SparkSession) -> None:
        table = replace(table_of({"id": Integer(64), "a": Text(), "b": Text()}), key=("a", "b"))
        scene = opened(bench, spark, table)
        rows = [(1, "1,b:2", "3"), (2, "1", "2,b:3"), (3, "", "x"), (4, "__empty__", "x")]
        frame = spark.createDataFrame(rows, "id bigint, a string, b string")
        scene.writer.snapshot(scene.stage, frame, scene.summary(0), first=True)
        after = spark.sql(
            "SELECT struct('1' AS a, '2,b:3' AS b) AS key, true AS deleted, CAST(NULL AS struct<id:bigint,a:string,b:string>) AS after"
        )
        scene.writer.changes(scene.stage, table, after, scene.summary(6))
        assert [row["id"] for row in scene.read()] == [1, 3, 4]

    def test_a_deleted_row_is_gone_for_readers_and_an_older_one_does_not_come_back(
        self, bench: HudiBench, spark: SparkSession, scene: Scene
    ) -> None:
        published(bench, scene, (1, "a"), (2, "b"))
        applied(bench, spark).change((1, 5, None))
        assert bench.ids("t") == [2]
        applied(bench, spark).change((2, 6, "c"))
        assert bench.ids("t") == [2]

    def test_a_commit_of_another_before_the_publish_is_named(
        self, bench: HudiBench, spark: SparkSession, scene: Scene
    ) -> None:
        published(bench, scene, (1, "a"))
        later = Scene(bench, spark, SMALL, bench.sink.stage(bench.namespace, "t", "recov_2_1"))
        later.snapshot((1, "b"))
        foreign(bench, spark)
        theirs = bench.sink.facts(bench.namespace, "t").other.version
        with pytest.raises(StaleHeadError, match=str(theirs)):
            bench.sink.publish(later.stage, later.writer.version(later.stage), later.stage.base_head)
        assert bench.ids("t") == [1, 99]
        assert not bench.sink.publishable(later.stage)

    def test_a_commit_of_another_during_the_publish_is_named_afterwards(
        self, bench: HudiBench, spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        published(bench, scene, (1, "a"))
        later = Scene(bench, spark, SMALL, bench.sink.stage(bench.namespace, "t", "recov_2_1"))
        later.snapshot((1, "b"))
        check = HudiSink.check_head

        def checked(sink: HudiSink, *args: object) -> None:
            check(sink, *args)  # type: ignore[arg-type]
            foreign(bench, spark)

        monkeypatch.setattr(HudiSink, "check_head", checked)
        with pytest.raises(StaleHeadError, match="one writer"):
            bench.sink.publish(later.stage, later.writer.version(later.stage), later.stage.base_head)

    def test_a_batch_is_refused_after_another_writer_committed(
        self, bench: HudiBench, spark: SparkSession, scene: Scene
    ) -> None:
        published(bench, scene, (1, "a"))
        batch = applied(bench, spark)
        foreign(bench, spark)
        with pytest.raises(StaleHeadError, match="another writer"):
            batch.change((1, 5, "b"))
        assert bench.ids("t") == [1, 99]

    def test_publishing_again_changes_nothing(self, bench: HudiBench, spark: SparkSession, scene: Scene) -> None:
        published(bench, scene, (1, "a"), (2, "b"))
        applied(bench, spark).change((1, 5, None))
        again = bench.sink.publish(scene.stage, scene.writer.version(scene.stage), scene.stage.base_head)
        assert (again.already, bench.ids("t")) == (True, [2])

    def test_only_the_verified_version_is_published(self, bench: HudiBench, scene: Scene) -> None:
        scene.snapshot((1, "a"))
        verified = scene.writer.version(scene.stage)
        scene.change((2, 5, "b"))
        with pytest.raises(StaleHeadError, match="not at the verified"):
            bench.sink.publish(scene.stage, verified, scene.stage.base_head)

    def test_a_publish_brings_other_columns(self, bench: HudiBench, spark: SparkSession, scene: Scene) -> None:
        published(bench, scene, (1, "a"))
        table = table_of({"id": Integer(32), "n": Integer(64)})
        stage = bench.sink.stage(bench.namespace, "t", "recov_2_1")
        bench.writer.define(stage, table, [(column.name, sink_type(column)) for column in table.mirrored])
        frame = spark.createDataFrame([(7, 8)], "id int, n bigint")
        bench.writer.snapshot(stage, frame, scene.summary(0, epoch=2), first=True)
        bench.sink.publish(stage, bench.writer.version(stage), stage.base_head)
        live = Scene(bench, spark, table, bench.sink.stage_for_changes(bench.namespace, "t", "apply_1"))
        assert live.read() == [{"id": 7, "n": 8}]
        assert bench.ids("t") == [7]

    def test_facts_are_read_without_spark(self, bench: HudiBench, spark: SparkSession, scene: Scene) -> None:
        assert bench.sink.facts(bench.namespace, "t").rows == 0
        published(bench, scene, (1, "a"), (2, "b"))
        applied(bench, spark).change((1, 5, None), (3, 6, "c"), (4, 7, "d"))
        facts = bench.sink.facts(bench.namespace, "t")
        assert (facts.exists, facts.rows, facts.stamp.offsets["t"].next) == (True, 3, {0: 8})
        assert facts.other is None
        foreign(bench, spark)
        facts = bench.sink.facts(bench.namespace, "t")
        assert facts.other.version == facts.head

    def test_a_later_try_takes_the_rows_over(self, bench: HudiBench, spark: SparkSession, scene: Scene) -> None:
        scene.snapshot((1, "a"))
        second = bench.sink.stage(bench.namespace, "t", "recov_1_1_v1", from_stage=scene.stage)
        taken = Scene(bench, spark, SMALL, second)
        taken.change((2, 5, "b"))
        assert (taken.words, scene.words) == ({1: "a", 2: "b"}, {1: "a"})
        assert [stage.label for stage in bench.sink.stages(bench.namespace, "t")] == ["recov_1_1", "recov_1_1_v1"]

    def test_a_folder_of_somebody_else_is_refused(self, sink: HudiSink, namespace: str) -> None:
        sink.folder((namespace, "t")).mkdir(parents=True)
        with pytest.raises(SinkError, match="not made by this package"):
            sink.ensure_table(namespace, "t", ())


class TestMergeOnRead(TestHudiWriter):
    """Tables that readers see are merge on read; stages are not."""

    TABLE_TYPE = "merge-on-read"

    def test_a_compaction_is_no_version_and_takes_no_stamp_away(
        self, bench: HudiBench, spark: SparkSession, scene: Scene
    ) -> None:
        published(bench, scene, (1, "a"), (2, "b"))
        for number in range(5, 17):
            applied(bench, spark).change((1, number, f"v{number}"), (2, number, None))
        folder = bench.sink.folder((bench.namespace, "t"))
        compacted = [commit for commit in timeline._all(folder) if commit.operation == "COMPACT"]
        assert compacted
        assert bench.sink.facts(bench.namespace, "t").other is None
        assert bench.sink.stamp(bench.namespace, "t").offsets["t"].next == {0: 17}
        assert bench.ids("t") == [1]
        assert applied(bench, spark).words == {1: "v16"}
        assert bench.sink.facts(bench.namespace, "t").rows == 1
