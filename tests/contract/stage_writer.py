"""What every stage writer must do: the suite that the tests of each sink inherit (tests/integration)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Column, NativeColumn, Table
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.core.types import (
    Array,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)
from airflow_cdc.spark_apps.types import sink_type
from tests.on_demand import on_demand

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.ports import Stage

TYPES: dict[str, LogicalType] = {
    "id": Integer(64),
    "huge": Integer(64, unsigned=True),
    "wide": Decimal(38, 10),
    "share": Float(),
    "ok": Boolean(),
    "word": Text(),
    "raw": Bytes(),
    "day": Date(),
    "at": LocalDateTime(),
    "seen": Instant(),
    "clock": Time(),
    "doc": Json(),
    "name": Uuid(),
    "place": Geometry(),
    "numbers": Array(Integer()),
    "words": Array(Text()),
    "shares": Array(Float()),
    "days": Array(Date()),
}
# rows of these types at their edges, in Spark SQL
EDGES = (
    (
        "-9223372036854775808L", "18446744073709551615BD", "-1234567890123456789012345678.0123456789BD",
        "double('NaN')", "true", "'a|b \"q\" \\\\ \\n 😀'", "X'00FF0A'", "DATE'0001-01-01'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'", "TIMESTAMP'0001-01-03 00:00:00Z'", "-1800000000001L",
        "'{\"a\":  1.0}'", "'6f9619ff-8b86-d011-b42d-00c04fc964ff'",
        "named_struct('srid', 4326, 'wkb', X'0101')", "array(1, NULL, -3)", "array('', NULL, 'x')",
        "array(double('-Infinity'), -0.0D, 1e22D)", "array(DATE'2024-02-29', NULL)",
    ),
    (
        "9223372036854775807L", "0BD", "0.0000000001BD", "double('Infinity')", "false", "''", "X''", "DATE'9999-12-31'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'", "TIMESTAMP'2026-10-25 00:30:00.000001Z'", "0L", "'[]'",
        "'00000000-0000-0000-0000-000000000000'", "named_struct('srid', 0, 'wkb', X'')", "array()", "array()",
        "array()", "array()",
    ),
    (
        "0L", "9007199254740993BD", "0BD", "0.1D + 0.2D", "NULL", "repeat('long ', 20000)", "NULL", "NULL",
        "TIMESTAMP_NTZ'0999-01-01 00:00:00'", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL",
    ),
)  # fmt: skip


def table_of(types: dict[str, LogicalType], name: str = "t") -> Table:
    columns = tuple(
        Column(column, at, kind, NativeColumn("any", "any"), nullable=column != "id")
        for at, (column, kind) in enumerate(types.items(), start=1)
    )
    return Table("shop", name, columns, ("id",))


FULL = table_of(TYPES)
SMALL = table_of({"id": Integer(64), "word": Text()})


class WriterBench(Protocol):
    """A sink: its client and writer, a namespace of the test's own, and what readers of a table find."""

    @property
    def sink(self) -> Any: ...
    @property
    def writer(self) -> Any: ...
    @property
    def namespace(self) -> str: ...
    def ids(self, table: str) -> Sequence[int]: ...


@dataclass(slots=True)
class Scene:
    """One table of the bench, and a stage of it."""

    bench: WriterBench
    spark: SparkSession
    table: Table
    stage: Stage

    @property
    def writer(self) -> Any:
        return self.bench.writer

    def summary(self, upto: int, epoch: int = 1) -> dict[str, str]:
        return Stamp(epoch, None, {"t": TopicOffsets("T1", {0: upto})}).to_summary()

    def read(self, relation: str = "") -> list[dict[str, Any]]:
        """The rows of the stage, or of a view, by id."""
        frame = self.writer.rows(self.spark, self.stage)
        frame = self.spark.sql(f"SELECT * FROM {relation}") if relation else frame
        return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: int(row["id"]))

    def snapshot(self, *values: tuple[int, str], first: bool = True) -> None:
        frame = self.spark.createDataFrame(list(values), "id bigint, word string")
        self.writer.snapshot(self.stage, frame, self.summary(0), first=first)

    def net(self, *changes: tuple[int, int, str | None], events: bool = True) -> DataFrame:
        """Net changes (id, offset, word; no word: a delete), of events or read from the source."""
        rows = [((key,), word is None, None if word is None else (key, word), (0, at)) for key, at, word in changes]
        schema = (
            "key struct<id: bigint>, deleted boolean, after struct<id: bigint, word: string>,"
            " cdc struct<partition: int, offset: bigint>"
        )
        frame = self.spark.createDataFrame(rows, schema)
        return frame if events else frame.drop("cdc")

    def change(self, *changes: tuple[int, int, str | None], events: bool = True, emptied: bool = False) -> None:
        upto = max((at for _, at, _ in changes), default=0) + 1
        net = self.net(*changes, events=events)
        self.writer.changes(self.stage, self.table, net, self.summary(upto), emptied=emptied)

    @property
    def words(self) -> dict[int, str]:
        return {row["id"]: row["word"] for row in self.read()}


def opened(bench: WriterBench, spark: SparkSession, table: Table) -> Scene:
    """The table in the sink, empty, and a stage as a recovery makes it."""
    columns = [(column.name, sink_type(column)) for column in table.mirrored]
    bench.sink.ensure_table(bench.namespace, table.name, columns)
    stage = bench.sink.stage(bench.namespace, table.name, "recov_1_1")
    bench.writer.define(stage, table, columns)
    bench.writer.note_definition(stage, table)
    return Scene(bench, spark, table, stage)


