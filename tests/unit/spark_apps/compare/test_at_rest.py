"""Keys of a table that the connector writes itself, judged by what the source showed while the sink was read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.verdict import KeyVerdict
from airflow_cdc.spark_apps.compare.at_rest import WRONG_ROUNDS, Copies, Open, judged
from airflow_cdc.spark_apps.compare.scan import Outcome, Subject
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))
NONE: Copies = ()
A: Copies = (("a",),)
B: Copies = (("b",),)
C: Copies = (("c",),)


@pytest.mark.parametrize(
    ("looks", "sink", "expected"),
    [
        ({A}, A, KeyVerdict.EQUAL),
        ({NONE}, NONE, KeyVerdict.EQUAL),
        ({A, B}, A, KeyVerdict.EQUAL),
        ({A, B}, B, KeyVerdict.EQUAL),
        ({A, NONE}, NONE, KeyVerdict.EQUAL),
        ({A, B}, C, KeyVerdict.UNSETTLED),
        ({A, B}, NONE, KeyVerdict.UNSETTLED),
        ({A}, B, KeyVerdict.DIFFERENT),
        ({A}, NONE, KeyVerdict.MISSING),
        ({NONE}, A, KeyVerdict.GHOST),
        ({A}, (*A, *A), KeyVerdict.GHOST),
        ({A}, (*A, *B), KeyVerdict.GHOST),
    ],
)
def test_a_key_by_what_was_seen_of_it(looks: set[Copies], sink: Copies, expected: KeyVerdict) -> None:
    assert judged(looks, sink) is expected


def opened(*keys: str) -> Open:
    return Open(Outcome(Subject(ORDERS, cast("Any", None), None, {}, cast("Any", None))), set(keys))


def test_a_row_that_stays_different_is_wrong_only_after_several_rounds() -> None:
    state = opened("1")
    for _ in range(WRONG_ROUNDS - 1):
        state.decide({"1": {A}}, {"1": list(B)})
        assert state.keys == {"1"}
    state.decide({"1": {A}}, {"1": list(B)})
    assert (state.keys, state.outcome.tally.different, state.outcome.verdict) == (set(), 1, Verdict.MISMATCH)


def test_rounds_in_which_a_row_changes_begin_the_count_anew() -> None:
    state = opened("1")
    for looks in ({A}, {A}, {A, C}, {A}, {A}):
        state.decide({"1": looks}, {"1": list(B)})
    assert state.keys == {"1"}


def test_the_source_has_the_rows_that_the_sink_should_have() -> None:
    state = opened("1", "2", "3")
    state.outcome.sink_rows = 10
    for _ in range(WRONG_ROUNDS):
        state.decide({"1": {A, B}, "2": {A}, "3": {A}}, {"1": list(B)})
    state.give_up()
    assert (state.outcome.tally.missing, state.outcome.source_rows, state.outcome.tally.equal) == (2, 12, 1)


def test_rows_that_came_to_rest_match() -> None:
    state = opened("1", "2")
    state.outcome.sink_rows = 10
    state.decide({"1": {A, B}, "2": {NONE}}, {"1": list(B)})
    state.give_up()
    assert (state.outcome.source_rows, state.outcome.verdict) == (10, Verdict.MATCH)


def test_a_row_that_never_rests_proves_nothing() -> None:
    state = opened("1")
    state.decide({"1": {A, B}}, {"1": list(C)})
    state.give_up()
    assert state.outcome.verdict is Verdict.INCONCLUSIVE


def test_a_copy_too_many_is_a_mismatch() -> None:
    state = opened("1")
    for _ in range(WRONG_ROUNDS):
        state.decide({"1": {A}}, {"1": [*A, *A]})
    assert (state.outcome.tally.ghosts, state.outcome.verdict) == (1, Verdict.MISMATCH)
