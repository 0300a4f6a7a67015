"""What a comparison means: every rule of decisions/compare/verdict.py, and against a brute-force model of a changing source."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.position import Covered
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, Leaf, leaf_of, merge_leaves, row_leaf
from airflow_cdc.decisions.compare.verdict import (
    SAMPLE_KEYS,
    UNKNOWN,
    Change,
    Image,
    ImageCount,
    KeyEvidence,
    KeyLog,
    KeyVerdict,
    RowCounts,
    State,
    Tally,
    classify_count,
    classify_key,
    compare_images,
    count_caveats,
    rows_held,
    table_verdict,
    without,
)
from tests.unit.tables import col

A: Image = ("a",)
B: Image = ("b",)


@pytest.mark.parametrize(
    ("source", "sink", "verdict"),
    [
        (None, None, KeyVerdict.EQUAL),
        (A, A, KeyVerdict.EQUAL),
        (A, None, KeyVerdict.MISSING),
        (None, A, KeyVerdict.GHOST),
        (A, B, KeyVerdict.DIFFERENT),
        (("a", "{}"), ("a", '{"x":1}'), KeyVerdict.DIFFERENT),
    ],
)
def test_two_images_are_told_apart(source: Image | None, sink: Image | None, verdict: KeyVerdict) -> None:
    assert compare_images(source, sink) is verdict


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        # in flight: the source has moved on, and the log says what it held at the compared ends
        (KeyEvidence(A, (B,), KeyLog(A)), KeyVerdict.EQUAL),
        (KeyEvidence(None, (B,), KeyLog(None)), KeyVerdict.EQUAL),
        (KeyEvidence(A, (None,), KeyLog(A)), KeyVerdict.EQUAL),
        # in flight, and the sink was wrong before that: a value that came back must not hide it
        (KeyEvidence(A, (A,), KeyLog(B)), KeyVerdict.DIFFERENT),
        (KeyEvidence(None, (B,), KeyLog(B)), KeyVerdict.MISSING),
        (KeyEvidence(A, (B,), KeyLog(None)), KeyVerdict.GHOST),
        # no event: one read is not enough, since a change is logged before it is visible
        (KeyEvidence(A, (B,)), KeyVerdict.UNSETTLED),
        (KeyEvidence(A, (B, A)), KeyVerdict.EQUAL),
        (KeyEvidence(A, (B, B)), KeyVerdict.DIFFERENT),
        (KeyEvidence(A, (None, None)), KeyVerdict.GHOST),
        (KeyEvidence(None, (B, B)), KeyVerdict.MISSING),
        (KeyEvidence(A, (B, None)), KeyVerdict.UNSETTLED),
        (KeyEvidence(A, (B, None, None)), KeyVerdict.GHOST),
        (KeyEvidence(A), KeyVerdict.UNSETTLED),
    ],
)
def test_inv_24_one_key_is_classified_by_its_evidence(evidence: KeyEvidence, verdict: KeyVerdict) -> None:
    assert classify_key(evidence) is verdict


STRANGE_LOG = KeyLog(A, frozenset({A, B}))
C: Image = ("c",)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        # the source's own row is one of those that the events pass through
        (KeyEvidence(A, (A,), STRANGE_LOG), KeyVerdict.EQUAL),
        (KeyEvidence(A, (B,), STRANGE_LOG), KeyVerdict.EQUAL),
        # it is none of them: read again, as the first view may be older than the compared ends
        (KeyEvidence(A, (C,), STRANGE_LOG), KeyVerdict.UNSETTLED),
        (KeyEvidence(A, (C, B), STRANGE_LOG), KeyVerdict.EQUAL),
        (KeyEvidence(A, (B, C), STRANGE_LOG), KeyVerdict.UNSETTLED),
        (KeyEvidence(A, (C, C), STRANGE_LOG), KeyVerdict.DIFFERENT),
        (KeyEvidence(A, (None, C), STRANGE_LOG), KeyVerdict.DIFFERENT),
        (KeyEvidence(A, (None, None), STRANGE_LOG), KeyVerdict.DIFFERENT),
        (KeyEvidence(None, (None,), KeyLog(None, frozenset({None, A}))), KeyVerdict.EQUAL),
        # the events alone say that it differs
        (KeyEvidence(B, (C,), STRANGE_LOG), KeyVerdict.DIFFERENT),
        # records that may hide an image prove nothing
        (KeyEvidence(A, (C, C), KeyLog(A, None)), KeyVerdict.EQUAL),
    ],
)
def test_inv_28_the_sources_own_row_is_a_witness(evidence: KeyEvidence, verdict: KeyVerdict) -> None:
    assert classify_key(evidence) is verdict


@pytest.mark.parametrize(
    ("sink", "reads", "images"),
    [
        # whatever the source shows and whatever the sink holds, nothing says what it should hold
        (A, (A,), {B}),
        (A, (B,), {B}),
        (B, (B, B), {B}),
        (None, (B,), {B}),
        (A, (None,), {None}),
        (A, (C, C), {B}),
    ],
)
def test_nothing_follows_from_a_row_that_no_change_says(
    sink: Image | None, reads: tuple[Image | None, ...], images: set[Image | None]
) -> None:
    assert classify_key(KeyEvidence(sink, reads, KeyLog(UNKNOWN, frozenset(images)))) is KeyVerdict.UNSETTLED


# Changes of one key, numbered by the transaction that made them; a view shows those up to a number.
def view(upto: int) -> Covered:
    return Covered(numbers={"wal": ((1, upto),)}) if upto else Covered()


def change(number: int, after: State, *, before: State = UNKNOWN, in_sink: bool = False) -> Change:
    return Change(before, after, "wal", (number, 0, 0), in_sink)


def placed(
    sink: Image | None, *reads: tuple[Image | None, int], changes: tuple[Change, ...] = (), said: State = UNKNOWN
) -> KeyEvidence:
    """Evidence of reads (row, the last change its view shows); `said`: the row before the first change."""
    if changes:
        changes = (changes[0]._replace(before=said), *changes[1:])
    log = KeyLog(UNKNOWN, frozenset(), changes) if changes else None
    return KeyEvidence(sink, tuple(row for row, _ in reads), log, tuple(view(upto) for _, upto in reads))


HELD = change(1, B, in_sink=True)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        # no change between view and sink: the source's own row is what the sink must hold, by one read
        (placed(A, (A, 0)), KeyVerdict.EQUAL),
        (placed(A, (B, 0)), KeyVerdict.DIFFERENT),
        (placed(A, (None, 0)), KeyVerdict.GHOST),
        (placed(None, (A, 0)), KeyVerdict.MISSING),
        # a change after both of them changes nothing
        (placed(A, (A, 0), changes=(change(1, B),)), KeyVerdict.EQUAL),
        (placed(B, (A, 0), changes=(change(1, B),)), KeyVerdict.DIFFERENT),
        # the view is older: the sink must hold what the change leads to, but nobody but the decoder says so yet
        (placed(B, (A, 0), changes=(HELD,)), KeyVerdict.UNSETTLED),
        (placed(A, (A, 0), changes=(HELD,)), KeyVerdict.DIFFERENT),  # it was not applied
        (placed(None, (A, 0), changes=(HELD,)), KeyVerdict.MISSING),
        (placed(A, (A, 0), changes=(change(1, None, in_sink=True),)), KeyVerdict.GHOST),
        # … until a later read shows it
        (placed(B, (A, 0), (B, 1), changes=(HELD,)), KeyVerdict.EQUAL),
        (placed(B, (A, 0), (C, 1), changes=(HELD,)), KeyVerdict.DIFFERENT),
        (placed(None, (A, 0), (None, 1), changes=(change(1, None, in_sink=True),)), KeyVerdict.EQUAL),
        # … or a change after it that the next read shows
        (placed(B, (A, 0), (C, 2), changes=(HELD, change(2, C))), KeyVerdict.EQUAL),
        (placed(B, (A, 0), (B, 2), changes=(HELD, change(2, C))), KeyVerdict.DIFFERENT),
        # … or the row that the first change found, which the view shows, as far as the log holds it
        (placed(B, (A, 0), changes=(HELD,), said=A), KeyVerdict.EQUAL),
        (placed(B, (A, 0), changes=(HELD,), said=C), KeyVerdict.DIFFERENT),
        # an insert finds no row: so much is known
        (placed(B, (None, 0), changes=(HELD,), said=None), KeyVerdict.EQUAL),
        (placed(B, (A, 0), changes=(HELD,), said=None), KeyVerdict.DIFFERENT),
        # the view is newer than the sink: what the sink should hold is not known, or only by what the change found
        (placed(A, (B, 1), changes=(change(1, B),)), KeyVerdict.UNSETTLED),
        (placed(B, (B, 1), changes=(change(1, B),)), KeyVerdict.UNSETTLED),
        (placed(A, (None, 1), changes=(change(1, None),)), KeyVerdict.UNSETTLED),
        (placed(A, (B, 1), changes=(change(1, B),), said=A), KeyVerdict.EQUAL),
        (placed(C, (B, 1), changes=(change(1, B),), said=A), KeyVerdict.DIFFERENT),
        (placed(None, (B, 1), changes=(change(1, B),), said=None), KeyVerdict.EQUAL),
        (placed(A, (B, 1), changes=(change(1, B),), said=None), KeyVerdict.GHOST),
        # … and the source's row is not what the change says: it is decoded wrongly
        (placed(A, (C, 1), changes=(change(1, B),)), KeyVerdict.DIFFERENT),
        # a change that cannot be read leaves the row unknown, until a read shows just what the sink holds
        (placed(B, (A, 0), changes=(change(1, UNKNOWN, in_sink=True),)), KeyVerdict.UNSETTLED),
        (placed(B, (A, 0), (B, 1), changes=(change(1, UNKNOWN, in_sink=True),)), KeyVerdict.EQUAL),
        (placed(B, (A, 0), (C, 1), changes=(change(1, UNKNOWN, in_sink=True),)), KeyVerdict.DIFFERENT),
        (placed(B, (A, 0), (C, 2), changes=(change(1, UNKNOWN, in_sink=True), change(2, C))), KeyVerdict.UNSETTLED),
        # changes in no order prove nothing
        (placed(B, (B, 2), changes=(change(3, A), change(1, B))), KeyVerdict.UNSETTLED),
        (placed(B, (B, 1), changes=(change(1, A), change(2, B, in_sink=True))), KeyVerdict.UNSETTLED),
    ],
)
def test_inv_24_where_views_say_what_they_show_a_key_is_judged_by_its_place(
    evidence: KeyEvidence, verdict: KeyVerdict
) -> None:
    assert classify_key(evidence) is verdict


values = st.one_of(st.none(), st.sampled_from([("x",), ("y",), ("z",)]))


@given(
    sink=values,
    history=st.lists(values, min_size=1, max_size=7),
    held=st.integers(0, 6),
    reads=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    lost=st.sets(st.integers(0, 6)),
)
def test_inv_24_a_judgement_by_place_is_never_wrong(
    sink: Image | None, history: list[Image | None], held: int, reads: list[int], lost: set[int]
) -> None:
    """`history` is the row after 0, 1, … changes. What the sink was to hold, and each view shows, may be any number of
    them; of any state what the changes say may be lost. Decided or not, the verdict is never another one.
    """
    last = len(history) - 1
    held, reads = min(held, last), sorted(min(read, last) for read in reads)
    said: list[State] = [UNKNOWN if at in lost else row for at, row in enumerate(history)]
    changes = tuple(
        change(number, said[number], before=said[number - 1], in_sink=number <= held) for number in range(1, last + 1)
    )
    evidence = KeyEvidence(
        sink,
        tuple(history[read] for read in reads),
        KeyLog(UNKNOWN, None, changes),
        tuple(view(read) for read in reads),
    )
    right = compare_images(history[held], sink)
    assert classify_key(evidence) in {right, KeyVerdict.UNSETTLED}
    if held in reads or not lost:
        assert classify_key(evidence) is right


@given(sink=values, history=st.lists(values, min_size=1, max_size=6), seen=st.integers(0, 5))
def test_inv_24_a_key_is_judged_by_what_the_source_held_at_the_compared_ends(
    sink: Image | None, history: list[Image | None], seen: int
) -> None:
    """`history[0]` is the source at the ends; the reads may come anywhere later, and the verdict must not depend on it."""
    changes = [(old, new) for old, new in itertools.pairwise(history) if old != new]
    event = KeyLog(changes[0][0], frozenset(history)) if changes else None
    read = history[min(seen, len(history) - 1)]
    found = classify_key(KeyEvidence(sink, (read, history[-1], history[-1]), event))
    assert found is compare_images(history[0], sink)


def test_a_count_without_events_is_compared_as_it_is() -> None:
    assert classify_count(ImageCount(sink=2, source=2)) == (KeyVerdict.EQUAL, 0)
    assert classify_count(ImageCount(sink=1, source=3)) == (KeyVerdict.MISSING, 2)
    assert classify_count(ImageCount(sink=3, source=0)) == (KeyVerdict.GHOST, -3)


def test_events_that_the_read_saw_are_taken_back() -> None:
    # two copies at the ends, then one came and one went, then one more came; the read saw all three
    assert classify_count(ImageCount(sink=2, source=3, since=1)) == (KeyVerdict.EQUAL, 0)
    # the read saw nothing of what came later, so the third copy stood there at the ends
    assert classify_count(ImageCount(sink=2, source=3, since=0)) == (KeyVerdict.MISSING, 1)


@given(
    start=st.integers(5, 9),
    changes=st.lists(st.sampled_from([1, -1]), max_size=5),
    cut=st.integers(0, 5),
    wrong=st.integers(-2, 2),
)
def test_inv_24_a_multiset_is_never_judged_falsely(start: int, changes: list[int], cut: int, wrong: int) -> None:
    """Wherever the exact view lies among the changes: EQUAL exactly if the sink has the copies of the ends."""
    since = sum(changes[:cut])
    found, gap = classify_count(ImageCount(start + wrong, start + since, since))
    assert (found is KeyVerdict.EQUAL) == (wrong == 0)
    assert gap == -wrong


def test_a_tally_counts_rows_and_keeps_the_first_keys() -> None:
    tally = Tally()
    for number in range(30):
        tally.add(KeyVerdict.GHOST, f"k{number}")
    tally.add(KeyVerdict.MISSING, "many", 4)
    tally.add(KeyVerdict.EQUAL, "fine")
    assert (tally.ghosts, tally.missing, tally.different, tally.equal) == (30, 4, 0, 1)
    assert tally.wrong == 34
    assert tally.samples["ghosts"] == [f"k{number}" for number in range(SAMPLE_KEYS)]
    assert "fine" not in tally.samples.get("equal", [])


@pytest.mark.parametrize(
    ("found", "doubts", "verdict"),
    [
        ([], (), Verdict.MATCH),
        ([KeyVerdict.EQUAL], (), Verdict.MATCH),
        ([KeyVerdict.DIFFERENT], (), Verdict.MISMATCH),
        ([KeyVerdict.UNSETTLED], (), Verdict.INCONCLUSIVE),
        ([KeyVerdict.UNSETTLED, KeyVerdict.GHOST], (), Verdict.MISMATCH),
        ([], ("3 dead letters",), Verdict.INCONCLUSIVE),
        ([KeyVerdict.MISSING], ("3 dead letters",), Verdict.MISMATCH),
    ],
)
def test_a_table_matches_only_without_difference_and_doubt(
    found: list[KeyVerdict], doubts: tuple[str, ...], verdict: Verdict
) -> None:
    tally = Tally()
    for number, kind in enumerate(found):
        tally.add(kind, str(number))
    assert table_verdict(tally, doubts, RowCounts(7, 7)) is verdict


def test_inv_34_unequal_counts_are_never_a_match() -> None:
    assert table_verdict(Tally(), (), RowCounts(2, 1)) is Verdict.INCONCLUSIVE
    assert table_verdict(Tally(equal=9), (), RowCounts(1, 2)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("tally", "rows", "doubted"),
    [
        (Tally(), RowCounts(2, 2), False),
        (Tally(), RowCounts(2, 1), True),
        (Tally(missing=1), RowCounts(2, 1), False),
        (Tally(missing=1, ghosts=3), RowCounts(5, 7), False),
        (Tally(ghosts=1), RowCounts(2, 1), True),
        (Tally(unsettled=1), RowCounts(2, 1), False),
    ],
)
def test_inv_34_a_count_that_no_row_explains_is_a_doubt(tally: Tally, rows: RowCounts, doubted: bool) -> None:
    assert bool(count_caveats(tally, rows)) is doubted


@pytest.mark.parametrize(
    ("verdict", "evidence", "rows"),
    [
        (KeyVerdict.EQUAL, KeyEvidence(A, (None,)), 1),
        (KeyVerdict.EQUAL, KeyEvidence(None, (A,)), 0),
        (KeyVerdict.MISSING, KeyEvidence(None, (A, A)), 1),
        (KeyVerdict.DIFFERENT, KeyEvidence(B, (A, A)), 1),
        (KeyVerdict.GHOST, KeyEvidence(A, (None, None)), 0),
        (KeyVerdict.UNSETTLED, KeyEvidence(A, (A, None)), 0),
        (KeyVerdict.UNSETTLED, KeyEvidence(None, (None,), KeyLog(A)), 1),
        (KeyVerdict.UNSETTLED, KeyEvidence(A), 0),
    ],
)
def test_what_the_source_held_follows_from_the_verdict(verdict: KeyVerdict, evidence: KeyEvidence, rows: int) -> None:
    assert rows_held(verdict, evidence) == rows


def leaves_of(rows: dict[int, list[str]]) -> dict[int, Leaf]:
    return merge_leaves({leaf: row_leaf(h)} for leaf, hashes in rows.items() for h in hashes)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@given(
    kept=st.dictionaries(st.integers(0, 4), st.lists(st.text(max_size=3), max_size=4), max_size=4),
    moved=st.lists(st.tuples(st.integers(0, 4), st.text(max_size=3)), max_size=6),
)
def test_rows_in_flight_are_taken_out_of_leaves_exactly(
    kept: dict[int, list[str]], moved: list[tuple[int, str]]
) -> None:
    quiet = {leaf: [digest(text) for text in texts] for leaf, texts in kept.items()}
    busy = {leaf: list(hashes) for leaf, hashes in quiet.items()}
    for leaf, text in moved:
        busy.setdefault(leaf, []).append(digest(text))
    left = without(leaves_of(busy), [(leaf, digest(text)) for leaf, text in moved])
    assert left == leaves_of(quiet)


def orders(data_type: str = "bigint") -> Table:
    columns = (col("id", 1, data_type, data_type, nullable=False),)
    return Table("shop", "orders", columns, ("id",))


@pytest.mark.parametrize(("key", "leaf"), [("0", 0), ("9", 0), ("10", 1), ("-9", 0), ("-10", -1), ("-19", -1)])
def test_an_integer_key_falls_into_its_leaf_towards_zero(key: str, leaf: int) -> None:
    assert leaf_of(orders(), IntegerLeaves("id", 10), key) == leaf


def test_a_hashed_key_falls_into_its_leaf_by_crc() -> None:
    assert {leaf_of(orders(), HashLeaves(7), str(number)) for number in range(200)} == set(range(7))
    assert leaf_of(orders(), HashLeaves(7), "123456789") == 0xCBF43926 % 7