class StageWriterSuite:
    """Inherited by each sink's tests, which give the fixture `bench`."""

    @pytest.fixture
    def scene(self, bench: WriterBench, spark: SparkSession) -> Scene:
        return opened(bench, spark, SMALL)

    def test_every_value_comes_back_as_it_was(self, bench: WriterBench, spark: SparkSession) -> None:
        scene = opened(bench, spark, FULL)
        typed = (
            ", ".join(
                f"CAST({value} AS {sink_type(column)}) AS `{column.name}`"
                for value, column in zip(row, FULL.columns, strict=True)
            )
            for row in EDGES
        )
        frame = spark.sql(" UNION ALL ".join(f"SELECT {row}" for row in typed))
        scene.writer.snapshot(scene.stage, frame, scene.summary(0), first=True)
        expected = sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda row: int(row["id"]))
        # NaN is not equal to itself
        assert [_plain(row) for row in scene.read()] == [_plain(row) for row in expected]
        kinds = [(field.name, field.dataType) for field in scene.writer.rows(spark, scene.stage).schema]
        assert kinds == [(field.name, field.dataType) for field in frame.schema]

    def test_the_first_snapshot_replaces_and_the_next_adds(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"))
        scene.snapshot((3, "c"), first=False)
        assert scene.words == {1: "a", 2: "b", 3: "c"}
        scene.snapshot((4, "d"))
        assert scene.words == {4: "d"}

    def test_a_view_does_not_see_what_is_written_later(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"))
        version = scene.writer.version(scene.stage)
        relation = scene.writer.at(scene.spark, scene.stage, version)
        scene.change((1, 5, None), (2, 6, "later"), (3, 7, "new"))
        assert [(row["id"], row["word"]) for row in scene.read(relation)] == [(1, "a"), (2, "b")]
        other = scene.spark.newSession().sql(f"SELECT count(*) FROM {relation}").collect()
        assert other[0][0] == 2
        assert scene.writer.row_count(scene.stage, version) == 2

    def test_a_driver_that_has_no_session_yet_opens_a_view(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"))
        with on_demand(scene.spark) as spark:
            relation = scene.writer.at(spark, scene.stage, scene.writer.version(scene.stage))
            rows = spark.sql(f"SELECT id, word FROM {relation} ORDER BY id").collect()
        assert [tuple(row) for row in rows] == [(1, "a"), (2, "b")]

    def test_changes_are_upserts_and_deletes_and_can_be_repeated(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"), (3, "c"))
        for _ in range(2):
            scene.change((1, 5, None), (2, 6, "changed"), (9, 7, None), (4, 8, "new"))
            assert scene.words == {2: "changed", 3: "c", 4: "new"}
        assert scene.writer.stamp(scene.stage).offsets["t"].next == {0: 9}

    def test_rows_read_again_replace_and_later_events_replace_them(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"))
        scene.change((1, 5, "event"), (3, 6, None))
        scene.change((1, 0, "read again"), (2, 0, None), (3, 0, "there"), events=False)
        assert scene.words == {1: "read again", 3: "there"}
        scene.change((1, 7, "next"), (2, 8, "next"), (3, 9, None))
        assert scene.words == {1: "next", 2: "next"}

    def test_a_truncated_table_holds_only_what_came_after(self, scene: Scene) -> None:
        scene.snapshot((1, "a"), (2, "b"))
        scene.change((3, 4, "c"))
        scene.change((2, 9, "after"), (5, 10, None), emptied=True)
        assert scene.words == {2: "after"}
        scene.change(emptied=True)
        assert scene.words == {}

    def test_a_commit_of_nothing_states_progress(self, scene: Scene) -> None:
        scene.snapshot((1, "a"))
        before = scene.writer.version(scene.stage)
        scene.writer.nothing(scene.spark, scene.stage, scene.summary(42))
        assert scene.writer.version(scene.stage) != before
        assert scene.writer.stamp(scene.stage).offsets["t"].next == {0: 42}
        assert scene.words == {1: "a"}

    def test_readers_see_a_stage_once_it_is_published_and_the_next_begins_from_it(self, scene: Scene) -> None:
        bench, sink = scene.bench, scene.bench.sink
        scene.snapshot((1, "a"), (2, "b"))
        assert bench.ids("t") == []
        sink.publish(scene.stage, scene.writer.version(scene.stage), scene.stage.base_head)
        assert bench.ids("t") == [1, 2]
        later = Scene(bench, scene.spark, SMALL, sink.stage(bench.namespace, "t", "repair_1"))
        scene.writer.changeable(later.stage)
        later.change((1, 0, None), events=False)
        assert (bench.ids("t"), later.words) == ([1, 2], {2: "b"})
        sink.publish(later.stage, later.writer.version(later.stage), later.stage.base_head)
        assert bench.ids("t") == [2]

    def test_a_batch_of_events_reaches_readers_with_its_publish_at_the_latest(self, scene: Scene) -> None:
        bench, sink = scene.bench, scene.bench.sink
        scene.snapshot((1, "a"), (2, "b"))
        sink.publish(scene.stage, scene.writer.version(scene.stage), scene.stage.base_head)
        sink.drop_stage(scene.stage)
        applied = Scene(bench, scene.spark, SMALL, sink.stage_for_changes(bench.namespace, "t", "apply_1"))
        applied.change((1, 5, None), (3, 6, "c"))
        sink.publish(applied.stage, sink.stage_head(applied.stage), applied.stage.base_head)
        sink.drop_stage(applied.stage)
        assert bench.ids("t") == [2, 3]
        assert sink.stamp(bench.namespace, "t").offsets["t"].next == {0: 7}


def _plain(value: Any) -> Any:
    """The value with NaN and -0.0 as text, which compare as they are written."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return repr(value) if isinstance(value, float) and (math.isnan(value) or value == 0) else value
