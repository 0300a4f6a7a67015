"""Which changes a read view holds, by the numbers of their transactions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.postgres.position import Lsn, PgPosition, read_position
from airflow_cdc.sources.postgres.visible import ORIGIN, Visible, covered

NOW = datetime(2026, 11, 23, tzinfo=UTC)
WRAP = 1 << 32


def taken(snapshot: str) -> Watermark:
    return Watermark(PgPosition(Lsn(500), 1, "77", snapshot), "77/1", NOW)


def test_a_view_shows_all_before_its_end_but_what_was_open() -> None:
    shown = covered(taken("795:799:795,797"))
    held = [n for n in range(790, 802) if shown.holds(ORIGIN, (n, 0, 0))]
    assert held == [790, 791, 792, 793, 794, 796, 798]


def test_where_in_the_log_a_change_stands_says_nothing() -> None:
    shown = covered(taken("795:799:795"))
    assert shown.holds(ORIGIN, (798, 10**12, 0))
    assert not shown.holds(ORIGIN, (795, 1, 0))


def test_a_position_that_does_not_say_covers_nothing() -> None:
    assert not covered(taken("")).holds(ORIGIN, (3, 0, 0))
    assert not covered(None).holds(ORIGIN, (3, 0, 0))


@pytest.mark.parametrize("end", [10, WRAP - 5, WRAP, WRAP + 6, WRAP + 10, 7 * WRAP + (1 << 31) + 2])
def test_events_name_a_transaction_by_its_last_32_bits(end: int) -> None:
    shown = covered(taken(f"{end - 2}:{end}:{end - 2}"))
    low = [(end - back) % WRAP for back in (1, 2, 0, 3)]
    assert [shown.holds(ORIGIN, (n, 0, 0)) for n in low] == [low[0] >= 3, False, False, low[3] >= 3]


@given(st.integers(4, 3 * WRAP), st.sets(st.integers(1, 60)))
def test_no_number_is_shown_that_is_open_or_later(end: int, back: set[int]) -> None:
    still_open = tuple(sorted(end - b for b in back if end - b >= 3))
    spans = list(Visible(end, still_open).spans())
    for xid in (*still_open, end, end + 1):
        assert not any(first <= xid % WRAP <= last for first, last in spans)
    for xid in range(max(3, end - 61), end):
        if xid not in still_open and xid % WRAP >= 3:
            assert any(first <= xid % WRAP <= last for first, last in spans)


def test_what_is_visible_is_kept_with_the_position() -> None:
    position = PgPosition(Lsn(500), 1, "77", "795:799:795,797")
    again = read_position(position.to_json())
    assert (again, again.snapshot) == (position, position.snapshot)


@pytest.mark.parametrize("text", ["795", "795:799", "a:b:", "795:799:795,"])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(PositionError, match="not a snapshot"):
        Visible.parse(text)
