"""Small files of a table merged without Spark: the same rows in fewer files, for every reader, at every version."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.types import LongType

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.sinks.iceberg import row_positions, small_files
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.file_change import FileChange
from airflow_cdc.sinks.iceberg.row_positions import Files, live_files
from airflow_cdc.sinks.iceberg.snapshots import head_of, newest_stamp, operation_of, other_commit, snapshot_at
from airflow_cdc.spark_apps.adapters import iceberg_small
from airflow_cdc.spark_apps.tidied import Tidied
from tests.contract.lakes import lake_in
from tests.unit.sinks.iceberg.plain_tables import VALUES, Sink, ids, kill_at_commit

STAMP: dict[str, Any] = {"cdc.epoch": "1", "cdc.offsets": "{}"}
COLUMNS = {"id": "int", "v": "string"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def merge(sink: Sink, at_least: int = 2) -> FileChange | None:
    return small_files.merge(sink.lake.catalog, sink.place, sink.lake.table(*sink.place), at_least)


def files_of(sink: Sink) -> Files:
    files = live_files(sink.lake.table(*sink.place))
    assert files is not None
    return files


def count(sink: Sink) -> tuple[int, int]:
    """Files of rows, and of deletes."""
    files = files_of(sink)
    return len(files.data), len(files.deletes)


def pairs(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array([a for a, _ in rows], pa.int32()), "v": pa.array([b for _, b in rows], pa.string())}
    )


@pytest.mark.parametrize("kind", VALUES)
def test_each_type_is_kept_exactly_and_may_be_null(lake: Lake, kind: str) -> None:
    sink = Sink(lake, {"id": "int", "v": kind})
    wanted = sink.lake.table(*sink.place).schema().as_arrow().field("v").type
    values = [*VALUES[kind], None]
    for number, value in enumerate(values):
        row = pa.table({"id": pa.array([number], pa.int32()), "v": pa.array([value], wanted)})
        assert sink.write(ids(number), row)
    before = sink.rows()
    assert count(sink) == (len(values), 0)
    assert merge(sink) is not None
    assert count(sink) == (1, 0)
    assert sink.rows() == before == [{"id": number, "v": value} for number, value in enumerate(values)]


def test_a_history_has_the_same_rows_at_each_version_and_few_files(lake: Lake) -> None:
    """150 batches of keys and copies; each row, and the row count in the summary, after each of them."""
    chance, sink = random.Random(7), Sink(lake, COLUMNS)
    rows: dict[int, str | None] = {}
    versions: dict[int, dict[int, str | None]] = {}
    merged = 0
    for number in range(150):
        keys = chance.sample(range(60), chance.randint(1, 12))
        kept = [key for key in keys if chance.random() < 0.7]
        for key in keys:
            rows.pop(key, None)
        rows |= {key: chance.choice([f"v{number}", None]) for key in kept}
        assert sink.write(ids(*keys), pairs(*((key, rows[key]) for key in kept)))
        merged += merge(sink, 10) is not None
        head = lake.head(*sink.place) or 0
        versions[head] = dict(rows)
        assert max(count(sink)) <= 10
        assert lake.row_count(*sink.place, head) == len(rows)
        if number % 10 == 0:
            assert {row["id"]: row["v"] for row in sink.rows()} == rows
    assert merged > 8
    for head in chance.sample([*versions], 15):
        old = lake.read_arrow(*sink.place, snapshot_id=head).to_pylist()
        assert {row["id"]: row["v"] for row in old} == versions[head]
        assert len(old) == len(versions[head])


def test_a_table_of_which_nothing_is_left_has_no_file(lake: Lake) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    assert sink.write(ids(0, 1, 2), pairs())
    assert merge(sink) is not None
    assert (count(sink), sink.rows()) == ((0, 0), [])
    assert lake.row_count(*sink.place, lake.head(*sink.place) or 0) == 0
    assert sink.write(ids(5), pairs((5, "y")))
    assert sink.rows() == [{"id": 5, "v": "y"}]


def test_fewer_files_than_asked_for_are_left(lake: Lake) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    head = lake.head(*sink.place)
    assert merge(sink, 4) is None
    assert lake.head(*sink.place) == head


@pytest.fixture
def with_large(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Sink:
    """A large file whose rows 0 to 49 were deleted one by one, with the new rows in small files."""
    monkeypatch.setattr(small_files, "ALWAYS_BYTES", 4_000)
    sink = Sink(lake, COLUMNS)
    large = [(number, os.urandom(40).hex()) for number in range(5_000)]
    assert sink.write(ids(), pairs(*large))
    for number in range(50):
        assert sink.write(ids(number), pairs((number, "new")))
        assert sink.write(ids(), pairs((6_000 + number, "more")))
    return sink


def test_a_large_file_is_left_and_its_deletes_are_kept(with_large: Sink) -> None:
    before = with_large.rows()
    (large,) = (file for file in files_of(with_large).data if file.record_count == 5_000)
    done = merge(with_large, 10)
    assert done is not None
    assert large.file_path not in {file.file_path for file in done.removed}
    assert count(with_large) == (2, 1)
    assert with_large.rows() == before
    assert sum(file.record_count for file in files_of(with_large).deletes) == 50
    assert with_large.write(ids(0, 60, 6_000), pairs((60, "again")))
    expected = [row for row in before if row["id"] not in {0, 60, 6_000}] + [{"id": 60, "v": "again"}]
    assert with_large.rows() == sorted(expected, key=lambda row: row["id"])


def test_deletes_of_merged_rows_go_with_them(with_large: Sink) -> None:
    """A file that would delete rows of a file that is gone would be counted for ever."""
    assert merge(with_large, 10) is not None
    assert with_large.write(ids(*range(6_000, 6_050)), pairs())
    for number in range(12):
        assert with_large.write(ids(7_000 + number), pairs((7_000 + number, "x")))
    before = with_large.rows()
    assert merge(with_large, 10) is not None
    assert with_large.rows() == before
    head = with_large.lake.head(*with_large.place) or 0
    assert with_large.lake.row_count(*with_large.place, head) == len(before)
    assert sum(file.record_count for file in files_of(with_large).deletes) == 50


def test_a_large_file_of_deletes_is_taken_if_it_has_some_of_merged_rows(
    with_large: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it they would be there again."""
    monkeypatch.setattr(small_files, "MOST_ROWS", 1_000)
    assert with_large.write(ids(*range(100, 4_500), 6_000, 6_001), pairs())
    (large,) = (file for file in files_of(with_large).deletes if file.record_count == 4_402)
    assert large not in small_files.small(files_of(with_large).deletes)
    before = with_large.rows()
    assert merge(with_large, 10) is not None
    assert with_large.rows() == before
    assert not {6_000, 6_001} & {row["id"] for row in before}


