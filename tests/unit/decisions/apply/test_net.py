"""Changes of a table without a key, netted: tests/integration/test_few_changes.py compares the whole with Spark's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.decisions.apply.applied import Highest, LastChange, PlainChange
from airflow_cdc.decisions.apply.net import net_images

LOG = "1/binlog"


def change(n: int, op: str = "c", before: Any = None, after: Any = None, **place: Any) -> PlainChange:
    """A change of transaction `n`."""
    at = LastChange("uuid", (n, 10 * n, 0), LOG, 3, f"uuid:{n}", 1)
    rows = [None if value is None else (value,) for value in (before, after)]
    return PlainChange(0, n, op, (), rows[1], at._replace(**place), before=rows[0])


def test_rows_are_counted_and_what_came_and_went_is_nothing() -> None:
    batch = [
        change(1, after="a"),
        change(2, after="a"),
        change(3, "u", "a", "b"),
        change(4, "d", "c"),
        change(5, after="e"),
        change(6, "d", "e"),
    ]
    net = net_images(batch, {})
    assert net is not None
    assert (net.rows(net.gained), net.rows(net.lost)) == ([("a",), ("b",)], [("c",)])
    assert (net.changes, net.high) == (6, {"uuid": Highest(6, 60, 0, LOG, 3)})


def test_a_change_that_is_sent_twice_counts_once_and_a_tombstone_not_at_all() -> None:
    batch = [change(1, after="a"), change(1, after="a"), PlainChange(0, 3, "tombstone", ())]
    net = net_images(batch, {})
    assert net is not None
    assert (net.rows(net.gained), net.changes) == ([("a",)], 1)


def test_values_that_are_equal_and_not_the_same_are_two_rows() -> None:
    net = net_images([change(1, after=0.0), change(2, after=-0.0)], {})
    assert net is not None
    assert list(map(repr, net.rows(net.gained))) == ["(0.0,)", "(-0.0,)"]


@pytest.mark.parametrize(
    "high",
    [
        Highest(2, 20, 0, LOG, 3),
        Highest(1, 10, 0, LOG, 3),
        Highest(1, 5, 0, LOG, 2),
        Highest(1, 5, 0, "2/binlog", 3),
    ],
)
def test_what_may_have_been_applied_is_not_decided(high: Highest) -> None:
    assert net_images([change(1, after="a")], {"uuid": high}) is None


@pytest.mark.parametrize("high", [Highest(0, 90, 0, LOG, 3), Highest(1, 10, -1, LOG, 3), Highest(1, 9, 5, LOG, 3)])
def test_what_is_after_all_that_was_applied_is_new(high: Highest) -> None:
    assert net_images([change(1, after="a")], {"uuid": high}) is not None


def test_another_log_without_gtids_is_not_decided() -> None:
    """INV 19: its places say nothing beside those of the log that was applied."""
    batch = [change(1, after="a", origin="2/binlog", log="2/binlog", transaction=None)]
    assert net_images(batch, {LOG: Highest(3, 10, 0, LOG, 3)}) is None
    assert net_images(batch, {"uuid": Highest(3, 10, 0, LOG, 3)}) is not None


@pytest.mark.parametrize(
    "other",
    [
        {"origin": "another server"},
        {"place": (1, 10, 1)},
        {"log": "2/binlog"},
        {"log_n": 4},
        {"transaction": "uuid:9"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_changes_that_differ_in_any_part_of_where_they_happened_are_two(other: dict[str, Any]) -> None:
    """A change of the row to the same value again would be left out, and the count of its copies be one too few."""
    net = net_images([change(1, after="a"), change(1, after="a", **other)], {})
    assert net is not None
    assert (net.rows(net.gained), net.changes) == ([("a",), ("a",)], 2)


def test_an_update_of_a_key_that_came_as_a_delete_and_a_create_is_two_changes() -> None:
    """Debezium sends both at the place of the update."""
    net = net_images([change(1, "d", before="a"), change(1, "c", after="b")], {})
    assert net is not None
    assert (net.rows(net.gained), net.rows(net.lost)) == ([("b",)], [("a",)])


def test_a_place_is_compared_by_its_file_or_transaction_first() -> None:
    """Each file's offsets begin anew, and so do a transaction's rows."""
    later = change(2, after="a", place=(2, 5, 1))
    assert net_images([later], {"uuid": Highest(1, 90, 0, LOG, 3)}) is not None
    earlier = change(1, after="a", place=(1, 90, 2))
    assert net_images([earlier], {"uuid": Highest(2, 5, 0, LOG, 3)}) is None


def test_the_first_batch_of_all_comes_from_no_other_log() -> None:
    """Nothing was applied that could be out of order with it."""
    batch = [change(1, after="a", origin=LOG, log=LOG, transaction=None)]
    assert net_images(batch, {}) is not None


def test_a_log_is_known_by_what_was_applied_from_it() -> None:
    batch = [change(4, after="a", origin=LOG, log=LOG, transaction=None)]
    assert net_images(batch, {LOG: Highest(3, 10, 0, LOG, 3)}) is not None


def test_of_several_changes_of_one_origin_the_highest_is_kept_for_the_next_batch() -> None:
    """A topic of several partitions has them in no order."""
    net = net_images([change(7, after="a"), change(3, after="b")], {})
    assert net is not None
    assert net.high == {"uuid": Highest(7, 70, 0, LOG, 3)}
