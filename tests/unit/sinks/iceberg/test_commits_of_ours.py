"""What commits of ours keep and replace: stages, the control document, dead letters, notes of a catalog, and small files."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField

from airflow_cdc.core.dead_letter import DeadLetter, headers_text
from airflow_cdc.core.errors import SinkError, StaleHeadError
from airflow_cdc.core.ports.control import StoredDocument
from airflow_cdc.sinks.iceberg.catalog import write_metadata
from airflow_cdc.sinks.iceberg.client import Lake, ident
from airflow_cdc.sinks.iceberg.control import STATE, IcebergControlStore
from airflow_cdc.sinks.iceberg.dead_letters import COLUMNS, NAMESPACE, letters, table_name, unresolved, waiting
from airflow_cdc.sinks.iceberg.row_positions import live_files
from airflow_cdc.sinks.iceberg.small_files import chosen
from airflow_cdc.sinks.iceberg.snapshots import empty_commit, head_of, last_sequence
from airflow_cdc.sinks.iceberg.stage import only_compacted, plan_publish, staged_metadata
from airflow_cdc.sinks.iceberg.staging import Noted, Staging, note_trial, noted_way
from tests.contract.lakes import COLUMNS as ROW
from tests.contract.lakes import append, compact, lake_in
from tests.unit.sinks.iceberg.plain_tables import Sink, ids
from tests.unit.sinks.iceberg.test_mirrored_stamps import main_at, snapshot


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.ensure_table("shop", "orders", ROW)
    append(lake, "shop", "orders", 1, 2)
    return lake


# --- stages -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "compacted"),
    [
        ([], True),
        ([True], True),
        ([True, True], True),
        ([False], False),
        ([True, False], False),
        ([False, True], False),
    ],
)
def test_a_stage_may_go_over_compactions_and_over_nothing_else(above: list[bool], compacted: bool) -> None:
    """One commit of rows among them is enough to make what was compared another table."""
    kept = [snapshot(1, None), *(snapshot(at, at - 1, replaces=one) for at, one in enumerate(above, 2))]
    target = main_at(kept[-1].snapshot_id, kept)
    assert only_compacted(target, 1) is compacted
    assert not only_compacted(target, 99), "main that does not descend from it"


def test_a_stage_keeps_its_tables_properties_and_its_own_files(shop: Lake) -> None:
    with shop.table("shop", "orders").transaction() as transaction:
        transaction.set_properties({"owner": "ann", "write.parquet.compression-codec": "zstd"})
    source = shop.table("shop", "orders").metadata
    stage = shop.stage("shop", "orders", "recov_1_1")
    staged = staged_metadata(source, stage)
    assert (staged.properties["owner"], staged.properties["write.parquet.compression-codec"]) == ("ann", "zstd")
    # its files are the table's too: nothing may remove them with it
    assert staged.properties["gc.enabled"] == "false"
    assert staged.properties["write.metadata.delete-after-commit.enabled"] == "false"
    assert staged.properties.items() >= stage.to_properties().items()
    assert (staged.table_uuid != source.table_uuid, staged.metadata_log, list(staged.refs)) == (True, [], ["main"])
    assert head_of(staged) == head_of(source)
    assert last_sequence(staged) > last_sequence(source)


def test_rows_that_were_staged_in_another_layout_are_not_published(shop: Lake) -> None:
    """Their files would lie where no reader of the table looks for them."""
    target = shop.table("shop", "orders").metadata
    stage = shop.stage("shop", "orders", "recov_1_1")
    staged = staged_metadata(target, stage)
    head = head_of(staged)
    assert head is not None
    assert plan_publish(target, staged, stage, head, properties={}).updates
    other = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"), spec_id=1)
    elsewhere = staged.model_copy(update={"partition_specs": [*staged.partition_specs, other]})
    with pytest.raises(SinkError, match="the stage's partition layout is not the table's"):
        plan_publish(target, elsewhere, stage, head, properties={})


@pytest.mark.parametrize("keep", [None, 1, 2, 3, 9])
def test_a_commit_without_rows_keeps_as_many_snapshots_of_main_as_it_is_told(shop: Lake, keep: int | None) -> None:
    for number in range(3, 6):
        append(shop, "shop", "orders", number)
    table = shop.table("shop", "orders")
    known = [one.snapshot_id for one in sorted(table.metadata.snapshots, key=lambda one: one.sequence_number or 0)]
    change = empty_commit(table, {"cdc.epoch": "1"}, keep=keep)
    removed = [
        one for update in change.updates if isinstance(update, RemoveSnapshotsUpdate) for one in update.snapshot_ids
    ]
    assert sorted(removed) == sorted([] if keep is None else known[: max(0, len(known) - (keep - 1))])


@pytest.mark.parametrize(
    ("name", "levels"), [("shop", ("shop",)), ("lake.shop", ("lake", "shop")), ("a.b.c", ("a", "b", "c"))]
)
def test_a_dot_separates_levels_of_a_namespace_and_none_of_a_tables_name(name: str, levels: tuple[str, ...]) -> None:
    assert ident(name, "or.ders") == (*levels, "or.ders")


# --- metadata -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "row_id", "written"), [(2, None, None), (3, None, 0), (3, 7, 7)])
def test_metadata_of_version_3_says_which_row_id_comes_next_also_of_a_new_table(
    shop: Lake, tmp_path: Path, version: int, row_id: int | None, written: int | None
) -> None:
    """Readers in Java refuse it without; in an older version it means nothing."""
    schema = Schema(NestedField(1, "id", LongType()))
    made = new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///none", {"format-version": str(version)}
    )
    if version == 3:
        made = made.model_copy(update={"next_row_id": row_id})
    place = tmp_path / "m.json"
    write_metadata(made, shop.table("shop", "orders").io, f"file://{place}")
    assert json.loads(place.read_text()).get("next-row-id") == written


# --- the control document -----------------------------------------------------------------------------------------------------


def test_a_control_document_is_found_under_commits_of_others_and_is_empty_where_it_was_lost(lake: Lake) -> None:
    store = IcebergControlStore(lake)
    assert store.load("shop") is None
    store.swap("shop", None, '{"epoch": 1}')
    first = store.load("shop")
    assert first is not None
    assert first.text == '{"epoch": 1}'
    with pytest.raises(StaleHeadError):
        store.swap("shop", None, '{"epoch": 9}')
    store.swap("shop", first.version, '{"epoch": 2}')
    assert (store.load("shop") or first).text == '{"epoch": 2}'
    with pytest.raises(StaleHeadError):
        store.swap("shop", first.version, '{"epoch": 9}')
    # another program's commit: the document is still the newest of ours, at the head that a swap has to name
    table = lake.table("cdc_control", "shop")
    table.append(pa.table({name: pa.array([], kind) for name, kind in _columns(table)}))
    again = store.load("shop")
    assert again == StoredDocument('{"epoch": 2}', str(lake.head("cdc_control", "shop")))
    assert again.version != first.version
    assert STATE == "cdc.state"


def _columns(table: Any) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in table.schema().as_arrow()]


# --- dead letters -------------------------------------------------------------------------------------------------------------

SEEN = datetime(2026, 1, 1, tzinfo=UTC)
LETTER = DeadLetter(
    "t", "id1", 0, 9, b"\xff", b"\x00v", "shop.orders", "why", 2, SEEN, None, (("h", b"\x01"), ("h", b""))
)


def fill(lake: Lake, *rows: DeadLetter) -> None:
    lake.ensure_table(NAMESPACE, table_name("shop"), COLUMNS)
    values = [
        {
            **{field.name: getattr(row, field.name) for field in fields(row)},
            "key": None if row.key is None else base64.b64encode(row.key).decode(),
            "value": None if row.value is None else base64.b64encode(row.value).decode(),
            "headers": headers_text(row.headers),
        }
        for row in rows
    ]
    table = lake.table(NAMESPACE, table_name("shop"))
    table.append(pa.Table.from_pylist(values, schema=table.schema().as_arrow()))


def test_a_dead_letter_is_read_with_every_byte_and_header_of_its_record(lake: Lake) -> None:
    assert (letters(lake, "shop"), unresolved(lake, "shop"), waiting(lake, "shop")) == ((), (), 0)
    bare = replace(LETTER, offset=3, key=None, value=None, headers=(), table="shop.items")
    over = replace(LETTER, offset=5, attempts=99, resolved_at=SEEN)
    fill(lake, LETTER, bare, over)
    assert letters(lake, "shop") == (bare, over, LETTER)  # oldest first
    assert unresolved(lake, "shop") == (bare, LETTER)
    assert letters(lake, "shop", "shop.items") == (bare,)
    assert waiting(lake, "shop") == 2


# --- notes of a catalog -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [Staging.AUTO, Staging.REGISTERED, Staging.BESIDE])
def test_the_way_in_which_a_catalog_holds_stages_is_found_out_once_for_each_way_of_asking(
    tmp_path: Path, asked: Staging
) -> None:
    lake = lake_in(tmp_path, staging=asked.value)
    assert noted_way(lake.catalog, asked) is None
    lake.ensure_table("shop", "orders", ROW)
    append(lake, "shop", "orders", 1)
    lake.stage("shop", "orders", "recov_1_1")
    way = noted_way(lake.catalog, asked)
    assert isinstance(way, Noted)
    assert way.way is (Staging.REGISTERED if asked is Staging.AUTO else asked)
    assert way.reason
    others = [one for one in Staging if one is not asked]
    assert [noted_way(lake.catalog, one) for one in others] == [None] * len(others)
    note_trial(lake.catalog, asked)
    assert noted_way(lake.catalog, asked) == replace(way, tried=True)


# --- small files --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at_least", "rows", "deletes"), [(2, 3, 2), (3, 3, 2), (4, 0, 0)])
def test_small_files_are_merged_from_as_many_on_as_is_asked_and_deletes_with_their_rows(
    lake: Lake, at_least: int, rows: int, deletes: int
) -> None:
    """One delete file alone is no reason to write."""
    sink = Sink(lake, {"id": "int", "v": "string"})
    for number in range(3):
        sink.write(ids(), pa.table({"id": pa.array([number], pa.int32()), "v": pa.array(["x"])}))
    for number in range(2):
        sink.write(ids(number), pa.table({"id": pa.array([], pa.int32()), "v": pa.array([], pa.string())}))
    table = lake.table(*sink.place)
    files = live_files(table)
    assert files is not None
    found = chosen(table, files, at_least)
    assert tuple(map(len, found)) == (rows, min(deletes, len(files.deletes)) if rows else 0)


def test_a_compaction_is_no_commit_of_rows(shop: Lake) -> None:
    before = shop.head("shop", "orders")
    compact(shop, "shop", "orders")
    assert before is not None
    assert only_compacted(shop.table("shop", "orders").metadata, before)
    assert urlparse(shop.table("shop", "orders").metadata.location).path
