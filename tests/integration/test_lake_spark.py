"""Stages with real Spark: what readers see, what a publish makes of it, and that maintenance works afterwards."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from stack.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (("id", "bigint"), ("a", "string"), ("b", "int"))
OFFSETS = {"shop.orders": TopicOffsets("T1", {0: 5, 1: 7})}
FIRST, LAST = Stamp(1, {"file": "mysql-bin.000007"}, OFFSETS), Stamp(1, {"file": "mysql-bin.000008"}, OFFSETS)
PREFIX = "spark.sql.iceberg.snapshot-property."


@pytest.fixture
def lake(request: pytest.FixtureRequest, lake_properties: dict[str, str]) -> Iterator[Lake]:
    """The session's lake, making tables of format v2 and registered stages, or as asked for: "2 beside"."""
    version, _, staging = getattr(request, "param", "2").partition(" ")
    found = Lake("lake", {**lake_properties, "format_version": version, "staging": staging or "auto"})
    yield found
    found.close()


class Shop:
    """One table of a test: written by Spark, read by Spark and by PyIceberg."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        self.lake, self.spark = lake, spark
        self.name = f"orders_{uuid.uuid4().hex[:8]}"
        lake.ensure_table("shop", self.name, COLUMNS)
        self.sql("INSERT INTO {t} SELECT id, concat('a', id), cast(id AS int) FROM range(1000)")
        self.sql("INSERT INTO {t} VALUES (5000, 'x', 1)")
        self.base = self.head

    @property
    def full(self) -> str:
        return f"lake.shop.{self.name}"

    @property
    def head(self) -> int:
        return self.lake.head("shop", self.name) or 0

    @property
    def columns(self) -> list[str]:
        return list(self.spark.table(self.full).columns)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text.format(t=self.full)).collect()]

    def call(self, procedure: str, arguments: str = "") -> list[tuple[Any, ...]]:
        return self.sql(f"CALL lake.system.{procedure}(table => 'shop.{self.name}'{arguments})")

    def rows(self, version: int | None = None) -> dict[int, tuple[Any, ...]]:
        """Rows by id as Spark reads them, after checking that PyIceberg reads the same."""
        at = "" if version is None else f" VERSION AS OF {version}"
        found = {row[0]: row[1:] for row in self.sql(f"SELECT * FROM {{t}}{at}")}
        arrow = self.lake.read_arrow("shop", self.name, version)
        assert {
            row[0]: row[1:] for row in zip(*(arrow[c].to_pylist() for c in arrow.column_names), strict=True)
        } == found
        return found

    def stage(self, label: str = "recov_1_1") -> Stage:
        return self.lake.stage("shop", self.name, label)


@pytest.fixture
def shop(lake: Lake, spark: SparkSession) -> Shop:
    return Shop(lake, spark)


OLD = {**{i: (f"a{i}", i) for i in range(1000)}, 5000: ("x", 1)}
NEW = {
    **{i: (f"n{i}", 7) for i in range(990)},
    **{i: ("m", 8) for i in range(990, 1010) if i % 2},
}


def rebuild(shop: Shop, stage: Stage) -> int:
    """What a recovery does: change columns, overwrite, append, MERGE; returns the snapshot to verify."""
    from pyspark.sql import functions as f

    session, name = shop.spark.newSession(), stage.spark_name("lake")
    session.sql(f"ALTER TABLE {name} DROP COLUMN b")
    session.sql(f"ALTER TABLE {name} ADD COLUMN c int")
    ledger = ChunkLedger("w", "s", "f", (499,), 500)
    half = session.range(0, 500).select("id", f.concat(f.lit("n"), "id").alias("a"), f.lit(7).alias("c"))
    writer = half.writeTo(name)
    for key, value in {**FIRST.to_summary(), **ledger.to_summary()}.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    writer.overwrite(f.lit(True))
    session.range(500, 1000).select("id", f.concat(f.lit("n"), "id").alias("a"), f.lit(7).alias("c")).writeTo(
        name
    ).append()
    for key, value in LAST.to_summary().items():
        session.conf.set(f"{PREFIX}{key}", value)
    session.sql(
        f"MERGE INTO {name} t USING (SELECT id, 'm' AS a, 8 AS c, id % 2 = 0 AS del FROM range(990, 1010)) s ON t.id = s.id "
        "WHEN MATCHED AND s.del THEN DELETE WHEN MATCHED THEN UPDATE SET a = s.a, c = s.c "
        "WHEN NOT MATCHED AND NOT s.del THEN INSERT (id, a, c) VALUES (s.id, s.a, s.c)"
    )
    return shop.lake.stage_head(stage)


def nothing(_: Shop) -> None:
    """Main stands still."""


def compaction(shop: Shop) -> None:
    """Maintenance rewrites main's files."""
    shop.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
    assert shop.head != shop.base


