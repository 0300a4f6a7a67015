"""How many keys of a table that is wholly wrong the driver holds: the rest is counted, and nothing is repaired by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.position import Covered, Watermark
from airflow_cdc.decisions.compare.changelog import Event, Tail
from airflow_cdc.decisions.compare.leaves import IntegerLeaves, Leaf, add_leaves, leaf_of, row_leaf
from airflow_cdc.decisions.compare.repair import RepairPlan, refusal
from airflow_cdc.decisions.compare.verdict import (
    UNKNOWN,
    UNPLACED,
    Change,
    Image,
    KeyEvidence,
    KeyLog,
    KeyVerdict,
    Tally,
)
from airflow_cdc.spark_apps.compare import flight, judge
from airflow_cdc.spark_apps.compare.scan import Outcome, Reached, Scanned, Subject
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
    monkeypatch.setattr("airflow_cdc.decisions.compare.verdict.KEYS_HELD", 2)
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


# --- views that say what they show -----------------------------------------------------------------------------------


def text(number: int) -> str:
    return f"{number:08x}" * 4


@dataclass(frozen=True, slots=True)
class View(Source):
    """A read view that shows the changes up to number `upto`."""

    upto: int = 0

    @property
    def position(self) -> int:
        return self.upto

    def images(self, keys: Iterable[str], _part: object = None) -> dict[str, list[tuple[str, ...]]]:
        return images(self.held, keys)


@dataclass(frozen=True, slots=True)
class Pinned(Sink):
    spark: None = None

    def images(self, _table: object, keys: Iterable[str], _part: object = None) -> dict[str, list[tuple[str, ...]]]:
        return images(self.held, keys)


def images(held: Mapping[int, str], keys: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    return {key: [(held[int(key)],)] for key in keys if int(key) in held}


class Log:
    def covered(self, position: int) -> Covered:
        return Covered(numbers={"wal": ((1, position),)})


def changed(offset: int, key: int, after: int | None) -> Event:
    """Change number `offset`, which a log sends that does not say what the row was before."""
    op = "u" if after is not None else "d"
    image = None if after is None else (text(after),)
    return Event(0, offset, op, "wal", (offset, offset, 0), ("wal", offset), None, str(key), None, image)


def with_log(source: View, sink: Pinned, ends: int) -> Scanned:
    """Compared at these ends, the view's log beginning at offset 0."""
    before = Reached(cast("Watermark", None), {})
    topic = cast("Any", SimpleNamespace(log=Log(), name="orders"))
    subject = Subject(ORDERS, cast("Any", sink), topic, {0: ends}, cast("Watermark", None), before=before)
    return Scanned(subject, cast("Any", source), SCHEME, source.digest(), sink.digest(), frozenset())


def test_inv_24_a_view_older_than_the_sink_is_compared_with_it_by_what_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keys 1 to 3 changed between view and sink (1 was not applied), 4 after both; 5 differs at rest, 6 is missing."""
    log = [changed(1, 1, 10), changed(2, 2, 20), changed(3, 3, None), changed(7, 4, 40)]
    monkeypatch.setattr(flight, "read_tail", lambda *_: Tail.of(log, {0: 0}))
    old = View({key: text(key) for key in range(1, 10)})
    kept = {key: text(key) for key in (4, 7, 8, 9)}
    sink = Pinned({**kept, 1: text(1), 2: text(20), 5: text(55)})
    judgement = judge.judge_keys(with_log(old, sink, ends=4), Reached(cast("Watermark", None), {}))
    outcome = judgement.outcome
    assert (outcome.in_flight, outcome.tally.samples) == (3, {"different": ["1", "5"], "missing": ["6"]})
    assert set(judgement.suspects) == {"2", "3"}  # nobody but the decoder has said yet what these rows are
    assert outcome.caveats == ()

    now = View({1: text(10), 2: text(20), 4: text(40)}, upto=7)
    judgement.read_again(cast("Any", now))
    judgement.decide(Reached(cast("Watermark", None), {}))
    assert not judgement.pending
    tally = outcome.tally
    assert (tally.equal, tally.different, tally.missing, tally.ghosts, tally.unsettled) == (2, 2, 1, 0, 0)
    # 3 is gone; 1 and 6 were there
    assert (outcome.source_rows, outcome.sink_rows) == (8, 7)


def test_inv_24_columns_outside_the_hash_that_changed_after_the_view_are_looked_at_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are read for all rows beside the view, later: there a change may have made a wrong row look right."""
    monkeypatch.setattr(flight, "read_tail", lambda *_: Tail.of([changed(7, 4, 40)], {0: 0}))
    monkeypatch.setattr(judge, "outside_hash", lambda _table: ("doc",))
    monkeypatch.setattr(View, "images", lambda _self, keys, _part=None: {key: [(text(4), "{}")] for key in keys})
    monkeypatch.setattr(Pinned, "images", lambda _self, _table, keys, _part=None: {k: [(text(4), "[]")] for k in keys})
    rows = {4: text(4)}
    judgement = judge.judge_keys(with_log(View(rows), Pinned(rows), ends=4), Reached(cast("Watermark", None), {}))
    assert judgement.outcome.tally.samples == {"different": ["4"]}


def test_inv_24_after_a_truncate_the_place_of_a_change_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [replace(changed(1, 1, None), op="t", key=None), changed(2, 2, 20)]
    monkeypatch.setattr(flight, "read_tail", lambda *_: Tail.of(log, {0: 0}))
    old = View({key: text(key) for key in range(1, 10)})
    judgement = judge.judge_keys(with_log(old, Pinned({2: text(20)}), ends=4), Reached(cast("Watermark", None), {}))
    assert judgement.placed is False
    assert judgement.outcome.tally.wrong == 0
    assert any("truncated" in said for said in judgement.outcome.caveats)


@pytest.mark.parametrize(
    ("shown", "ends", "expected"),
    [(0, 0, 0), (0, 2, -1), (1, 2, 0), (1, 0, 1), (3, 3, 0), (3, 0, 1), (0, 3, -1), (3, 2, 0)],
)
def test_inv_19_copies_are_counted_by_what_view_and_sink_each_hold(shown: int, ends: int, expected: int) -> None:
    """A row that came with change 1."""
    came: Image = (text(1),)
    events = [(came, 1, changed(1, 1, 1))]
    (count,) = judge._copies([came], [came], events, Log().covered(shown), {0: ends})
    assert count.since == expected


@pytest.mark.parametrize(("origin", "caveats"), [(None, (UNPLACED,)), ("u", ())])
def test_a_key_that_is_given_up_says_so_if_its_changes_have_no_place_in_the_log(
    origin: str | None, caveats: tuple[str, ...]
) -> None:
    """Case: a flattened row that changes all the time; nothing but its key stood in the message."""
    outcome = Outcome(scanned(Source({}), Sink({})).subject)
    log = KeyLog(UNKNOWN, None, (Change(UNKNOWN, ("r",), origin, (0, 0, 0), in_sink=False),))
    judgement = judge.KeyJudgement(outcome, suspects={"1": KeyEvidence(("s",), (("r",), ("q",)), log)})
    judgement.give_up()
    assert (outcome.tally.unsettled, outcome.caveats) == (1, caveats)
