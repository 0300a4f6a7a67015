"""Whole comparisons of a source and a sink in memory: what is equal, what is wrong, and what changes while they are read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.changelog import Tail
from airflow_cdc.decisions.compare.leaves import IntegerLeaves
from airflow_cdc.decisions.compare.part import WHOLE, Part, leaves_part
from airflow_cdc.spark_apps.compare import at_rest, flight, judge, scan
from airflow_cdc.spark_apps.compare.at_rest import Sides, compare_at_rest
from airflow_cdc.spark_apps.compare.scan import Outcome, Reached, Subject, compare_tables
from tests.unit.spark_apps.compare.in_memory import Held, Row, Sink, Source
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))
BAG = table(column("kind", "varchar(9)", charset="utf8mb4"))
NOWHERE: Any = None


def order(number: int, qty: int | None = 1) -> Row:
    return {"id": number, "qty": qty}


def orders(*numbers: int) -> list[Row]:
    return [order(number) for number in numbers]


def bag(text: str) -> list[Row]:
    return [{"kind": letter} for letter in text]


@pytest.fixture(autouse=True)
def events_of_the_log(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """What a topic holds is what its source's log says; sources name themselves here."""
    sources: list[Source] = []

    def read_tail(_spark: object, _topic: object, ranges: Any, _position: object) -> Tail:
        first, end = ranges[0]
        return Tail.of(sources[-1].events[:end], {0: first})

    monkeypatch.setattr(flight, "read_tail", read_tail)
    monkeypatch.setattr(judge, "read_tail", read_tail)
    return sources


class Comparison:
    """One table compared; `ends`: of the topic, as far as the sink holds it."""

    def __init__(self, of: Table, source: list[Row], sink: list[Row], *, exact: bool = False) -> None:
        self.source = Source(of, list(source), exact_views=exact)
        self.sink, self.of = sink, of
        self.positions = list[int]()

    def reach(self) -> Reached:
        self.positions.append(len(self.source.events))
        return Reached(cast("Any", len(self.source.events)), {"orders": self.source.end})

    def outcome(self, sources: list[Source], part: Part = WHOLE, *, older: bool = False) -> Outcome:
        """`older`: the view is older than the ends."""
        sources.append(self.source)
        ends, before = self.source.end, Reached(NOWHERE, {}) if older else None
        held = Sink(Held(self.of, tuple(self.sink)))
        subject = Subject(
            self.of, cast("Any", held), self.source.topic, ends, NOWHERE, len(self.sink), part=part, before=before
        )
        (found,) = compare_tables(
            cast("Any", self.source), [subject], judge.judge, self.reach, watermark=NOWHERE, start=self.reach()
        )
        return found


def on_view(number: int, action: Callable[[], object]) -> Callable[[int], None]:
    """Does something before the view of this number, counted from 0, is opened."""

    def meanwhile(opened: int) -> None:
        if opened == number:
            action()

    return meanwhile


def counts(outcome: Outcome) -> tuple[int, int, int, int]:
    """Missing, ghosts, different, unsettled."""
    tally = outcome.tally
    return tally.missing, tally.ghosts, tally.different, tally.unsettled


def test_equal_tables_match_at_once(events_of_the_log: list[Source]) -> None:
    one = Comparison(ORDERS, orders(*range(60)), orders(*range(60)))
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, outcome.source_rows, outcome.sink_rows) == (Verdict.MATCH, 60, 60)
    assert outcome.equal_by_digests
    assert (outcome.leaves_rechecked, set(outcome.leaf_map), one.source.opened) == (0, {"="}, 1)
    assert one.source.visible == [0]  # the view had to show what the sink may hold


def test_inv_24_rows_that_differ_at_rest_are_told_only_after_a_second_view(events_of_the_log: list[Source]) -> None:
    one = Comparison(ORDERS, [*orders(1, 2, 3), order(4, 7)], [*orders(1, 2, 9), order(4, 8)])
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, counts(outcome)) == (Verdict.MISMATCH, (1, 1, 1, 0))
    assert outcome.tally.samples == {"missing": ["3"], "ghosts": ["9"], "different": ["4"]}
    assert (outcome.source_rows, outcome.sink_rows, one.source.opened) == (4, 4, 2)
    assert not outcome.equal_by_digests
    assert len(one.positions) == 3  # the beginning, after the first view, after the second


def test_a_row_that_was_logged_a_moment_before_it_was_shown_is_equal_in_the_second_view(
    events_of_the_log: list[Source],
) -> None:
    """INV 7: the sink has it already, and the first view does not show it yet."""
    one = Comparison(ORDERS, orders(1), orders(1, 2))
    one.source.meanwhile = on_view(1, lambda: one.source.rows.append(order(2)))
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, outcome.source_rows) == (Verdict.MATCH, 2)
    assert (outcome.tally.equal, outcome.equal_by_digests) == (1, False)


