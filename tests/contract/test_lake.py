"""The lake and its stages, with PyIceberg alone on an embedded catalog."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.serializers import FromInputFile
from pyiceberg.types import LongType

from airflow_cdc.core.errors import ConfigError, SchemaError, SinkError, UnknownStateError
from airflow_cdc.core.stamp import ChunkLedger, Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg import catalog as iceberg_catalog
from airflow_cdc.sinks.iceberg.catalog import MissingTableError, spark_conf
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.snapshots import empty_commit
from airflow_cdc.sinks.iceberg.stage import Stage
from tests.contract.lakes import COLUMNS, append, append_staged, compact, ids, lake_in, rows

STAMP = Stamp(1, {"file": "mysql-bin.000007"}, {"shop.orders": TopicOffsets("T1", {0: 5})})


def schema_of(lake: Lake, *table: str) -> list[str]:
    return list(lake.table(*table).schema().column_names)


def refs_of(lake: Lake) -> set[str]:
    return set(lake.table("shop", "orders").metadata.refs)


# tables


def test_a_new_table_has_an_empty_main(shop: Lake) -> None:
    facts = shop.facts("shop", "orders")
    assert facts.exists
    assert facts.head is not None
    assert (facts.stamp, facts.rows) == (None, 0)
    assert shop.read_arrow("shop", "orders").num_rows == 0


def test_ensure_table_twice_changes_nothing(shop: Lake) -> None:
    table = shop.table("shop", "orders")
    files = sorted(Path(urlparse(table.location()).path).rglob("*"))
    assert shop.ensure_table("shop", "orders", COLUMNS) is False
    assert shop.head("shop", "orders") == table.metadata.current_snapshot_id
    assert sorted(Path(urlparse(table.location()).path).rglob("*")) == files


def test_ensure_table_finishes_a_creation_that_was_cut(lake: Lake) -> None:
    lake.ensure_namespace("shop")
    lake.catalog.create_table(("shop", "orders"), rows().schema)
    assert lake.head("shop", "orders") is None
    lake.ensure_table("shop", "orders", COLUMNS)
    assert lake.head("shop", "orders") is not None


def test_columns_take_the_sink_types(lake: Lake) -> None:
    types = {
        "i": "int",
        "u": "decimal(20,0)",
        "t": "timestamp",
        "n": "timestamp_ntz",
        "x": "binary",
        "g": "struct<srid:int, wkb:binary>",
        "l": "array<decimal(5, 2)>",
        "d": "date",
        "f": "double",
        "o": "boolean",
    }
    lake.ensure_table("shop", "all", list(types.items()))
    types_by_column = {field.name: str(field.field_type) for field in lake.table("shop", "all").schema().fields}
    assert types_by_column == {
        "i": "int",
        "u": "decimal(20, 0)",
        "t": "timestamptz",
        "n": "timestamp",
        "x": "binary",
        "g": "struct<11: srid: optional int, 12: wkb: optional binary>",
        "l": "list<decimal(5, 2)>",
        "d": "date",
        "f": "double",
        "o": "boolean",
    }


def test_an_unknown_type_is_named(lake: Lake) -> None:
    with pytest.raises(SchemaError, match="'interval'"):
        lake.ensure_table("shop", "odd", [("a", "interval")])


def test_a_missing_table_is_absent_and_a_broken_catalog_is_unknown(lake: Lake, tmp_path: Path) -> None:
    assert lake.exists("shop", "nothing") is False
    assert lake.facts("shop", "nothing").exists is False
    with pytest.raises(MissingTableError, match=r"shop\.nothing"):
        lake.head("shop", "nothing")
    broken = Lake("lake", {"type": "rest", "uri": "http://127.0.0.1:9", "token": "s3cret"})
    with pytest.raises(UnknownStateError) as caught:
        broken.exists("shop", "orders")
    assert "s3cret" not in str(caught.value) + repr(broken)


def test_a_lost_metadata_file_is_unknown_not_absent(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_catalog, "TRIMMED_SECONDS", 0.2)
    Path(urlparse(shop.table("shop", "orders").metadata_location).path).unlink()
    with pytest.raises(UnknownStateError):
        shop.exists("shop", "orders")


def test_a_metadata_file_is_parsed_once(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    real = FromInputFile.table_metadata

    def counted(file: Any, *args: Any) -> Any:
        parsed.append(file.location)
        return real(file, *args)

    monkeypatch.setattr(FromInputFile, "table_metadata", counted)
    first = [shop.head("shop", "orders") for _ in range(3)]
    assert len(parsed) <= 1
    append(shop, "shop", "orders", 1)
    assert shop.head("shop", "orders") not in first
    assert len(parsed) == len(set(parsed))


def test_what_was_just_committed_is_not_parsed_and_is_what_the_file_says(
    shop: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    append(shop, "shop", "orders", 1)
    with monkeypatch.context() as patch:
        patch.setattr(FromInputFile, "table_metadata", lambda *_: pytest.fail("it was parsed"))
        append(shop, "shop", "orders", 2)
        kept = shop.table("shop", "orders").metadata
    parsed = lake_in(tmp_path).table("shop", "orders").metadata
    assert (kept.model_dump_json(), len(kept.snapshots)) == (parsed.model_dump_json(), len(parsed.snapshots))
    assert len(parsed.snapshots) >= 2


def test_a_commit_changes_nothing_that_was_read_before_it(shop: Lake) -> None:
    """Its metadata shares with the one before what did not change."""
    append(shop, "shop", "orders", 1)
    before = shop.table("shop", "orders")
    text, place = before.metadata.model_dump_json(), before.metadata_location
    append(shop, "shop", "orders", 2)
    stage = shop.stage("shop", "orders", "recov_1_1", properties={"a": "b"})
    with shop.table("shop", "orders").update_schema() as change:
        change.add_column("more", LongType())
    shop.table("shop", "orders").transaction().set_properties({"a": "b"}).commit_transaction()
    shop.drop_stage(stage)
    after = shop.table("shop", "orders")
    assert (before.metadata.model_dump_json(), before.metadata_location) == (text, place)
    assert (after.properties["a"], after.schema().find_field("more").name) == ("b", "more")


def test_a_catalog_without_a_type_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="has no type"):
        Lake("lake", {"uri": "sqlite:///x"}).head("a", "b")


def test_row_counts_come_from_the_summary(shop: Lake) -> None:
    append(shop, "shop", "orders", 1, 2, 3)
    assert shop.facts("shop", "orders").rows == 3


# the embedded catalog


def test_the_embedded_catalog_waits_for_other_writers(shop: Lake, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "catalog.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with shop.catalog.engine.connect() as connection:  # type: ignore[attr-defined]
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == iceberg_catalog.BUSY_SECONDS * 1000


def test_spark_gets_the_same_embedded_catalog(tmp_path: Path) -> None:
    conf = lake_in(tmp_path).spark_conf()
    prefix = "spark.sql.catalog.lake"
    assert conf[prefix] == "org.apache.iceberg.spark.SparkCatalog"
    assert conf[f"{prefix}.type"] == "jdbc"
    assert conf[f"{prefix}.uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"
    assert conf[f"{prefix}.jdbc.schema-version"] == "V1"
    assert conf[f"{prefix}.jdbc.busy_timeout"] == str(iceberg_catalog.BUSY_SECONDS * 1000)
    assert conf[f"{prefix}.cache-enabled"] == "false"
    assert conf[f"{prefix}.warehouse"] == f"file://{tmp_path}/warehouse"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (
            {"type": "sql", "uri": "postgresql+psycopg2://u:p%40s@db:5433/ice", "spark.jdbc.sslmode": "require"},
            {
                "type": "jdbc",
                "uri": "jdbc:postgresql://db:5433/ice",
                "jdbc.user": "u",
                "jdbc.password": "p@s",
                "jdbc.sslmode": "require",
            },
        ),
        (
            {"type": "rest", "uri": "https://c/api", "credential": "id:key"},
            {"type": "rest", "uri": "https://c/api", "credential": "id:key"},
        ),
    ],
)
def test_spark_settings_of_other_catalogs(properties: dict[str, str], expected: dict[str, str]) -> None:
    conf = spark_conf("lake", properties)
    for key, value in expected.items():
        assert conf[f"spark.sql.catalog.lake.{key}"] == value


def test_a_lost_race_leaves_no_metadata_file(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = shop.table("shop", "orders")
    append(shop, "shop", "orders", 1)
    before = set(Path(urlparse(stale.location()).path).glob("metadata/*.json"))
    monkeypatch.setattr(shop.catalog, "load_table", lambda _: stale)
    with pytest.raises(CommitFailedException, match="another process"):
        stale.transaction().set_properties({"a": "b"}).commit_transaction()
    assert set(Path(urlparse(stale.location()).path).glob("metadata/*.json")) == before


# stamps


def test_inv_15_a_stamp_is_found_through_unstamped_commits(shop: Lake) -> None:
    stamped = append(shop, "shop", "orders", 1, summary=STAMP.to_summary())
    append(shop, "shop", "orders", 2)
    compact(shop, "shop", "orders")
    assert shop.stamp("shop", "orders") == STAMP.at(stamped)


def test_inv_15_the_stamp_of_a_published_stage_is_found_by_its_parents(shop: Lake) -> None:
    """`.history` lists only heads of main: the stamp sits on a commit of the stage below the published head."""
    append(shop, "shop", "orders", 1, summary=Stamp(0).to_summary())
    stage = shop.stage("shop", "orders", "recov_1_1")
    stamped = append_staged(shop, stage, 2, summary=STAMP.to_summary())
    shop.publish(stage, append_staged(shop, stage, 3), stage.base_head)
    heads = {entry.snapshot_id for entry in shop.table("shop", "orders").metadata.snapshot_log}
    assert stamped not in heads
    assert shop.stamp("shop", "orders") == STAMP.at(stamped)


def test_inv_16_a_stamp_keeps_the_topic_id_and_every_partition(shop: Lake) -> None:
    stamp = Stamp(2, None, {"t": TopicOffsets("T9", {0: 1, 1: 0, 2: 7})})
    append(shop, "shop", "orders", 1, summary=stamp.to_summary())
    read_back = shop.stamp("shop", "orders")
    assert read_back is not None
    assert read_back.offsets["t"] == TopicOffsets("T9", {0: 1, 1: 0, 2: 7})


def test_the_stamp_of_an_older_snapshot(shop: Lake) -> None:
    old = append(shop, "shop", "orders", 1, summary=STAMP.to_summary())
    append(shop, "shop", "orders", 2, summary=Stamp(2).to_summary())
    assert shop.stamp("shop", "orders", old) == STAMP.at(old)


# staging


def test_readers_see_nothing_of_a_stage(shop: Lake) -> None:
    head = append(shop, "shop", "orders", 1, 2)
    stage = shop.stage("shop", "orders", "recov_1_1")
    with shop.table(*stage.identifier).update_schema() as change:
        change.delete_column("b")
        change.add_column("c", LongType())
    shop.table(*stage.identifier).append(rows(3).drop_columns(["b"]))
    assert shop.head("shop", "orders") == head
    assert schema_of(shop, "shop", "orders") == ["id", "a", "b"]
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2]
    assert ids(shop.read_arrow(*stage.identifier)) == [1, 2, 3]
    assert schema_of(shop, *stage.identifier) == ["id", "a", "c"]


def test_a_stage_cannot_harm_the_target(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    staged, target = shop.table(*stage.identifier).metadata, shop.table("shop", "orders").metadata
    assert staged.properties["gc.enabled"] == "false"
    assert staged.properties["write.metadata.delete-after-commit.enabled"] == "false"
    assert staged.metadata_log == []
    assert staged.location == target.location
    assert staged.table_uuid != target.table_uuid


def test_staging_pins_the_base_whatever_the_retention(shop: Lake) -> None:
    head = append(shop, "shop", "orders", 1)
    shop.stage("shop", "orders", "recov_1_1")
    pin = shop.table("shop", "orders").metadata.refs["recov_1_1"]
    assert (pin.snapshot_id, pin.snapshot_ref_type.value, pin.max_ref_age_ms) == (head, "tag", 2**63 - 1)


def test_staging_twice_gives_the_same_stage(shop: Lake) -> None:
    first = shop.stage("shop", "orders", "recov_1_1")
    written = append_staged(shop, first, 1)
    again = shop.stage("shop", "orders", "recov_1_1")
    assert again == first
    assert shop.stage_head(again) == written


def test_a_pin_whose_stage_was_never_made_moves_to_the_present_head(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.catalog, "register_table", killed)
    with pytest.raises(KeyboardInterrupt):
        shop.stage("shop", "orders", "recov_1_1")
    monkeypatch.undo()
    head = append(shop, "shop", "orders", 1)
    assert shop.stage("shop", "orders", "recov_1_1").base_head == head
    assert shop.table("shop", "orders").metadata.refs["recov_1_1"].snapshot_id == head


def killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_stage_survives_json(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    assert Stage.from_json(json.loads(json.dumps(stage.to_json()))) == stage
    assert stage.target == "shop.orders"
    assert stage.spark_name("lake") == "`lake`.`cdc_stage`.`shop__orders__recov_1_1`"
    assert shop.open_stage("shop", "orders", "recov_1_1") == stage


def test_a_stage_name_that_two_tables_share_is_refused(lake: Lake) -> None:
    lake.ensure_table("a__b", "c", COLUMNS)
    lake.ensure_table("a", "b__c", COLUMNS)
    lake.stage("a__b", "c", "x")
    with pytest.raises(SinkError, match=r"belongs to a__b\.c"):
        lake.stage("a", "b__c", "x")


def test_nested_namespaces(lake: Lake) -> None:
    lake.ensure_table("raw.shop", "orders", COLUMNS)
    stage = lake.stage("raw.shop", "orders", "x")
    head = append_staged(lake, stage, 1)
    lake.publish(stage, head, stage.base_head)
    assert ids(lake.read_arrow("raw.shop", "orders")) == [1]


def test_the_stages_there_are(shop: Lake) -> None:
    assert shop.stages() == ()
    shop.ensure_table("shop", "items", COLUMNS)
    one, two = shop.stage("shop", "orders", "x"), shop.stage("shop", "items", "x")
    assert set(shop.stages()) == {one, two}
    assert shop.stages("shop", "items") == (two,)


def test_a_broken_stage_of_another_namespace_is_not_read(shop: Lake) -> None:
    shop.ensure_table("other", "orders", COLUMNS)
    broken, mine = shop.stage("other", "orders", "x"), shop.stage("shop", "orders", "x")
    Path(urlparse(shop.table(*broken.identifier).metadata_location).path).unlink()
    assert shop.stages("shop") == (mine,)
    with pytest.raises(UnknownStateError):
        shop.stages("other")


def test_dropping_a_stage_leaves_the_target_and_its_files(shop: Lake) -> None:
    append(shop, "shop", "orders", 1)
    stage = shop.stage("shop", "orders", "recov_1_1")
    append_staged(shop, stage, 2)
    own = Path(urlparse(shop.table(*stage.identifier).metadata_location).path)
    shop.drop_stage(stage)
    shop.drop_stage(stage)
    assert refs_of(shop) == {"main"}
    assert shop.stages() == ()
    assert not own.exists()
    assert ids(shop.read_arrow("shop", "orders")) == [1]


def test_a_zombie_cannot_write_to_a_dropped_stage(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    zombie = shop.table(*stage.identifier)
    shop.drop_stage(stage)
    with pytest.raises(NoSuchTableError):
        zombie.append(rows(9))
    assert ids(shop.read_arrow("shop", "orders")) == []


# the chain and its ledger


def test_inv_03_the_chain_carries_the_chunk_ledger(shop: Lake) -> None:
    append(shop, "shop", "orders", 1, summary=STAMP.to_summary())
    stage = shop.stage("shop", "orders", "recov_1_1")
    assert shop.stage_chain(stage) == ()
    ledgers = [ChunkLedger("w", "s", "f", (n,), n) for n in (10, 20)]
    heads = [append_staged(shop, stage, n, summary=ledger.to_summary()) for n, ledger in enumerate(ledgers)]
    chain = shop.stage_chain(stage)
    assert [c.snapshot_id for c in chain] == heads
    assert [c.ledger for c in chain] == ledgers
    assert [c.operation for c in chain] == ["append", "append"]
    assert chain[0].parent_id == stage.base_head
    assert shop.stage_chain(stage, heads[0]) == chain[:1]


def test_a_new_try_takes_over_and_the_orphan_of_the_old_one_cannot_reach_it(shop: Lake) -> None:
    first = shop.stage("shop", "orders", "recov_1_1")
    taken = append_staged(shop, first, 1)
    second = shop.stage("shop", "orders", "recov_1_2", from_stage=first)
    append_staged(shop, first, 99)
    kept = append_staged(shop, second, 2)
    assert [c.snapshot_id for c in shop.stage_chain(second)] == [taken, kept]
    shop.drop_stage(first)
    shop.publish(second, kept, second.base_head)
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2]
    assert refs_of(shop) == {"main"}


def test_a_lost_race_deletes_its_own_metadata_and_no_other_threads(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both threads share the catalog: the loser's clean-up once deleted the file that the other had just made current."""
    for name in ("lost", "won"):
        lake.ensure_table("shop", name, COLUMNS)
    real = SqlCatalog.commit_table

    def commit_table(self: Any, table: Any, requirements: Any, updates: Any) -> Any:
        if table.name()[-1] != "lost":
            return real(self, table, requirements, updates)
        self._update_and_stage_table(table, table.name(), requirements, updates)
        with ThreadPoolExecutor(1) as other:
            other.submit(append, lake, "shop", "won", 1).result()
        raise CommitFailedException("lost")

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    iceberg_table = lake.table("shop", "lost")
    change = empty_commit(iceberg_table, {})
    with pytest.raises(CommitFailedException):
        lake.catalog.commit_table(iceberg_table, change.requirements, change.updates)
    assert ids(lake.read_arrow("shop", "won")) == [1]
    staged = Path(urlparse(iceberg_table.location()).path, "metadata").glob("*.metadata.json")
    assert len(list(staged)) == 2  # creation and first snapshot: what was staged for the lost race is gone


