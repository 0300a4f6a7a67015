"""Tables in the layout of Flink's job, made here by Spark: what a recovery puts in place of their rows, and what it refuses.

That the job finds these rows again is the rows "Flink CDC to Hudi" of `make systems`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.types import Instant, Integer, LocalDateTime, Text
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import COPY_ON_WRITE, HudiEndpoint
from airflow_cdc.sinks.hudi.shared import bucket_of
from airflow_cdc.spark_apps.adapters.hudi import HudiWriter
from airflow_cdc.spark_apps.types import sink_type
from tests.contract.stage_writer import table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 3
TABLE = table_of({"id": Integer(64), "word": Text(), "at": LocalDateTime(), "seen": Instant()})
COLUMNS = [(column.name, sink_type(column)) for column in TABLE.mirrored]
# as Flink declares them: its TIMESTAMP is an instant, and its TIMESTAMP_LTZ is none
FLINKS = "id, concat('w', id) AS word, TIMESTAMP'1969-12-31 23:59:59.999999' AS at, TIMESTAMP_NTZ'2026-03-29 00:30:00.000001' AS seen"
OURS = "id, concat('s', id) AS word, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS at, TIMESTAMP'2026-03-29 00:30:00.000001' AS seen"


@dataclass(frozen=True)
class Shared:
    """The table of a job."""

    spark: SparkSession
    sink: Any
    namespace: str
    kind: str

    @property
    def place(self) -> tuple[str, str]:
        return self.namespace, TABLE.name

    @property
    def folder(self) -> Path:
        folder: Path = self.sink.folder(self.place)
        return folder

    def write(self, rows: str, **more: str) -> None:
        """A commit of the job."""
        options = {
            "hoodie.table.name": f"to_{TABLE.name}",
            "hoodie.datasource.write.table.type": self.kind.upper().replace("-", "_"),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(BUCKETS),
            "hoodie.metadata.enable": "true",
            **more,
        }
        self.spark.sql(rows).write.format("hudi").options(**options).mode("append").save(str(self.folder))

    def read(self) -> list[Any]:
        """The rows that a reader finds, by id."""
        frame = self.spark.newSession().read.format("hudi").load(str(self.folder))
        return sorted(frame.collect(), key=lambda row: int(row["id"]))

    def stage(self, ids: str) -> tuple[Any, int]:
        """A stage as a recovery fills it; its version."""
        writer = HudiWriter(self.sink)
        self.sink.ensure_table(*self.place, COLUMNS)
        stage = self.sink.stage(*self.place, "recov_1_1")
        writer.note_definition(stage, TABLE)
        rows = self.spark.sql(f"SELECT {OURS} FROM range({ids})")
        writer.snapshot(stage, rows, Stamp(1).to_summary(), first=True)
        return stage, writer.version(stage)

    def misfits(self, columns: Sequence[tuple[str, str]] = COLUMNS) -> Sequence[str]:
        return HudiWriter(self.sink).misfits(self.spark, self.place, columns, TABLE.key)


@pytest.fixture(params=[COPY_ON_WRITE, "merge-on-read"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, namespace: str) -> Shared:
    """A table with rows 0 … 19."""
    made = Shared(spark, HudiSink(HudiEndpoint.of(str(tmp_path), buckets=BUCKETS)), namespace, request.param)
    made.write(f"SELECT {FLINKS} FROM range(20)")
    return made


def test_rows_are_replaced_by_one_commit_in_the_buckets_of_their_keys(shared: Shared) -> None:
    shared.write(f"SELECT {FLINKS} FROM range(3)")  # rows in log files of a merge-on-read table
    assert shared.misfits() == ()
    stage, version = shared.stage("5, 25")
    before = shared.sink.commits(shared.place)
    shared.sink.publish(stage, version, stage.base_head)
    rows = shared.read()
    assert [(row["id"], row["word"]) for row in rows] == [(n, f"s{n}") for n in range(5, 25)]
    assert {(str(row["at"]), str(row["seen"])) for row in rows} == {
        ("1969-12-31 23:59:59.999999", "2026-03-29 00:30:00.000001")
    }
    assert {row["_hoodie_file_name"][:8] == f"{bucket_of(str(row['id']), BUCKETS):08d}" for row in rows} == {True}
    (commit,) = shared.sink.commits(shared.place)[len(before) :]
    assert (commit.action, commit.operation) == ("replacecommit", "INSERT_OVERWRITE_TABLE")
    # the job goes on with the list of files, and a later look is content with ours
    assert shared.sink.shared_table(shared.place).listed
    assert shared.misfits() == ()


def test_its_rows_are_read_with_the_types_of_the_source(shared: Shared) -> None:
    writer = HudiWriter(shared.sink)
    stage, _ = shared.stage("1")
    table = type(stage)(*shared.place, "", 0)
    itself: Any = type("Itself", (), {"identifier": shared.place, "namespace": table.namespace, "table": table.table})()
    frame = shared.spark.sql(f"SELECT * FROM {writer.at(shared.spark, itself, shared.sink.facts(*shared.place).head)}")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == COLUMNS
    assert frame.count() == 20


def test_a_stage_without_rows_does_not_hold_those_of_the_table(shared: Shared) -> None:
    writer = HudiWriter(shared.sink)
    shared.sink.ensure_table(*shared.place, COLUMNS)
    stage = shared.sink.stage(*shared.place, "recov_1_1")
    writer.note_definition(stage, TABLE)
    assert writer.rows(shared.spark, stage).count() == 0
    writer.nothing(shared.spark, stage, Stamp(1).to_summary())
    shared.sink.publish(stage, writer.version(stage), stage.base_head)
    assert shared.read() == []


def test_a_commit_of_the_job_since_the_stage_began_is_not_replaced(shared: Shared) -> None:
    stage, version = shared.stage("5, 25")
    shared.write(f"SELECT {FLINKS} FROM range(30, 31)")
    with pytest.raises(StaleHeadError, match="of another writer"):
        shared.sink.publish(stage, version, stage.base_head)
    assert len(shared.read()) == 21


def test_publishing_again_changes_nothing(shared: Shared) -> None:
    stage, version = shared.stage("5, 25")
    shared.sink.publish(stage, version, stage.base_head)
    # the job goes on
    shared.write(f"SELECT {FLINKS} FROM range(30, 31)")
    assert shared.sink.publish(stage, version, stage.base_head).already
    assert len(shared.read()) == 21


def test_what_the_job_left_in_flight_is_rolled_back(shared: Shared) -> None:
    timeline = shared.folder / ".hoodie" / "timeline"
    done = max(
        path.name for path in timeline.iterdir() if re.fullmatch(r"\d{17}_\d{17}\.(commit|deltacommit)", path.name)
    )
    action, instant = done.partition(".")[2], str(int(done[:17]) + 1)
    inflight = "inflight" if action == "commit" else f"{action}.inflight"
    for end in (f"{action}.requested", inflight):
        (timeline / f"{instant}.{end}").write_bytes((timeline / f"{done[:17]}.{end}").read_bytes())
    stage, version = shared.stage("5, 25")
    shared.sink.publish(stage, version, stage.base_head)
    assert not list(timeline.glob(f"{instant}*"))
    assert len(shared.read()) == 20


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([*COLUMNS, ("more", "int")], "more is missing"),
        (COLUMNS[:-1], "seen is not in the source"),
        ([("id", "int"), *COLUMNS[1:]], "id is bigint, not int"),
        ([*COLUMNS[:2], ("at", "timestamp"), COLUMNS[3]], "at is timestamp_ntz, not timestamp"),
    ],
)
def test_columns_that_do_not_fit_are_named(shared: Shared, columns: list[tuple[str, str]], said: str) -> None:
    assert said in shared.misfits(columns)


def test_a_table_of_ours_is_not_shared(tmp_path: Path, spark: SparkSession, shared: Shared) -> None:
    ours = HudiWriter(HudiSink(HudiEndpoint.of(shared.sink.endpoint.path)))
    assert ours.misfits(spark, shared.place, COLUMNS, TABLE.key) == ("it is not written by the connector",)