def compaction_and_expiry(shop: Shop) -> None:
    """Maintenance rewrites main's files, then expires all that nothing refers to."""
    compaction(shop)
    shop.call("expire_snapshots", ", older_than => TIMESTAMP '2099-01-01', retain_last => 1")


@pytest.mark.parametrize(
    ("lake", "meanwhile"),
    [
        ("2", nothing),
        pytest.param("2", compaction, marks=pytest.mark.slow),
        ("2", compaction_and_expiry),
        ("3", compaction_and_expiry),
        pytest.param("2 beside", nothing, marks=pytest.mark.slow),
        ("2 beside", compaction_and_expiry),
    ],
    indirect=["lake"],
)
def test_inv_04_a_stage_is_unseen_until_it_is_published_whole(shop: Shop, meanwhile: Callable[[Shop], None]) -> None:
    stage = shop.stage()
    verified = rebuild(shop, stage)
    shop.spark.sql(f"INSERT INTO {stage.spark_name('lake')} VALUES (777, 'orphan', 1)")
    meanwhile(shop)
    assert (shop.columns, shop.rows()) == (["id", "a", "b"], OLD)

    result = shop.lake.publish(stage, verified, shop.base, over_compaction=True)
    assert (result.already, result.schema_changed) == (False, True)
    assert result.over_compaction is (meanwhile is not nothing)
    shop.lake.drop_stage(stage)

    assert (shop.columns, shop.rows(), shop.head) == (["id", "a", "c"], NEW, verified)
    assert shop.rows(shop.base) == OLD
    assert shop.lake.table("shop", shop.name).schema().find_field("c").field_id == 4
    assert shop.lake.stamp("shop", shop.name) == LAST.at(verified)
    assert set(shop.lake.table("shop", shop.name).metadata.refs) == {"main"}
    use_it_afterwards(shop)


