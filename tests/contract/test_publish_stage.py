"""Publishing a stage by one compare-and-set commit, with PyIceberg alone on an embedded catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.types import LongType

from airflow_cdc.core.errors import SinkError, StaleHeadError, UnknownStateError
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.sinks.iceberg import catalog as iceberg_catalog
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.stage import SEQUENCE_RESERVE, Stage
from tests.contract.lakes import COLUMNS, append, append_staged, compact, ids, lake_in, rows

STAMP = Stamp(1, {"file": "mysql-bin.000007"}, {"shop.orders": TopicOffsets("T1", {0: 5})})


@pytest.fixture(params=["registered", "beside"])
def staging(request: pytest.FixtureRequest) -> str:
    """Every promise of a publish holds for both ways of staging."""
    return str(request.param)


def schema_of(lake: Lake, *table: str) -> list[str]:
    return list(lake.table(*table).schema().column_names)


def refs_of(lake: Lake) -> set[str]:
    return set(lake.table("shop", "orders").metadata.refs)


# publishing


def test_publishing_shows_rows_and_schema_at_once(shop: Lake) -> None:
    old = append(shop, "shop", "orders", 1, 2)
    stage = shop.stage("shop", "orders", "recov_1_1")
    with shop.table(*stage.identifier).update_schema() as change:
        change.delete_column("b")
    with shop.table(*stage.identifier).update_schema() as change:
        change.add_column("b", LongType())
    shop.table(*stage.identifier).overwrite(rows(5, 6).drop_columns(["b"]), snapshot_properties=STAMP.to_summary())
    result = shop.publish(stage, shop.stage_head(stage), old)
    assert (result.already, result.schema_changed, result.previous_head) == (False, True, old)
    rows_read = shop.read_arrow("shop", "orders")
    assert ids(rows_read) == [5, 6]
    assert rows_read["b"].to_pylist() == [None, None]
    field = shop.table("shop", "orders").schema().find_field("b")
    assert (field.field_id, str(field.field_type)) == (4, "long")
    before = shop.read_arrow("shop", "orders", old)
    assert (ids(before), before["b"].to_pylist()) == ([1, 2], [1, 2])
    assert refs_of(shop) == {"main"}


def test_inv_04_what_was_verified_is_published_and_no_later_commit(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    verified = append_staged(shop, stage, 1)
    append_staged(shop, stage, 666)
    shop.publish(stage, verified, stage.base_head)
    assert shop.head("shop", "orders") == verified
    assert ids(shop.read_arrow("shop", "orders")) == [1]


def test_inv_04_a_schema_change_after_the_verified_commit_is_not_published(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    verified = append_staged(shop, stage, 1)
    with shop.table(*stage.identifier).update_schema() as change:
        change.add_column("late", LongType())
    assert shop.publish(stage, verified, stage.base_head).schema_changed is False
    assert schema_of(shop, "shop", "orders") == ["id", "a", "b"]


def test_publishing_again_changes_nothing(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    assert shop.publish(stage, head, stage.base_head).already is False
    shop.drop_stage(stage)
    later = append(shop, "shop", "orders", 2)
    assert shop.publish(stage, head, stage.base_head).already is True
    assert shop.head("shop", "orders") == later


def test_a_snapshot_of_another_stage_is_refused(shop: Lake) -> None:
    one, two = shop.stage("shop", "orders", "x"), shop.stage("shop", "orders", "y")
    foreign = append_staged(shop, one, 1)
    with pytest.raises(SinkError, match="does not descend"):
        shop.publish(two, foreign, two.base_head)
    assert ids(shop.read_arrow("shop", "orders")) == []


def test_main_moved_by_data_stops_the_publish_and_names_the_commit(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    moved = append(shop, "shop", "orders", 7)
    for over in (False, True):
        with pytest.raises(StaleHeadError, match=str(moved)) as caught:
            shop.publish(stage, head, stage.base_head, over_compaction=over)
        assert caught.value.commits == (f"{moved} append",)
        assert caught.value.only_replace is False
    assert ids(shop.read_arrow("shop", "orders")) == [7]


def test_main_moved_by_compaction_alone_is_published_over_on_request(shop: Lake) -> None:
    append(shop, "shop", "orders", 1)
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 2)
    first, second = compact(shop, "shop", "orders"), compact(shop, "shop", "orders")
    with pytest.raises(StaleHeadError) as caught:
        shop.publish(stage, head, stage.base_head)
    assert caught.value.only_replace is True
    assert caught.value.commits == (f"{first} replace", f"{second} replace")
    result = shop.publish(stage, head, stage.base_head, over_compaction=True)
    assert (result.over_compaction, result.previous_head) == (True, second)
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2]


def test_commits_that_are_no_longer_kept_do_not_count_as_compactions(shop: Lake) -> None:
    append(shop, "shop", "orders", 1)
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 2)
    gone = compact(shop, "shop", "orders")
    compact(shop, "shop", "orders")
    shop.table("shop", "orders").maintenance.expire_snapshots().by_id(gone).commit()
    with pytest.raises(StaleHeadError, match="not all kept") as caught:
        shop.publish(stage, head, stage.base_head, over_compaction=True)
    assert caught.value.only_replace is False


def test_a_published_snapshot_is_not_older_than_what_it_replaces(shop: Lake) -> None:
    """Iceberg does not load a table whose snapshot log goes back by more than a minute."""
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 2)
    compact(shop, "shop", "orders")
    age_staged(shop, stage, by_ms=600_000)
    shop.publish(stage, head, stage.base_head, over_compaction=True)
    log = [entry.timestamp_ms for entry in shop.table("shop", "orders").metadata.snapshot_log]
    assert log == sorted(log)
    assert shop.table("shop", "orders").metadata.last_updated_ms >= log[-1]


def age_staged(lake: Lake, stage: Stage, by_ms: int) -> None:
    """Make the stage's commits look older than they are."""
    path = Path(urlparse(lake.table(*stage.identifier).metadata_location).path)
    document = json.loads(path.read_text())
    for snapshot in document["snapshots"]:
        snapshot["timestamp-ms"] -= by_ms
    path.write_text(json.dumps(document))


