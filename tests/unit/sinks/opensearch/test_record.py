"""What is noted of an index beside its documents: which commit counts, what a stage begins from, which versions win."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SinkError, UnknownStateError
from airflow_cdc.core.stamp import EPOCH, READ_EPOCH, Stamp
from airflow_cdc.sinks.opensearch import versions
from airflow_cdc.sinks.opensearch.indexes import index_of, prefix_of
from airflow_cdc.sinks.opensearch.record import KEPT, Commit, Record

STAMPED = Stamp(3).to_summary()
EMPTY = Record("cdc-a", "shop", "orders", "first", columns=(("id", "bigint"),), properties={"a": "1"}, since=5.0)


def commits(*stamped: bool) -> tuple[Commit, ...]:
    """Commits 1, 2, …, each with or without a stamp."""
    return tuple(Commit(at, float(at), at, STAMPED if one else {}) for at, one in enumerate(stamped, start=1))


@pytest.mark.parametrize(
    ("before", "own", "newest"),
    [
        ((), (), None),
        ((), (False,), None),
        ((), (True, False), 1),
        ((), (True, True, False), 2),
        ((True,), (), 1),
        ((True,), (False, False), 1),
    ],
)
def test_inv_15_the_newest_stamp_is_found_through_commits_without_one_and_in_the_base(
    before: tuple[bool, ...], own: tuple[bool, ...], newest: int | None
) -> None:
    record = replace(EMPTY, before=commits(*before), commits=commits(*own))
    assert (record.stamped and record.stamped.version) == newest


def test_the_version_is_the_newest_commits_or_else_the_bases() -> None:
    assert replace(EMPTY, base_version=7).version == 7
    assert replace(EMPTY, base_version=7, commits=commits(False, True)).version == 2


@pytest.mark.parametrize(
    ("more", "readable"),
    [
        ({}, "cdc-a"),
        ({"base_index": "cdc-base"}, "cdc-base"),
        ({"base_index": "cdc-base", "copied": True}, "cdc-a"),
        ({"base_index": "cdc-base", "commits": commits(False)}, "cdc-a"),
    ],
    ids=["a first index", "a stage with nothing of its own", "a copy of its base", "a stage that was written"],
)
def test_a_stage_without_rows_of_its_own_is_read_as_its_base(more: dict[str, Any], readable: str) -> None:
    assert replace(EMPTY, **more).readable == readable


@pytest.mark.parametrize(
    ("own", "kept"),
    [((True,), [1]), ((True, False), [1, 2]), ((False, True), [2]), ((False,), [1]), ((), [])],
    ids=["the newest has a stamp", "an older one has", "the newest of two", "none has", "no commit"],
)
def test_a_stage_keeps_its_bases_newest_stamp_and_its_newest_commit(own: tuple[bool, ...], kept: list[int]) -> None:
    base = replace(EMPTY, commits=commits(*own))
    stage = base.staged("recov_1_1", "cdc-b")
    assert [one.version for one in stage.before] == kept
    assert (stage.index, stage.label, stage.base_index, stage.base_version) == (
        "cdc-b",
        "recov_1_1",
        "cdc-a",
        base.version,
    )
    assert (stage.columns, stage.base_columns, stage.properties) == (base.columns, base.columns, base.properties)
    assert (stage.commits, stage.copied, stage.successor) == ((), False, "")


def test_inv_15_the_newest_stamp_outlives_any_number_of_commits_without_one() -> None:
    record = EMPTY.with_commit(1, STAMPED)
    first = record.commits[0]
    for rows in range(KEPT + 5):
        record = record.with_commit(rows, {})
    assert (record.commits[0], len(record.commits)) == (first, KEPT + 1)
    assert record.stamped == first
    record = record.with_commit(0, STAMPED)
    assert len(record.commits) == KEPT
    assert first not in record.commits


def test_a_stamp_of_the_base_is_not_taken_for_a_commit_of_the_stage() -> None:
    record = replace(EMPTY, before=commits(True))
    for rows in range(KEPT + 1):
        record = record.with_commit(rows, {})
    assert len(record.commits) == KEPT
    assert record.stamped == record.before[0]


def test_commits_have_versions_of_their_own() -> None:
    record = EMPTY.with_commit(1, {"a": "1"}).with_commit(2, {})
    one, other = record.commits
    assert one.version != other.version
    assert min(one.version, other.version) > 0
    assert (record.commit(one.version), record.commit(0)) == (one, None)
    assert (one.rows, one.summary) == (1, {"a": "1"})


def test_a_record_is_read_as_it_was_written_and_anything_else_is_unknown() -> None:
    record = replace(EMPTY, before=commits(True), commits=commits(False), base_columns=(("id", "int"),), copied=True)
    assert Record.from_json(record.to_json()) == record
    for odd in ({"index": "i"}, {**record.to_json(), "columns": 7}, {**record.to_json(), "more": 1}):
        with pytest.raises(UnknownStateError, match="cannot be read"):
            Record.from_json(odd)


# ---- versions of documents (INV 22) ---------------------------------------------------------------------------------------------


def test_inv_22_an_event_wins_over_the_read_of_its_epoch_and_over_every_event_before_it() -> None:
    written = [
        versions.of_read(1),
        versions.of_event(1, 0),
        versions.of_event(1, 1),
        versions.of_event(1, versions.MOST_OFFSETS - 1),
        versions.of_read(2),
        versions.of_event(2, 0),
        versions.of_read(versions.MOST_EPOCHS - 1),
    ]
    assert written == sorted(set(written))
    assert versions.of_event(versions.MOST_EPOCHS - 1, versions.MOST_OFFSETS - 1) < 2**63


@pytest.mark.parametrize(
    ("epoch", "offset"),
    [(-1, 0), (versions.MOST_EPOCHS, 0), (0, -1), (0, versions.MOST_OFFSETS)],
)
def test_a_version_that_would_be_taken_for_another_epochs_is_refused(epoch: int, offset: int) -> None:
    with pytest.raises(SinkError, match="does not fit"):
        versions.of_event(epoch, offset)


def test_a_deleted_rows_document_is_removed_only_below_every_event_that_is_not_applied() -> None:
    """Its removal counts as one more version, which must be below them, too."""
    unread = versions.of_event(3, 10)
    below = versions.removable(3, 10)
    newest_removed = below - 1
    assert newest_removed + 1 < unread
    assert versions.of_event(3, 9) >= below > versions.of_event(3, 8)


@pytest.mark.parametrize(
    ("summary", "epoch"), [({}, 0), ({EPOCH: "4"}, 4), ({READ_EPOCH: "5"}, 5), ({EPOCH: "4", READ_EPOCH: "5"}, 4)]
)
def test_rows_belong_to_the_epoch_that_their_commit_names(summary: dict[str, str], epoch: int) -> None:
    assert versions.epoch_of(summary) == epoch


def test_tables_whose_names_differ_in_case_or_in_signs_have_indexes_of_their_own() -> None:
    names = [("shop", "Orders"), ("shop", "orders"), ("shop", "or_ders"), ("shop", "or-ders"), ("Shop", "orders")]
    prefixes = {prefix_of(*name) for name in names}
    assert len(prefixes) == len(names)
    assert all(prefix == prefix.lower() for prefix in prefixes)
    assert index_of("shop", "orders", "first") == f"{prefix_of('shop', 'orders')}first"
    assert len(index_of("s" * 200, "t" * 200, "first")) < 255
