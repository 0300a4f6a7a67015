"""How many keys of a table that is wholly wrong the driver holds: the rest is counted, and nothing is repaired by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from airflow_cdc.core.compare.leaves import IntegerLeaves, Leaf, add_leaves, leaf_of, row_leaf
from airflow_cdc.core.compare.repair import RepairPlan, refusal
from airflow_cdc.core.compare.verdict import KeyVerdict, Tally
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.position import Watermark
from airflow_cdc.spark_apps.compare import judge
from airflow_cdc.spark_apps.compare.scan import Scanned, Subject
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))
SCHEME = IntegerLeaves("id", 10)


@dataclass(frozen=True, slots=True)
class Rows:
    """One side of a comparison, with its rows in memory: key → hash."""

    held: Mapping[int, str]

    def digest(self) -> dict[int, Leaf]:
        leaves: dict[int, Leaf] = {}
        for key, text in self.held.items():
            at = leaf_of(ORDERS, SCHEME, str(key))
            leaves[at] = add_leaves(leaves.get(at, Leaf(0, 0, 0)), row_leaf(text))
        return leaves

    def within(self, leaves: Sequence[int]) -> list[tuple[str, str]]:
        return [(str(key), text) for key, text in self.held.items() if leaf_of(ORDERS, SCHEME, str(key)) in leaves]


class Source(Rows):
    def hashes(self, _scheme: object, leaves: Sequence[int], _part: object) -> list[tuple[str, str]]:
        return self.within(leaves)


class Sink(Rows):
    def hashes(
        self, _table: object, _scheme: object, leaves: Sequence[int], _part: object = None
    ) -> list[tuple[str, str]]:
        return self.within(leaves)


def scanned(source: Rows, sink: Rows) -> Scanned:
    subject = Subject(ORDERS, cast("Any", sink), None, {}, cast("Watermark", None))
    return Scanned(subject, cast("Any", source), SCHEME, source.digest(), sink.digest(), frozenset())


def wholly_wrong() -> Scanned:
    """50 rows only in the source, 30 only in the sink, 70 different."""
    same = {key: f"{key:08x}" * 4 for key in range(70)}
    return scanned(
        Source({**same, **{key: f"{key:08x}" * 4 for key in range(100, 150)}}),
        Sink({**{key: f"{key + 1000:08x}" * 4 for key in same}, **{key: f"{key:08x}" * 4 for key in range(200, 230)}}),
    )


@pytest.mark.parametrize("held", [1, 40, 100, 150, 1000])
def test_inv_24_every_key_is_counted_and_no_more_than_so_many_are_held(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "KEYS_HELD", held)
    drilled = judge.drill_keys(made := wholly_wrong(), made.source, made.sink)
    assert len(drilled.keys) == min(held, 150)
    counted = {verdict: drilled.beyond.get(verdict, 0) for verdict in judge.WRONG}
    for verdict in drilled.keys.values():
        counted[verdict] += 1
    assert counted == {KeyVerdict.MISSING: 50, KeyVerdict.GHOST: 30, KeyVerdict.DIFFERENT: 70}
    assert drilled.unexplained == ()


def test_inv_24_of_a_table_without_a_key_the_rows_beyond_those_held_are_unsettled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is a MISMATCH by those that are proven wrong, and never a MATCH."""
    made = wholly_wrong()
    wanted = judge._drill_images(made, made.source, made.sink, ())
    assert (len(wanted.keys), wanted.beyond) == (220, {})
    monkeypatch.setattr(judge, "MAX_IMAGES", 20)
    monkeypatch.setattr("airflow_cdc.spark_apps.compare.scan.ROWS_AT_ONCE", 10)
    drilled = judge._drill_images(made, made.source, made.sink, ())
    assert len(drilled.keys) == 20
    assert drilled.beyond == {KeyVerdict.UNSETTLED: 140}  # of both sides the larger one


def test_inv_24_a_table_of_which_more_keys_differ_than_are_held_is_not_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_cdc.core.compare.verdict.KEYS_HELD", 2)
    tally = Tally()
    for number in range(3):
        tally.add(KeyVerdict.MISSING, str(number))
    tally.add(KeyVerdict.GHOST, "0")
    tally.count(KeyVerdict.DIFFERENT, 5)
    assert (tally.missing, tally.ghosts, tally.different) == (3, 1, 5)
    assert (len(tally.keys), tally.left_out) == (2, 6)
    plan = RepairPlan.of(ORDERS, tally, 100)
    assert "8 of its rows differ, too many" in refusal(Policy(approval="never"), plan, {})
    assert refusal(Policy(approval="never"), RepairPlan.of(ORDERS, Tally(), 100), {}) == ""
