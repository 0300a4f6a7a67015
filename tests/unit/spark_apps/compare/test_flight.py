"""A driver reads keys in flight in one pass, holds 8 bytes for each that was taken out, and no more suspects than are settled one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves
from airflow_cdc.decisions.compare.verdict import KeyEvidence
from airflow_cdc.spark_apps.compare.flight import InParts, TakenOut
from airflow_cdc.spark_apps.compare.judge import KeyJudgement
from airflow_cdc.spark_apps.compare.scan import Outcome
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("qty", "int"), key=("id",))


def test_inv_24_keys_that_were_taken_out_are_known_by_their_leaves() -> None:
    for scheme in (IntegerLeaves("id", 10), HashLeaves(3)):
        taken = TakenOut(ORDERS, scheme)
        taken.add([str(key) for key in range(0, 100, 2)])
        taken.add(["1000000000"])
        assert taken.count == 51
        assert taken.left([str(key) for key in range(20)]) == [str(key) for key in range(1, 20, 2)]
        assert taken.left(["1000000000", "1000000001"]) == ["1000000001"]
    taken = TakenOut(ORDERS, IntegerLeaves("id", 10))
    taken.add(["7", "17"])
    flies = taken.within([0])
    assert flies("7")
    assert not flies("17")  # of another leaf: no row of these leaves has it


def test_inv_24_keys_beyond_those_that_are_settled_one_by_one_stay_unsettled() -> None:
    judgement = KeyJudgement(Outcome(cast("Any", None)))
    judgement.suspects = {str(key): KeyEvidence(("a",), (("b",),)) for key in range(5)}
    judgement.give_up(after=2)
    assert list(judgement.suspects) == ["0", "1"]
    assert (judgement.outcome.tally.unsettled, judgement.outcome.source_rows) == (3, 3)
    judgement.give_up()
    assert not judgement.pending
    assert judgement.outcome.tally.unsettled == 5


class Frame:
    """Rows in Spark's order of partitions; counts how often all are read."""

    def __init__(self, *parts: int | None) -> None:
        self.rows, self.passes = [(number, part) for number, part in enumerate(parts)], 0

    def toLocalIterator(self) -> Iterator[Sequence[Any]]:
        self.passes += 1
        yield from self.rows


def test_inv_24_parts_in_order_cost_one_pass() -> None:
    frame = Frame(0, 0, None, 2, None, 3)
    parts = InParts(cast("Any", frame), -1)
    read = [[number for number, _ in parts.of(part)] for part in range(5) for _ in range(2)]
    assert read == [[0, 1], [0, 1], [], [], [3], [3], [5], [5], [], []]
    assert frame.passes == 1
    assert [parts.of(part) for part in (0, 2, 0)] == [[(0, 0), (1, 0)], [(3, 2)], [(0, 0), (1, 0)]]
    assert frame.passes == 3, "a part before the last one needs a new pass"


def test_inv_24_a_part_that_comes_twice_is_no_part() -> None:
    """The events of one part would be judged without those that come later."""
    parts = InParts(cast("Any", Frame(0, 1, 0)), -1)
    with pytest.raises(RuntimeError, match="part 0 of the events in flight follows part 1"):
        parts.of(2)
