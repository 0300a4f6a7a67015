"""INV 36: how many rows a recovery may remove unasked. Unknown does not mean few."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import BackfillSpec
from airflow_cdc.decisions.compare.part import interval_part
from airflow_cdc.decisions.removal import Removal, allows_all, over_limit, refusals
from tests.unit.tables import column, table

ONE, ALL, TEN = Limit.parse("1%"), Limit.parse("100%"), Limit.parse("10")


def test_what_the_verification_counted_decides_and_not_what_was_planned() -> None:
    assert Removal("t", 100, 99).beyond(ONE) == ""
    assert Removal("t", 100, 98).beyond(ONE) == "2 of 100 rows of t would be removed, more than max_deletes 1%"
    assert Removal("t", 100, 200).beyond(ONE) == ""


def test_rows_that_a_person_agreed_to_remove_are_not_counted_again() -> None:
    assert Removal("t", 100, 50, agreed=50).beyond(ONE) == ""
    assert Removal("t", 100, 50, agreed=49).beyond(ONE) == ""
    assert Removal("t", 100, 50, agreed=48).beyond(ONE).endswith("more than max_deletes 1%; 48 were approved")


@pytest.mark.parametrize(("rows", "proven"), [(None, 5), (5, None), (None, None)])
def test_a_number_that_is_not_known_is_beyond_any_limit_but_all(rows: int | None, proven: int | None) -> None:
    for limit in (ONE, TEN, Limit.parse("99%")):
        assert Removal("t", rows, proven).beyond(limit) == "it is unknown how many rows of t would be removed"
    assert Removal("t", rows, proven).beyond(ALL) == ""


def test_only_the_whole_share_allows_everything() -> None:
    assert [allows_all(limit) for limit in (ALL, Limit.parse("99.9%"), Limit.parse("100"), ONE)] == [
        True,
        False,
        False,
        False,
    ]


def test_each_table_that_must_not_be_published_is_named_with_its_reason() -> None:
    found = refusals(TEN, [Removal("a", 100, 90), Removal("b", 100, 89), Removal("c", None, 1)])
    assert found == {
        "b": "11 of 100 rows of b would be removed, more than max_deletes 10",
        "c": "it is unknown how many rows of c would be removed",
    }


def test_a_plan_says_of_which_tables_it_removes_too_many_and_of_which_nobody_knows() -> None:
    said = over_limit(ONE, {"a": 50, "b": None, "c": 0, "d": 7}, {"a": 100, "b": 100, "c": 100})
    assert said == ("It removes more than 1% of a (50 rows), d (7 rows). It is unknown how many rows it removes of b.")
    assert over_limit(ONE, {"a": 1}, {"a": 100}) == ""
    assert over_limit(ALL, {"a": 50, "b": None}, {}) == ""


@given(st.integers(0, 1_000), st.integers(0, 1_000), st.integers(0, 1_000), st.integers(0, 100))
def test_to_agree_to_more_never_forbids_what_was_allowed(rows: int, proven: int, agreed: int, percent: int) -> None:
    limit = Limit(percent, percent=True)
    if not Removal("t", rows, proven, agreed).beyond(limit):
        assert not Removal("t", rows, proven, agreed + 1).beyond(limit)
        assert not Removal("t", rows, proven + 1, agreed).beyond(limit)


@pytest.mark.parametrize("form", ["%Y'", "%Y\\", "\\", "%Yé", "'; DROP TABLE t; --"])
def test_inv_45_a_value_that_an_engine_could_read_as_more_than_a_value_is_refused(form: str) -> None:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    days = table(column("id", "bigint", nullable=False), column("day", "varchar(20)", char_length=20), key=("id",))
    with pytest.raises(ConfigError, match="is not a plain value"):
        interval_part(days, BackfillSpec("shop.t", "day", format=form), when, when + dt.timedelta(days=1))
