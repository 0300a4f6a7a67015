"""INV 2: whether main can descend from a stamped commit that is no longer among its ancestors.

The stamp's copy in the control table may then stand in for it. If main was rolled back instead, its rows are older than
the copy says, and an apply that began there would leave out changes for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from airflow_cdc.core.observation import OtherCommit
from airflow_cdc.core.stamp import BASE, LEDGER, READ_EPOCH, Stamp
from airflow_cdc.sinks.iceberg.snapshots import (
    lineage,
    make,
    may_hold,
    newest_stamp,
    other_commit,
    row_count,
    stamp_and_summary,
)

SCHEMA = Schema(NestedField(1, "id", LongType()))


def snapshot(
    number: int, parent: int | None, summary: dict[str, str] | None = None, *, replaces: bool = False
) -> Snapshot:
    """Commit `number`, the number-th of its table."""
    return make(
        Snapshot,
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=number,
        manifest_list="none",
        schema_id=0,
        summary=Summary(Operation.REPLACE if replaces else Operation.APPEND, **summary or {}),
    )


def main_at(head: int | None, kept: Sequence[Snapshot]) -> TableMetadata:
    """A table that still keeps these snapshots, with main at `head`."""
    made = new_table_metadata(SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///none")
    refs = (
        {}
        if head is None
        else {MAIN_BRANCH: make(SnapshotRef, snapshot_id=head, snapshot_ref_type=SnapshotRefType.BRANCH)}
    )
    return made.model_copy(update={"snapshots": list(kept), "refs": refs, "current_snapshot_id": head})


def stamp(number: int, sequence: int | None) -> Stamp:
    """The copy of the stamp that commit `number` carried."""
    return Stamp(3, snapshot_id=number, sequence=sequence)


def test_main_whose_oldest_commit_follows_the_stamped_one_holds_it() -> None:
    """Expiry took 1 to 4; 5 names 4 as its parent."""
    assert may_hold(main_at(6, [snapshot(5, 4), snapshot(6, 5)]), stamp(4, 4))
    assert may_hold(main_at(6, [snapshot(5, 4), snapshot(6, 5)]), stamp(4, None))


def test_main_whose_oldest_commit_is_newer_than_the_stamped_one_may_hold_it() -> None:
    assert may_hold(main_at(6, [snapshot(5, 4), snapshot(6, 5)]), stamp(3, 3))


def test_inv_02_a_stamped_commit_that_is_still_kept_beside_main_is_not_in_main() -> None:
    """Main was rolled back from 4 to 3, and went on to 5: 4 is kept, and no ancestor of 5."""
    rolled_back = main_at(5, [snapshot(3, 2), snapshot(4, 3), snapshot(5, 3)])
    assert not may_hold(rolled_back, stamp(4, 2))


def test_inv_02_main_whose_ancestors_are_all_kept_descends_from_no_expired_commit() -> None:
    """Main was rolled back to 1, the first commit, and went on; the stamped 2 was expired."""
    assert not may_hold(main_at(5, [snapshot(1, None), snapshot(5, 1)]), stamp(2, 0))


def test_inv_02_main_whose_oldest_commit_is_older_than_the_stamped_one_was_rolled_back() -> None:
    """Main was rolled back from 4 to 3; 4 was expired, and so were 1 and 2."""
    assert not may_hold(main_at(5, [snapshot(3, 2), snapshot(5, 3)]), stamp(4, 4))
    assert not may_hold(main_at(5, [snapshot(3, 2), snapshot(5, 3)]), stamp(4, 3))


def test_inv_02_a_copy_that_says_no_place_in_the_order_proves_nothing() -> None:
    assert not may_hold(main_at(6, [snapshot(5, 4), snapshot(6, 5)]), stamp(3, None))


def test_inv_02_a_table_without_a_main_holds_nothing() -> None:
    assert not may_hold(main_at(None, []), stamp(3, 3))


STAMPED = Stamp(3, None, {}).to_summary()


def test_the_copy_stands_in_only_where_no_stamp_of_the_tables_own_is_left() -> None:
    own = main_at(6, [snapshot(5, 4, {**STAMPED, "note": "own"}), snapshot(6, 5)])
    found, summary = stamp_and_summary(own, stamp(4, 4))
    assert found is not None
    assert (found.snapshot_id, found.sequence, summary["note"]) == (5, 5, "own")
    assert stamp_and_summary(main_at(6, [snapshot(5, 4), snapshot(6, 5)]), stamp(4, 4)) == (stamp(4, 4), {})
    assert stamp_and_summary(main_at(5, [snapshot(3, 2), snapshot(5, 3)]), stamp(4, 4)) == (None, {})
    assert stamp_and_summary(main_at(6, [snapshot(6, 5)]), None) == (None, {})


def test_inv_15_stamps_are_found_on_the_way_from_mains_head_alone() -> None:
    """A commit beside main is newer, and no reader of main sees its rows."""
    beside = main_at(2, [snapshot(1, None, STAMPED), snapshot(2, 1), snapshot(3, 1, Stamp(9).to_summary())])
    found = newest_stamp(beside, 2)
    assert found is not None
    assert (found.epoch, found.snapshot_id) == (3, 1)
    assert [one.snapshot_id for one in lineage(beside, 2)] == [2, 1]


EMPTY_FIRST = {"total-data-files": "0", "total-delete-files": "0"}
READ = {LEDGER: "{}", READ_EPOCH: "4"}
NEXT_EPOCH = Stamp(4, None, {}).to_summary()


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        ([snapshot(1, None, STAMPED)], None),
        ([snapshot(1, None, EMPTY_FIRST), snapshot(2, 1, STAMPED)], None),
        ([snapshot(1, None, STAMPED), snapshot(2, 1)], 2),
        ([snapshot(1, None, STAMPED), snapshot(2, 1, replaces=True)], None),
        ([snapshot(1, None), snapshot(2, 1, replaces=True)], 1),
        ([snapshot(1, None), snapshot(2, 1, STAMPED), snapshot(3, 2, STAMPED)], None),
        ([snapshot(1, None, STAMPED), snapshot(2, 1), snapshot(3, 2, STAMPED), snapshot(4, 3, STAMPED)], 2),
        ([snapshot(1, None, STAMPED), snapshot(2, 1), snapshot(3, 2, NEXT_EPOCH)], None),
        ([snapshot(1, None), snapshot(2, 1, READ), snapshot(3, 2, NEXT_EPOCH), snapshot(4, 3, NEXT_EPOCH)], None),
        ([snapshot(1, None, NEXT_EPOCH), snapshot(2, 1), snapshot(3, 2, NEXT_EPOCH)], 2),
        ([snapshot(1, None, NEXT_EPOCH), snapshot(2, 1), snapshot(3, 2, NEXT_EPOCH | {BASE: "1"})], None),
        ([snapshot(1, None, STAMPED), snapshot(2, 1), snapshot(3, 2), snapshot(4, 3, STAMPED | {BASE: "2"})], 2),
        ([snapshot(1, None, EMPTY_FIRST)], None),
        ([snapshot(1, None, EMPTY_FIRST), snapshot(2, 1, replaces=True)], None),
        ([snapshot(1, None, STAMPED), snapshot(2, 1, STAMPED), snapshot(3, 2), snapshot(4, 3, NEXT_EPOCH)], None),
    ],
    ids=[
        "ours",
        "ours on a table that we made",
        "another's rows",
        "a compaction",
        "a compaction of another's rows",
        "compared by the first recovery since",
        "ours twice over another's",
        "compared by a recovery since",
        "read anew since",
        "another's within the epoch",
        "what our batch deletes first",
        "another's before what our batch deletes first",
        "a new table, without a row",
        "a new table that was compacted",
        "read anew since, over several batches of ours",
    ],
)
def test_a_commit_of_another_program_is_seen_until_its_rows_are_read_anew(
    kept: list[Snapshot], other: int | None
) -> None:
    found = other_commit(main_at(kept[-1].snapshot_id, kept))
    assert (found.version if found else None) == other


def test_a_commit_of_another_program_says_when_and_by_what() -> None:
    theirs = snapshot(1, None, {"engine-name": "spark"})
    assert other_commit(main_at(1, [theirs])) == OtherCommit(1, theirs.timestamp_ms / 1000, "spark")


@pytest.mark.parametrize(
    ("totals", "rows"),
    [
        ({"total-records": "7"}, 7),
        ({"total-records": "7", "total-position-deletes": "2"}, 5),
        ({"total-records": "7", "total-equality-deletes": "1"}, None),
        ({"total-records": "7", "total-equality-deletes": "0"}, 7),
        ({}, None),
    ],
)
def test_inv_36_rows_are_counted_by_a_summary_only_where_it_is_certain(
    totals: dict[str, str], rows: int | None
) -> None:
    assert row_count(main_at(1, [snapshot(1, None, totals)]), 1) == rows


def test_inv_36_a_snapshot_that_is_gone_has_no_count() -> None:
    assert row_count(main_at(1, [snapshot(1, None)]), 9) is None