@pytest.mark.parametrize(("sink", "verdict"), [(1, Verdict.MATCH), (5, Verdict.MISMATCH)])
def test_inv_24_a_row_that_changed_meanwhile_is_judged_by_what_it_was_before(
    events_of_the_log: list[Source], sink: int, verdict: Verdict
) -> None:
    one = Comparison(ORDERS, orders(1, 2), [order(1, sink), order(2)])
    one.source.meanwhile = on_view(0, lambda: one.source.change(order(1), order(1, 9)))
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, outcome.in_flight, outcome.source_rows) == (verdict, 1, 2)


def test_rows_that_come_and_go_meanwhile_are_counted_as_they_were_at_the_ends(events_of_the_log: list[Source]) -> None:
    one = Comparison(ORDERS, orders(1, 2, 3), orders(1, 2, 3))

    def busy() -> None:
        one.source.change(order(1), None)
        one.source.change(None, order(7))

    one.source.meanwhile = on_view(0, busy)
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, outcome.in_flight, outcome.source_rows, outcome.sink_rows) == (Verdict.MATCH, 2, 3, 3)


def test_inv_28_a_row_that_is_none_of_what_its_changes_say_is_decoded_wrongly(events_of_the_log: list[Source]) -> None:
    """The sink was written by what the events say, so they alone prove nothing."""
    one = Comparison(ORDERS, orders(1, 2), orders(1, 2))

    def wrongly() -> None:
        one.source.change(order(1), order(1, 9))
        one.source.rows.remove(order(1, 9))
        one.source.rows.append(order(1, 77))

    one.source.meanwhile = on_view(0, wrongly)
    outcome = one.outcome(events_of_the_log)
    assert outcome.tally.samples["different"] == ["1"]
    assert any("none of those that their own changes" in said for said in outcome.caveats)


def test_a_key_that_never_rests_is_unsettled_after_so_many_rounds(events_of_the_log: list[Source]) -> None:
    """It differs in the sink, without an event that would say what it was."""
    one, turn = Comparison(ORDERS, [order(1, 0), order(2)], [order(1, -5), order(2)]), iter(range(1, 1_000))

    def unlogged() -> None:
        one.source.rows[0] = order(1, next(turn))

    one.source.meanwhile = lambda _opened: unlogged()
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, counts(outcome), outcome.source_rows) == (Verdict.INCONCLUSIVE, (0, 0, 0, 1), 2)
    assert one.source.opened == 1 + scan.ROUNDS


def test_inv_34_two_rows_of_the_sink_under_one_key_are_a_ghost(events_of_the_log: list[Source]) -> None:
    outcome = Comparison(ORDERS, orders(1, 2), [*orders(1, 2), order(2, 5)]).outcome(events_of_the_log)
    assert (outcome.verdict, counts(outcome)) == (Verdict.MISMATCH, (0, 1, 0, 0))
    assert (outcome.source_rows, outcome.sink_rows) == (2, 3)


def test_only_a_part_is_compared_and_the_counts_are_of_the_whole(events_of_the_log: list[Source]) -> None:
    """Row 25 is missing outside of the part: it is not looked for, and the counts show it."""
    source, sink = orders(*range(30)), [*orders(*range(25)), *orders(26, 27, 28, 29)]
    part = leaves_part(IntegerLeaves("id", 10), [0])
    outcome = Comparison(ORDERS, source, [order(3, 9) if row["id"] == 3 else row for row in sink]).outcome(
        events_of_the_log, part
    )
    assert (counts(outcome), outcome.source_rows, outcome.sink_rows) == ((0, 0, 1, 0), 30, 29)
    assert outcome.elsewhere
    assert (outcome.rows.source, outcome.rows.sink) == (29, 29)
    whole = Comparison(ORDERS, source, source).outcome(events_of_the_log, part)
    assert (whole.verdict, whole.elsewhere, whole.leaves) == (Verdict.MATCH, False, 1)


def test_a_change_outside_of_the_part_is_no_matter_of_it(events_of_the_log: list[Source]) -> None:
    one = Comparison(ORDERS, orders(1, 15, 16), orders(1, 15, 16))

    def busy() -> None:
        one.source.change(order(15), None)
        one.source.change(order(1), order(1, 9))

    one.source.meanwhile = on_view(0, busy)
    outcome = one.outcome(events_of_the_log, leaves_part(IntegerLeaves("id", 10), [0]))
    assert (outcome.verdict, counts(outcome), outcome.source_rows) == (Verdict.MATCH, (0, 0, 0, 0), 3)
    assert not outcome.elsewhere


def test_a_view_that_says_what_it_shows_may_be_older_than_the_sink(events_of_the_log: list[Source]) -> None:
    """Two changes were applied after it was opened: the source's rows as it shows them, and those changes, say the rest."""
    one = Comparison(ORDERS, orders(1, 2, 3), [order(1, 9), order(2)], exact=True)
    one.source.change(order(1), order(1, 9))
    one.source.change(order(3), None)
    one.source.older = [0]
    outcome = one.outcome(events_of_the_log, older=True)
    assert (outcome.verdict, counts(outcome)) == (Verdict.MATCH, (0, 0, 0, 0))
    assert (outcome.source_rows, outcome.sink_rows, outcome.in_flight) == (2, 2, 2)