def test_what_is_read_at_once_is_bounded(with_large: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MOST_ROWS", 30)
    done = merge(with_large, 10)
    assert done is not None
    assert sum(file.record_count for file in done.removed if file.content == 0) == 30
    assert len(with_large.rows()) == 5_050


def test_sizes_double_from_merge_to_merge() -> None:
    """A row is written again about as often as the number of files doubles, not with every merge."""

    class File:
        def __init__(self, size: int) -> None:
            self.file_size_in_bytes, self.record_count = size, 1

    mega = 1 << 20
    sizes: list[int] = []
    written = 0
    for _ in range(400):
        sizes.append(mega // 4)
        chosen: Any = small_files.small([File(size) for size in sizes])  # type: ignore[misc]
        if len(chosen) >= 10:
            total = sum(one.file_size_in_bytes for one in chosen)
            for one in chosen:
                sizes.remove(one.file_size_in_bytes)
            sizes.append(total)
            written += total
    assert len(sizes) < 30
    assert written < 5 * 400 * mega // 4


def test_the_commit_is_a_replace_between_stamps(lake: Lake) -> None:
    """It changes no row, so neither the newest stamp nor the search for other writers sees it."""
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")), **STAMP)
    metadata = lake.table(*sink.place).metadata
    before, parent = newest_stamp(metadata, head_of(metadata)), head_of(metadata)
    assert isinstance(before, Stamp)
    assert merge(sink) is not None
    metadata = lake.table(*sink.place).metadata
    head = snapshot_at(metadata, head_of(metadata))
    assert head is not None
    assert (operation_of(head), head.parent_snapshot_id) == ("replace", parent)
    assert newest_stamp(metadata, head_of(metadata)) == before
    assert other_commit(metadata) is None


def test_removed_files_are_named_once_so_that_expiry_deletes_them(lake: Lake) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(0), pairs((0, f"{number}")))
    assert merge(sink) is not None
    assert removed(sink) == {ManifestContent.DATA: 3, ManifestContent.DELETES: 2}
    assert sink.write(ids(1), pairs((1, "y")))
    assert removed(sink) == {}


def removed(sink: Sink) -> dict[ManifestContent, int]:
    table = sink.lake.table(*sink.place)
    head = snapshot_at(table.metadata, head_of(table.metadata))
    assert head is not None
    entries = [
        (manifest.content, entry.status)
        for manifest in head.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    ]
    gone = [kind for kind, status in entries if status == ManifestEntryStatus.DELETED]
    return {kind: gone.count(kind) for kind in gone}


def test_columns_added_and_widened_meanwhile_are_read_as_they_are_now(lake: Lake) -> None:
    sink = Sink(lake, {"id": "int", "n": "int"})
    small = pa.table({"id": pa.array([1], pa.int32()), "n": pa.array([7], pa.int32())})
    assert sink.write(ids(1), small)
    with lake.table(*sink.place).update_schema() as change:
        change.update_column("n", LongType())
        change.add_column("more", LongType())
    wide = pa.table({"id": pa.array([2], pa.int32()), "n": [2**40], "more": [3]})
    assert sink.write(ids(2), wide)
    assert merge(sink) is not None
    assert count(sink) == (1, 0)
    assert sink.rows() == [{"id": 1, "n": 7, "more": None}, {"id": 2, "n": 2**40, "more": 3}]


def test_rows_that_are_not_as_many_as_counted_are_not_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    head, real = lake.head(*sink.place), small_files._read
    monkeypatch.setattr(small_files, "_read", lambda *args: real(*args).slice(1))
    assert merge(sink) is None
    assert (lake.head(*sink.place), len(sink.rows())) == (head, 3)


def test_a_table_that_moved_since_it_was_read_is_not_changed(lake: Lake) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    read = lake.table(*sink.place)
    assert sink.write(ids(1), pairs())
    with pytest.raises(StaleHeadError):
        small_files.merge(lake.catalog, sink.place, read, 2)
    assert [row["id"] for row in sink.rows()] == [0, 2]


def test_another_layout_is_left_to_maintenance(tmp_path: Path) -> None:
    assert merge(Sink(lake_in(tmp_path, format_version="3"), COLUMNS)) is None


def test_a_table_of_very_many_versions_is_told_of(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    monkeypatch.setattr(iceberg_small, "MANY_VERSIONS", 3)
    opened = iceberg_small.IcebergSmallCommit(lake, sink.place, lake.table(*sink.place))
    assert opened.merge_files(2) == Tidied(rewritten=3, written=1)
    assert f"{'.'.join(sink.place)} has 5 versions" in caplog.text
    assert opened.merge_files(2) == Tidied()


def test_the_next_batch_and_another_process_find_the_merged_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, COLUMNS)
    for number in range(5):
        assert sink.write(ids(number % 3), pairs((number % 3, f"{number}")))
    assert merge(sink) is not None
    monkeypatch.setattr(row_positions, "KEPT", row_positions.Kept())
    assert sink.write(ids(0), pairs((0, "new")))
    assert sink.rows() == [{"id": 0, "v": "new"}, {"id": 1, "v": "4"}, {"id": 2, "v": "2"}]


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_its_commit_it_leaves_the_same_rows(tmp_path: Path, when: str) -> None:
    sink = Sink(lake_in(tmp_path), COLUMNS)
    for number in range(3):
        assert sink.write(ids(number), pairs((number, "x")))
    before = sink.rows()
    kill_at_commit(tmp_path, sink, when, "small_files.merge(catalog, place, read, 2)")
    assert sink.rows() == before
    assert count(sink)[0] == (3 if when == "before" else 1)
    assert (merge(sink) is None) == (when == "after")
    assert (count(sink), sink.rows()) == ((1, 0), before)
