"""A Hudi table's timeline: which commits are versions of it, where its stamp is, and how many rows its files hold."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_cdc.core.errors import UnknownStateError
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.sinks.hudi import notes, timeline

# the fields of Hudi's own schema that are read
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "fields": [
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}], "default": None},
        {
            "name": "partitionToReplaceFileIds",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
            "default": None,
        },
        {"name": "operationType", "type": ["null", "string"], "default": None},
    ],
}
STAMPED = Stamp(3).to_summary()


def instant(number: int) -> str:
    """A time with milliseconds: on 1 January 2026, `number` seconds after midnight."""
    return f"202601010000{number:02d}000"


def commit(
    folder: Path,
    number: int,
    *,
    done: int | None = None,
    action: str = "commit",
    summary: Mapping[str, str] | None = None,
    replaced: Sequence[str] = (),
    operation: str = "UPSERT",
) -> int:
    """Write a completed commit; its version."""
    place = folder / ".hoodie" / "timeline"
    place.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    record = {
        "extraMetadata": {**(summary or {}), "schema": "{}"},
        "partitionToReplaceFileIds": {"": list(replaced)} if replaced else None,
        "operationType": operation,
    }
    fastavro.writer(out, fastavro.parse_schema(SCHEMA), [record])
    ended = instant(number if done is None else done)
    (place / f"{instant(number)}_{ended}.{action}").write_bytes(out.getvalue())
    return int(instant(number))


def rows(folder: Path, group: str, number: int, count: int) -> None:
    """A base file of a file group, written by that commit."""
    pq.write_table(pa.table({"id": list(range(count))}), folder / f"{group}_0-1-0_{instant(number)}.parquet")


def test_no_folder_is_no_table(tmp_path: Path) -> None:
    assert (timeline.commits(tmp_path), timeline.head(tmp_path), timeline.table_type(tmp_path)) == ((), 0, "")


def test_versions_are_the_commits_in_the_order_in_which_they_completed(tmp_path: Path) -> None:
    """A commit that began first may end last, and readers see it last."""
    slow, quick = commit(tmp_path, 1, done=9), commit(tmp_path, 2, done=3)
    assert [one.version for one in timeline.commits(tmp_path)] == [quick, slow]
    assert timeline.head(tmp_path) == slow
    assert [one.at for one in timeline.commits(tmp_path)] == [1767225603.0, 1767225609.0]


def test_a_commit_that_is_not_completed_is_no_version(tmp_path: Path) -> None:
    first = commit(tmp_path, 1)
    place = tmp_path / ".hoodie" / "timeline"
    for name in (f"{instant(2)}.inflight", f"{instant(2)}.commit.requested", f"{instant(2)}_{instant(3)}.clean"):
        (place / name).write_bytes(b"")
    assert timeline.head(tmp_path) == first


@pytest.mark.parametrize("operation", ["COMPACT", "LOG_COMPACT", "CLUSTER"])
def test_rewriting_files_changes_no_row_and_makes_no_version(tmp_path: Path, operation: str) -> None:
    first = commit(tmp_path, 1)
    commit(tmp_path, 2, operation=operation)
    assert timeline.head(tmp_path) == first


def test_inv_15_the_newest_stamp_is_found_through_commits_without_one(tmp_path: Path) -> None:
    commit(tmp_path, 1, summary=Stamp(2).to_summary())
    second = commit(tmp_path, 2, summary={**STAMPED, "someone.else": "x"})
    commit(tmp_path, 3)
    found = timeline.stamped(timeline.commits(tmp_path))
    assert found is not None
    assert (found.version, found.stamp and found.stamp.epoch) == (second, 3)
    assert set(found.summary) == set(STAMPED)
    assert timeline.stamped(()) is None


def test_rows_are_counted_by_the_newest_file_of_each_group(tmp_path: Path) -> None:
    first, second = commit(tmp_path, 1), commit(tmp_path, 2)
    rows(tmp_path, "a", 1, 3)
    rows(tmp_path, "a", 2, 5)
    rows(tmp_path, "b", 1, 10)
    assert timeline.rows_at(tmp_path, second) == 15
    assert timeline.rows_at(tmp_path, first) == 13


def test_files_of_a_commit_that_was_not_completed_hold_no_rows(tmp_path: Path) -> None:
    first = commit(tmp_path, 1)
    rows(tmp_path, "a", 1, 3)
    rows(tmp_path, "a", 2, 50)
    rows(tmp_path, "b", 2, 7)
    assert timeline.rows_at(tmp_path, first) == 3


def test_files_from_before_the_timeline_begins_are_of_commits_that_were_archived(tmp_path: Path) -> None:
    newest = commit(tmp_path, 5)
    rows(tmp_path, "a", 1, 3)
    rows(tmp_path, "b", 5, 4)
    assert timeline.rows_at(tmp_path, newest) == 7


def test_file_groups_that_were_replaced_hold_no_rows_any_more(tmp_path: Path) -> None:
    first = commit(tmp_path, 1)
    second = commit(tmp_path, 2, action="replacecommit", replaced=["a"], operation="INSERT_OVERWRITE_TABLE")
    rows(tmp_path, "a", 1, 3)
    rows(tmp_path, "b", 2, 4)
    assert timeline.rows_at(tmp_path, second) == 4
    assert timeline.rows_at(tmp_path, first) == 3


def test_inv_36_rows_in_log_files_are_not_counted_until_all_of_them_are_replaced(tmp_path: Path) -> None:
    """Only Spark reads log files; unknown is not few."""
    first = commit(tmp_path, 1)
    second = commit(tmp_path, 2, action="deltacommit")
    third = commit(tmp_path, 3, action="replacecommit", replaced=["a"], operation="INSERT_OVERWRITE_TABLE")
    fourth = commit(tmp_path, 4, action="deltacommit")
    rows(tmp_path, "a", 1, 3)
    rows(tmp_path, "b", 3, 4)
    counted = [timeline.rows_at(tmp_path, version) for version in (first, second, third, fourth)]
    assert counted == [3, None, 4, None]


def test_inv_36_a_version_that_is_not_on_the_timeline_any_more_has_an_unknown_number_of_rows(tmp_path: Path) -> None:
    commit(tmp_path, 5)
    assert timeline.rows_at(tmp_path, int(instant(1))) is None


def test_a_base_file_that_cannot_be_read_is_unknown_and_not_empty(tmp_path: Path) -> None:
    version = commit(tmp_path, 1)
    (tmp_path / f"a_0-1-0_{instant(1)}.parquet").write_bytes(b"not parquet")
    with pytest.raises(UnknownStateError, match="timeline cannot be read"):
        timeline.rows_at(tmp_path, version)


def test_the_tables_type_is_in_its_properties(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    assert not (tmp_path / ".hoodie" / "hoodie.properties").exists()
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t\nhoodie.table.type=MERGE_ON_READ\n")
    assert timeline.table_type(tmp_path) == "MERGE_ON_READ"


# ---- notes ----------------------------------------------------------------------------------------------------------------------


def test_the_number_of_rows_counts_only_for_the_version_that_it_was_noted_for(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "rows.json"
    assert notes.read_rows(path, 7) is None
    notes.write_json(path, {"version": 7, "rows": 30})
    assert (notes.read_rows(path, 7), notes.read_rows(path, 8)) == (30, None)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 7}', '{"rows": "many", "version": 7}'])
def test_a_number_of_rows_that_cannot_be_read_is_unknown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(UnknownStateError, match="number of rows cannot be read"):
        notes.read_rows(path, 7)


def test_notes_are_read_as_they_were_written_and_anything_else_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    made = notes.Notes("shop", "orders", "recov_1_1", 5, (("id", "bigint"),), "{}", 7.5)
    assert notes.read(path) is None
    notes.write(path, made)
    assert notes.read(path) == made
    for text in ("{", "{}", '{"columns": [["id"]]}', '{"columns": [], "more": 1}'):
        path.write_text(text)
        with pytest.raises(UnknownStateError, match="notes cannot be read"):
            notes.read(path)
