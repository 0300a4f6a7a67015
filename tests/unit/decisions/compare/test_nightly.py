"""What is compared on which night: touched leaves at once, every leaf within a week, and all of it when in doubt."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicState
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves
from airflow_cdc.decisions.compare.nightly import SHARES, WHOLE_NIGHT, Checked, Seen, first_check, plan_night
from airflow_cdc.sources.mysql.encoding import ROWS
from tests.unit.tables import col

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
COLUMNS = (col("id", 1, "bigint", "bigint", nullable=False), col("v", 2, "int", "int"))
TABLE = Table("shop", "orders", COLUMNS, ("id",))
KEYLESS = Table("shop", "orders", COLUMNS)
KNOWN = Checked(
    scheme=IntegerLeaves("id", 10),
    low=0,
    high=20,
    rows=210,
    shares={str(share): NIGHT.isoformat() for share in range(SHARES)},
    topic_id="t",
    ends={"0": 5},
    fingerprint=TABLE.fingerprint,
    verdict="MATCH",
    at=NIGHT.isoformat(),
    run_id="r",
)
QUIET = Seen(touched=frozenset(), rows=210)


def test_survives_the_control_table() -> None:
    assert Checked.from_json(KNOWN.to_json()) == KNOWN
    hashed = replace(KNOWN, scheme=HashLeaves(21))
    assert Checked.from_json(hashed.to_json()) == hashed


@pytest.mark.parametrize(
    ("known", "seen", "table", "why"),
    [
        (None, QUIET, TABLE, "never compared"),
        (KNOWN, replace(QUIET, odd="a stranger"), TABLE, "a stranger"),
        (KNOWN, QUIET, KEYLESS, "no key"),
        (replace(KNOWN, fingerprint="x"), QUIET, TABLE, "definition has changed"),
        (replace(KNOWN, verdict="INCONCLUSIVE"), QUIET, TABLE, "last check was INCONCLUSIVE"),
        (KNOWN, replace(QUIET, touched=None), TABLE, "cannot say what was touched"),
        (replace(KNOWN, high=5), QUIET, TABLE, "small"),
        (KNOWN, replace(QUIET, rows=421), TABLE, "grown"),
    ],
)
def test_in_doubt_it_is_all_rows(known: Checked | None, seen: Seen, table: Table, why: str) -> None:
    plan = plan_night(table, known, seen, NIGHT + timedelta(days=1))
    assert (plan.whole, plan.shares) == (True, WHOLE_NIGHT)
    assert why in plan.why


def test_otherwise_it_is_what_was_touched_and_a_seventh() -> None:
    plan = plan_night(TABLE, KNOWN, replace(QUIET, touched=frozenset({7, 33})), NIGHT + timedelta(days=1))
    assert plan.shares == (0,)
    assert ROWS.part_where(TABLE, plan.part) == (
        "`id` BETWEEN -9 AND 29 OR `id` BETWEEN 70 AND 79 OR `id` BETWEEN 330 AND 339 OR `id` < -9"
    )
    assert plan.why == "2 touched leaves, and share 1 of 7"


def test_the_last_share_has_all_ids_beyond_the_end() -> None:
    known = replace(KNOWN, shares={**KNOWN.shares, "6": (NIGHT - timedelta(days=1)).isoformat()})
    plan = plan_night(TABLE, known, QUIET, NIGHT + timedelta(days=1))
    assert plan.shares == (6,)
    assert ROWS.part_where(TABLE, plan.part) == "`id` BETWEEN 180 AND 209 OR `id` > 209"


@given(st.lists(st.booleans(), min_size=8, max_size=40))
def test_every_share_is_seen_within_a_week_of_the_last_night_that_ran(ran: list[bool]) -> None:
    """Whatever nights are left out: on each night that runs, nothing stays unseen for more than a week."""
    known, now = KNOWN, NIGHT
    for runs in ran:
        now += timedelta(days=1)
        if not runs:
            continue
        plan = plan_night(TABLE, known, QUIET, now)
        known = replace(known, shares={**known.shares, **{str(share): now.isoformat() for share in plan.shares}})
        assert all(now - datetime.fromisoformat(when) < timedelta(days=7) for when in known.shares.values())


def test_quiet_weeks_take_one_share_a_night() -> None:
    known, seen = KNOWN, []
    for day in range(1, 15):
        plan = plan_night(TABLE, known, QUIET, NIGHT + timedelta(days=day))
        known = replace(
            known, shares={**known.shares, **{str(s): (NIGHT + timedelta(days=day)).isoformat() for s in plan.shares}}
        )
        seen.append(len(plan.shares))
    # those that were all due at once after the first, whole night are taken one by one before they are late
    assert sum(seen[:7]) == SHARES
    assert sum(seen[7:]) == SHARES


@given(st.integers(-50, 50), st.integers(6, 80), st.integers(-200, 200))
def test_every_leaf_has_one_share(low: int, more: int, leaf: int) -> None:
    known = replace(KNOWN, low=low, high=low + more)
    assert 0 <= known.share_of(leaf) < SHARES
    inside = [known.share_of(one) for one in range(low, low + more + 1)]
    assert inside == sorted(inside)
    assert {known.share_of(low), known.share_of(low + more)} == {0, SHARES - 1}
    assert all(b - a in (0, 1) for a, b in itertools.pairwise(inside))


@pytest.mark.parametrize(
    ("topic", "covers"),
    [
        (TopicState("n", "t", {0: (0, 9)}), True),
        (TopicState("n", "t", {0: (6, 9)}), False),
        (TopicState("n", "t", {0: (0, 4)}), False),
        (TopicState("n", "other", {0: (0, 9)}), False),
        (TopicState("n", "t", {0: (0, 9), 1: (0, 0)}), False),
    ],
)
def test_a_topic_that_lost_or_changed_something_says_nothing(topic: TopicState, covers: bool) -> None:
    assert KNOWN.covers(topic) is covers
    assert covers or not KNOWN.has_no_event_since(topic)


@pytest.mark.parametrize(("end", "quiet"), [(5, True), (6, False)])
def test_a_topic_that_ends_where_it_did_has_no_event_since(end: int, quiet: bool) -> None:
    assert KNOWN.has_no_event_since(TopicState("n", "t", {0: (0, end)})) is quiet


def test_leaves_are_cut_when_a_table_was_compared_whole() -> None:
    assert first_check(TABLE, 210, (-15, 214), 10) == (IntegerLeaves("id", 11), -1, 19)
    assert first_check(TABLE, 0, None, 10) == (HashLeaves(1), 0, 0)
