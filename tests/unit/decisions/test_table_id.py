"""The ids of a table's storage: which changes of them may hide lost rows."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.decisions.table_id import is_rebuilt, table_id


@pytest.mark.parametrize(
    ("ids", "text"), [([], "ids:"), ([7], "ids:7"), ([8, 7, 11], "ids:7-8,11"), ([1, 2, 3, 5, 7, 8], "ids:1-3,5,7-8")]
)
def test_ids_are_written_as_ranges(ids: list[int], text: str) -> None:
    assert table_id(ids) == text


@pytest.mark.parametrize(
    ("before", "now", "rebuilt"),
    [
        ([7], [7], False),
        ([7], [8], True),
        ([7, 8], [7, 8, 9], False),  # ADD PARTITION
        ([7, 8], [9, 10], True),  # TRUNCATE TABLE of a partitioned table
        ([7, 8], [8, 9], True),  # TRUNCATE PARTITION
        ([7, 8], [8], True),  # DROP PARTITION
    ],
)
def test_inv_13_a_table_is_rebuilt_when_one_of_its_ids_is_gone(
    before: list[int], now: list[int], rebuilt: bool
) -> None:
    assert is_rebuilt(table_id(before), table_id(now)) is rebuilt


def test_what_is_not_known_shows_nothing() -> None:
    assert not is_rebuilt("", table_id([7]))
    assert not is_rebuilt(table_id([7]), None)


def test_ids_that_were_stamped_as_a_digest_are_compared_by_it() -> None:
    """What commits carried before ids were written out."""
    stamped = hashlib.sha256(b"1361,1362").hexdigest()[:16]
    assert not is_rebuilt(stamped, table_id([1361, 1362]))
    assert is_rebuilt(stamped, table_id([1361, 1363]))


def test_very_many_ids_take_no_long_text_and_any_change_of_them_counts() -> None:
    many = list(range(0, 4000, 2))
    assert len(table_id(many)) == 16
    assert not is_rebuilt(table_id(many), table_id(many))
    assert is_rebuilt(table_id(many), table_id([*many, 5000]))
    few = list(range(0, 20, 2))
    assert is_rebuilt(table_id(few), table_id(many))
    assert is_rebuilt(table_id(many), table_id(few))


@given(st.frozensets(st.integers(0, 60), min_size=1), st.frozensets(st.integers(0, 60), min_size=1))
def test_rebuilt_means_that_not_all_old_ids_are_among_the_new_ones(before: frozenset[int], now: frozenset[int]) -> None:
    assert is_rebuilt(table_id(before), table_id(now)) is not before.issubset(now)