def use_it_afterwards(shop: Shop) -> None:
    """A published table is a table like any other: writes, merges, deletes and all maintenance."""
    shop.sql("INSERT INTO {t} VALUES (9001, 'later', 1)")
    shop.sql(
        "MERGE INTO {t} t USING (SELECT id, 'z' AS a, 3 AS c FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    shop.sql("DELETE FROM {t} WHERE id = 100")
    expected = {**NEW, 9001: ("later", 1), **dict.fromkeys(range(3), ("z", 3))}
    expected.pop(100)
    assert shop.rows() == expected
    shop.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
    shop.call("rewrite_manifests")
    assert shop.lake.stamp("shop", shop.name) is not None
    shop.call("expire_snapshots", ", older_than => TIMESTAMP '2099-01-01', retain_last => 1")
    orphans = shop.call("remove_orphan_files", ", dry_run => true")
    assert orphans == []
    assert shop.rows() == expected
    assert len(shop.lake.table("shop", shop.name).metadata.snapshots) == 1
    if shop.lake.format_version >= 3:
        assert shop.sql("SELECT count(*) - count(DISTINCT _row_id) FROM {t}") == [(0,)]


def test_data_written_to_main_meanwhile_is_named(shop: Shop) -> None:
    stage = shop.stage()
    verified = rebuild(shop, stage)
    compaction(shop)
    shop.sql("INSERT INTO {t} VALUES (6000, 'theirs', 1)")
    with pytest.raises(StaleHeadError, match=f"{shop.head} append") as caught:
        shop.lake.publish(stage, verified, shop.base, over_compaction=True)
    assert caught.value.only_replace is False
    assert len(caught.value.commits) == 2
    assert shop.rows() == {**OLD, 6000: ("theirs", 1)}


@pytest.mark.parametrize("lake", [pytest.param("2", marks=pytest.mark.slow), "3", "2 beside"], indirect=True)
def test_stage_after_stage_on_one_table(shop: Shop) -> None:
    """As apply does all day: each stage starts from the last one's publish."""
    expected = dict(OLD)
    for number in range(4):
        stage = shop.stage(f"apply_{number}")
        name = stage.spark_name("lake")
        shop.spark.sql(
            f"MERGE INTO {name} t USING (SELECT {number} AS id, 'applied' AS a, {number} AS b) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        )
        if number == 2:
            shop.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")
        shop.lake.publish(stage, shop.lake.stage_head(stage), stage.base_head, over_compaction=True)
        shop.lake.drop_stage(stage)
        expected[number] = ("applied", number)
        assert shop.rows() == expected
    numbers = [s.sequence_number for s in shop.lake.table("shop", shop.name).metadata.snapshots]
    assert len(set(numbers)) == len(numbers)
    if shop.lake.format_version >= 3:
        assert shop.sql("SELECT count(*) - count(DISTINCT _row_id) FROM {t}") == [(0,)]


def test_inv_03_the_ledger_of_a_sql_merge_and_of_a_dataframe(shop: Shop) -> None:
    stage = shop.stage()
    verified = rebuild(shop, stage)
    chain = shop.lake.stage_chain(stage)
    assert [c.stamp for c in chain] == [FIRST.at(chain[0].snapshot_id), None, LAST.at(verified)]
    assert [c.ledger for c in chain] == [ChunkLedger("w", "s", "f", (499,), 500), None, None]


def test_inv_15_writers_without_an_effect_also_stamp(shop: Shop) -> None:
    stage = shop.stage()
    name, session = stage.spark_name("lake"), shop.spark.newSession()
    empty = session.table(name).where("false").writeTo(name)
    for key, value in FIRST.to_summary().items():
        empty = empty.option(f"snapshot-property.{key}", value)
    empty.append()
    for key, value in LAST.to_summary().items():
        session.conf.set(f"{PREFIX}{key}", value)
    session.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM {name} WHERE false) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert [c.stamp and c.stamp.watermark for c in shop.lake.stage_chain(stage)] == [FIRST.watermark, LAST.watermark]


@pytest.mark.parametrize(("lake", "jobs"), [("2", 0), ("3", 1)], indirect=["lake"])
def test_a_stamp_alone_changes_no_row_and_costs_no_job(shop: Shop, jobs: int) -> None:
    """Format v3 keeps row ids in its manifest lists, which only Spark writes."""
    stage = shop.stage()
    target = stage.spark_name("lake")
    shop.spark.sql(f"DELETE FROM {target} WHERE id % 7 = 0")
    shop.spark.sql(f"INSERT INTO {target} VALUES (7, 'new', 1)")
    before = shop.spark.table(target).orderBy("id").collect()
    group = uuid.uuid4().hex
    shop.spark.sparkContext.setJobGroup(group, "a stamp alone")
    IcebergWriter(shop.lake).nothing(shop.spark, stage, {"cdc.note": "nothing"})
    assert len(shop.spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == jobs
    shop.spark.sparkContext.setJobGroup("", "")
    assert shop.lake.stage_chain(stage)[-1].summary["cdc.note"] == "nothing"
    assert shop.spark.table(target).orderBy("id").collect() == before
    shop.spark.sql(f"DELETE FROM {target} WHERE id = 7")
    shop.lake.publish(stage, shop.lake.stage_head(stage), stage.base_head)
    assert shop.rows().keys() == {row["id"] for row in before} - {7}


@pytest.mark.parametrize("lake", ["2", "2 beside"], indirect=True)
def test_a_stage_refuses_what_would_delete_the_targets_files(shop: Shop) -> None:
    stage = shop.stage()
    with pytest.raises(Exception, match="GC is disabled"):
        shop.spark.sql(
            f"CALL lake.system.expire_snapshots(table => 'cdc_stage.{stage.name}', older_than => TIMESTAMP '2099-01-01')"
        ).collect()
    with pytest.raises(Exception, match="GC is disabled"):
        shop.spark.sql(f"CALL lake.system.remove_orphan_files(table => 'cdc_stage.{stage.name}')").collect()
    with pytest.raises(Exception, match="GC is disabled"):
        shop.spark.sql(f"DROP TABLE {stage.spark_name('lake')} PURGE")
    assert shop.rows() == OLD


@pytest.mark.parametrize("lake", ["2 beside"], indirect=True)
def test_clearing_up_a_place_of_stages_deletes_what_was_never_published(shop: Shop) -> None:
    """As the how-to page says it: remove_orphan_files of the table, over the location of its dropped stages."""
    stage = shop.stage()
    verified = rebuild(shop, stage)
    place = Path(urlparse(shop.lake.table(*stage.identifier).location()).path)
    shop.spark.sql(f"INSERT INTO {stage.spark_name('lake')} VALUES (777, 'orphan', 1)")
    shop.lake.publish(stage, verified, shop.base)
    shop.lake.drop_stage(stage)
    old = time.time() - 10 * 86400
    files = [file for file in place.rglob("*") if file.is_file()]
    for file in files:
        os.utime(file, (old, old))
    # the table's own cleaning looks at its own location
    assert [row for row in shop.call("remove_orphan_files") if place.name in row[0]] == []
    deleted = shop.call("remove_orphan_files", f", location => '{place}'")
    left = [file for file in files if file.exists() and file.suffix == ".parquet"]
    assert deleted
    assert left
    assert shop.rows() == NEW
    use_it_afterwards(shop)


def test_a_zombie_session_cannot_write_to_a_dropped_stage(shop: Shop) -> None:
    stage = shop.stage()
    name = stage.spark_name("lake")
    zombie = shop.spark.newSession()
    frame = zombie.sql(f"SELECT 99 AS id, 'zombie' AS a, 1 AS b FROM {name} LIMIT 1")
    shop.lake.drop_stage(stage)
    with pytest.raises(Exception, match=r"NOT_FOUND|NotFoundException|does not exist"):
        frame.writeTo(name).append()
    assert shop.lake.stages("shop", shop.name) == ()
    assert shop.rows() == OLD


def test_spark_and_pyiceberg_write_the_embedded_catalog_at_once(lake: Lake, spark: SparkSession) -> None:
    """Several Spark threads and PyIceberg commit to different tables of one SQLite file: nobody sees a lock."""
    names = [f"busy_{uuid.uuid4().hex[:6]}" for _ in range(4)]
    for name in names:
        lake.ensure_table("shop", name, COLUMNS)
    failures: list[str] = []

    def by_spark(name: str) -> None:
        session = spark.newSession()
        for number in range(6):
            session.sql(f"INSERT INTO lake.shop.{name} VALUES ({number}, 'x', {number})")

    def by_pyiceberg(name: str) -> None:
        for number in range(30):
            stage = lake.stage("shop", name, f"x{number}")
            lake.drop_stage(stage)

    def guarded(work: Callable[[str], None], name: str) -> None:
        try:
            work(name)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}"[:500])

    work = [(by_spark, names[0]), (by_spark, names[1]), (by_pyiceberg, names[2]), (by_pyiceberg, names[3])]
    threads = [threading.Thread(target=guarded, args=pair) for pair in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert failures == []
    assert [lake.facts("shop", name).rows for name in names] == [6, 6, 0, 0]


def test_spark_waits_for_a_writer_of_the_embedded_catalog(spark: SparkSession, lake_properties: dict[str, str]) -> None:
    """A lock that is held for longer than the driver's own patience (3 s) delays a commit; it does not fail it."""
    patient = Lake(f"patient_{uuid.uuid4().hex[:6]}", lake_properties)
    patient.ensure_table("shop", "orders", COLUMNS)
    for key, value in patient.spark_conf().items():
        if key.startswith("spark.sql.catalog."):
            spark.conf.set(key, value)
    folder = Path(urlparse(patient.table("shop", "orders").location()).path) / "metadata"
    held = threading.Event()
    holder = threading.Thread(target=hold_the_file, args=(lake_properties["uri"][len("sqlite:///") :], folder, held))
    holder.start()
    assert held.wait(30)
    spark.sql(f"INSERT INTO {patient.name}.shop.orders VALUES (1, 'x', 1)")
    holder.join(60)
    assert patient.facts("shop", "orders").rows == 1
    patient.close()


def hold_the_file(path: str, folder: Path, held: threading.Event, seconds: float = 6.0) -> None:
    """Hold SQLite's write lock until a commit has written its metadata file, and for `seconds` after that."""
    before = len(list(folder.glob("*.json")))
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    held.set()
    wait_until(lambda: len(list(folder.glob("*.json"))) > before or None, timeout=120, what="a commit under way")
    threading.Event().wait(seconds)
    connection.execute("COMMIT")
    connection.close()