# ---- without a key ------------------------------------------------------------------------------------------------------------


def test_copies_without_a_key_are_counted(events_of_the_log: list[Source]) -> None:
    outcome = Comparison(BAG, bag("aabbbc"), bag("aabbbc"), exact=True).outcome(events_of_the_log)
    assert (outcome.verdict, outcome.source_rows, outcome.sink_rows) == (Verdict.MATCH, 6, 6)
    wrong = Comparison(BAG, bag("aabbbc"), bag("abbbbbd"), exact=True)
    outcome = wrong.outcome(events_of_the_log)
    assert (outcome.verdict, counts(outcome)) == (Verdict.MISMATCH, (2, 3, 0, 0))
    assert (outcome.source_rows, outcome.sink_rows, wrong.source.opened) == (6, 7, 2)


def test_copies_that_come_meanwhile_belong_to_no_side(events_of_the_log: list[Source]) -> None:
    one = Comparison(BAG, bag("aab"), bag("aab"), exact=True)

    def busy() -> None:
        one.source.change(None, {"kind": "a"})
        one.source.change({"kind": "b"}, None)

    one.source.meanwhile = on_view(0, busy)
    outcome = one.outcome(events_of_the_log)
    assert (outcome.verdict, outcome.source_rows, outcome.sink_rows, outcome.in_flight) == (Verdict.MATCH, 3, 3, 2)


def test_a_table_without_a_key_that_changes_too_often_is_not_judged(
    events_of_the_log: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "MAX_CHANGES", 2)
    one = Comparison(BAG, bag("aab"), bag("aab"), exact=True)

    def busy() -> None:
        for _ in range(3):
            one.source.change(None, {"kind": "a"})

    one.source.meanwhile = on_view(0, busy)
    outcome = one.outcome(events_of_the_log)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "3 events came while the table, which has no key, was compared" in outcome.caveats[0]
    assert (outcome.source_rows, outcome.sink_rows) == (6, 3)


# ---- as readers see it, without events ------------------------------------------------------------------------------------------


def at_rest_of(one: Comparison) -> Outcome:
    """Compared with a sink that others write."""
    sides = Sides(
        cast("Any", one.source),
        NOWHERE,
        lambda: cast("Any", one.reach().position),
        lambda of: nullcontext(held(one, of)),
    )
    (found,) = compare_at_rest(sides, [one.of])
    return found


def held(one: Comparison, of: Table) -> Any:
    return Sink(Held(of, tuple(one.sink)))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_rest, "LOOK_SECONDS", 0.001)


@pytest.mark.usefixtures("quick")
def test_a_table_that_others_write_matches_at_once() -> None:
    outcome = at_rest_of(Comparison(ORDERS, orders(0, 1, 2), orders(0, 1, 2)))
    assert (outcome.verdict, outcome.source_rows, outcome.sink_rows, outcome.leaves) == (Verdict.MATCH, 3, 3, 1)


@pytest.mark.usefixtures("quick")
def test_what_differs_there_in_three_rounds_is_wrong() -> None:
    outcome = at_rest_of(Comparison(ORDERS, [*orders(1, 2), order(3, 7)], [*orders(1, 9), order(3, 8)]))
    assert (outcome.verdict, counts(outcome)) == (Verdict.MISMATCH, (1, 1, 1, 0))
    assert (outcome.source_rows, outcome.sink_rows) == (3, 3)


@pytest.mark.usefixtures("quick")
def test_a_sink_that_follows_a_moment_later_is_equal() -> None:
    """A row that was deleted at the source, and is still in the sink in the first two looks at it."""
    one = Comparison(ORDERS, orders(1), orders(1, 4))

    def follows() -> None:
        if len(one.positions) == at_rest.WRONG_ROUNDS:
            one.sink = orders(1)

    one.source.meanwhile = lambda _opened: follows()
    outcome = at_rest_of(one)
    assert (outcome.verdict, outcome.tally.equal) == (Verdict.MATCH, 1)


@pytest.mark.usefixtures("quick")
def test_inv_24_of_more_keys_than_are_read_again_the_rest_is_unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_rest, "MOST_KEYS", 4)
    outcome = at_rest_of(Comparison(ORDERS, orders(*range(10)), []))
    assert (counts(outcome), outcome.tally.left_out) == ((4, 0, 0, 6), 6)


@pytest.mark.usefixtures("quick")
def test_a_source_that_cannot_be_looked_at_any_more_ends_the_comparison() -> None:
    one = Comparison(ORDERS, orders(1), orders(2))

    def lost() -> None:
        if one.source.opened >= 3:
            raise ConnectionError("gone")

    one.source.meanwhile = lambda _opened: lost()
    with pytest.raises(ConnectionError, match="gone"):
        at_rest_of(one)