def test_a_stage_is_made_with_its_properties(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1", properties={"cdc.definition": "text"})
    staged = shop.table(*stage.identifier)
    assert (staged.properties["cdc.definition"], len(staged.metadata.metadata_log)) == ("text", 0)
    assert "cdc.definition" not in shop.table("shop", "orders").properties
    again = shop.stage("shop", "orders", "recov_1_2", from_stage=stage, properties={"cdc.definition": "newer"})
    assert shop.table(*again.identifier).properties["cdc.definition"] == "newer"
    assert shop.table(*stage.identifier).properties["cdc.definition"] == "text"


def test_stages_of_many_tables_are_listed_once(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of tables whose names contain each other, or two underscores."""
    names = ["orders", "orders_2", "orders__old", "items"]
    for name in names[1:]:
        shop.ensure_table("shop", name, COLUMNS)
    made = {name: {shop.stage("shop", name, label) for label in ("recov_1_1", "recov_1_1_v2")} for name in names}
    asked: list[Any] = []
    real = shop.catalog.list_tables

    def listed(place: Any) -> Any:
        asked.append(place)
        return real(place)

    monkeypatch.setattr(shop.catalog, "list_tables", listed)
    for name in names:
        assert set(shop.stages("shop", name)) == made[name]
    asked.clear()
    assert set(shop.stages("shop", *names)) == set().union(*made.values())
    assert len(asked) == 1