def test_a_column_changed_on_the_target_meanwhile_stops_the_publish(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    with shop.table("shop", "orders").update_schema() as change:
        change.add_column("theirs", LongType())
    with pytest.raises(StaleHeadError, match="schema was changed"):
        shop.publish(stage, head, stage.base_head, over_compaction=True)
    assert schema_of(shop, "shop", "orders")[-1] == "theirs"


def test_one_schema_id_for_two_schemas_is_mapped_by_content(shop: Lake) -> None:
    """The target gave out schema id 1 (and went back) while the stage gave 1 to another schema."""
    append(shop, "shop", "orders", 1)
    stage = shop.stage("shop", "orders", "recov_1_1")
    with shop.table(*stage.identifier).update_schema() as change:
        change.rename_column("b", "staged")
    head = append_staged(shop, stage, 2, extra="staged")
    for old, new in (("b", "theirs"), ("theirs", "b")):
        with shop.table("shop", "orders").update_schema() as change:
            change.rename_column(old, new)
    ids_before = {s.schema_id: s.column_names for s in shop.table("shop", "orders").schemas().values()}
    assert ids_before[1] == ["id", "a", "theirs"]
    shop.publish(stage, head, stage.base_head)
    assert schema_of(shop, "shop", "orders") == ["id", "a", "staged"]
    assert {s.schema_id: s.column_names for s in shop.table("shop", "orders").schemas().values()}[1] == ids_before[1]
    assert shop.read_arrow("shop", "orders", head).column_names == ["id", "a", "staged"]


def test_a_target_that_was_made_anew_is_refused(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    shop.catalog.drop_table(("shop", "orders"))
    shop.ensure_table("shop", "orders", COLUMNS)
    with pytest.raises(SinkError, match="created again"):
        shop.publish(stage, head, stage.base_head)


def test_sequence_numbers_leave_room_for_commits_on_main(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    for _ in range(5):
        compact(shop, "shop", "orders")
    shop.publish(stage, head, stage.base_head, over_compaction=True)
    metadata = shop.table("shop", "orders").metadata
    numbers = [s.sequence_number or 0 for s in metadata.snapshots]
    assert numbers == sorted(set(numbers))
    assert metadata.last_sequence_number == 1 + SEQUENCE_RESERVE + 1  # type: ignore[union-attr]
    append(shop, "shop", "orders", 2)
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2]


def test_published_properties_and_kept_retention(shop: Lake) -> None:
    table = shop.table("shop", "orders")
    table.manage_snapshots().create_branch(
        snapshot_id=table.current_snapshot().snapshot_id,  # type: ignore[union-attr]
        branch_name="main",
        min_snapshots_to_keep=7,
    ).commit()
    stage = shop.stage("shop", "orders", "x")
    shop.publish(stage, append_staged(shop, stage, 1), stage.base_head, {"cdc.keyless": "true"})
    metadata = shop.table("shop", "orders").metadata
    assert metadata.properties["cdc.keyless"] == "true"
    assert metadata.refs["main"].min_snapshots_to_keep == 7
    assert "gc.enabled" not in metadata.properties
    assert not any(key.startswith("cdc.stage.") for key in metadata.properties)


def test_what_the_writer_noted_on_the_stage_is_published_with_the_rows(shop: Lake) -> None:
    """Our own notes are; how the stage's files were written is the stage's matter, also where the table says otherwise."""
    stage = shop.stage("shop", "orders", "x")
    noted = {
        "cdc.definition": "of the source",
        "write.parquet.compression-codec": "none",
        "write.parquet.row-group-limit": "7",
    }
    shop.table(*stage.identifier).transaction().set_properties(noted).commit_transaction()
    head = append_staged(shop, stage, 1)
    before = dict(shop.table("shop", "orders").properties)
    assert "cdc.definition" not in before
    shop.publish(stage, head, stage.base_head)
    assert shop.table("shop", "orders").properties == before | {"cdc.definition": "of the source"}
    assert shop.table(*shop.stage("shop", "orders", "y").identifier).properties["cdc.definition"] == "of the source"


# commits whose answer is lost


Commit = Callable[..., Any]


def lost_answer(real: Commit, landed: bool, times: int = 1) -> Commit:
    """A commit_table whose first answers are lost, after or before the commit stood."""
    left = [times]

    def call(*args: Any) -> Any:
        if left[0] == 0:
            return real(*args)
        left[0] -= 1
        if landed:
            real(*args)
        raise CommitStateUnknownException("502 bad gateway")

    return call


@pytest.mark.parametrize("landed", [True, False])
def test_a_publish_whose_answer_is_lost_is_read_back(shop: Lake, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    monkeypatch.setattr(shop.catalog, "commit_table", lost_answer(shop.catalog.commit_table, landed))
    result = shop.publish(stage, head, stage.base_head)
    assert result.snapshot_id == shop.head("shop", "orders") == head
    assert result.already is False
    assert [s.snapshot_id for s in shop.table("shop", "orders").metadata.snapshots].count(head) == 1


def test_a_publish_that_cannot_be_settled_is_unknown(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    monkeypatch.setattr(iceberg_catalog, "COMMIT_SECONDS", 0.3)
    monkeypatch.setattr(shop.catalog, "commit_table", lost_answer(shop.catalog.commit_table, landed=False, times=10**6))
    with pytest.raises(UnknownStateError, match="CommitStateUnknownException"):
        shop.publish(stage, head, stage.base_head)


def test_a_refused_commit_is_not_tried_again(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def refuse(*_: Any) -> None:
        calls.append(1)
        raise ValueError("no such snapshot")

    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    monkeypatch.setattr(shop.catalog, "commit_table", refuse)
    with pytest.raises(SinkError, match="no such snapshot"):
        shop.publish(stage, head, stage.base_head)
    assert len(calls) == 1


def test_a_writer_of_another_ref_does_not_fail_a_publish(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's pointer moved between read and commit, main did not: the commit is made again."""
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    real = shop.catalog.commit_table
    interfered: list[int] = []

    def racing(table: Any, requirements: Any, updates: Any) -> Any:
        if not interfered:
            interfered.append(1)
            other = shop.table("shop", "orders")
            other.manage_snapshots().create_tag(snapshot_id=stage.base_head, tag_name=f"t{uuid.uuid4().hex}").commit()
            raise CommitFailedException("Table has been updated by another process")
        return real(table, requirements, updates)

    monkeypatch.setattr(shop.catalog, "commit_table", racing)
    assert shop.publish(stage, head, stage.base_head).already is False
    assert shop.head("shop", "orders") == head


def test_data_committed_between_look_and_publish_is_not_overwritten(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard is the commit's own expectation, not the look before it."""
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 1)
    real = shop.catalog.commit_table
    moved: list[int] = []

    def racing(*args: Any) -> Any:
        monkeypatch.undo()
        moved.append(append(shop, "shop", "orders", 7))
        return real(*args)

    monkeypatch.setattr(shop.catalog, "commit_table", racing)
    with pytest.raises(StaleHeadError) as caught:
        shop.publish(stage, head, stage.base_head, over_compaction=True)
    assert caught.value.commits == (f"{moved[0]} append",)
    assert ids(shop.read_arrow("shop", "orders")) == [7]


def test_a_publish_that_was_killed_half_way_is_finished_by_the_next(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = append(shop, "shop", "orders", 1)
    stage = shop.stage("shop", "orders", "recov_1_1")
    head = append_staged(shop, stage, 2)
    real = iceberg_catalog.write_metadata

    def die_after(*args: Any) -> None:
        real(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(iceberg_catalog, "write_metadata", die_after)
    with pytest.raises(KeyboardInterrupt):
        shop.publish(stage, head, stage.base_head)
    assert shop.head("shop", "orders") == before
    monkeypatch.undo()
    assert shop.publish(stage, head, stage.base_head).already is False
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2]


# format v3


def test_v3_tables_are_made_staged_and_published(tmp_path: Path) -> None:
    lake = lake_in(tmp_path, format_version="3")
    lake.ensure_table("shop", "orders", COLUMNS)
    metadata = lake.table("shop", "orders").metadata
    assert metadata.format_version == 3
    assert metadata.properties["write.merge.mode"] == "merge-on-read"
    stage = lake.stage("shop", "orders", "x")
    reserve = lake.table(*stage.identifier).metadata.next_row_id  # type: ignore[union-attr]
    assert reserve is not None
    assert reserve > 10_000_000
    assert lake.publish(stage, stage.base_head, stage.base_head).already is True
    lake.drop_stage(stage)
    assert lake.read_arrow("shop", "orders").num_rows == 0
    lake.close()
