"""Changes of a table without a key, netted: tests/integration/test_few_changes.py compares the whole with Spark's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.decisions.apply.applied import Highest, LastChange
from airflow_cdc.decisions.apply.net import net_images
from airflow_cdc.decisions.apply.plain import PlainChange

LOG = "1/binlog"


def change(n: int, op: str = "c", before: Any = None, after: Any = None, **place: Any) -> PlainChange:
    """A change of transaction `n`."""
    at = LastChange("uuid", (n, 10 * n, 0), LOG, 3, f"uuid:{n}", 1)
    rows = [None if value is None else (value,) for value in (before, after)]
    return PlainChange(0, n, op, (), rows[1], replace(at, **place), before=rows[0])


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
