"""Laws of what batches come to and of how rows are cut into leaves: for any order, any cut, any repeat."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.applied import Highest, LastChange, PlainChange
from airflow_cdc.decisions.apply.net import NetImages, net_images
from airflow_cdc.decisions.compare.leaves import (
    HashLeaves,
    IntegerLeaves,
    KeyHash,
    choose_scheme,
    compare_multisets,
    leaf_at,
    leaf_bounds,
    leaf_of,
    leaf_ranges,
    scheme_from_json,
    scheme_to_json,
)
from tests.unit.tables import col

LOG = "1/binlog"
Row = tuple[object, ...]

# --- the changes of a table without a key ------------------------------------------------------------------------------------

# a log: what each transaction does to copies of few rows. None: the row is not there
STEPS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, "a", "b", "c"])).filter(
        lambda x: x != (None, None)
    ),
    max_size=12,
)


def log_of(steps: list[tuple[str | None, str | None]]) -> list[PlainChange]:
    """The changes in the order of their log, each a transaction of its own."""
    made = []
    for n, (before, after) in enumerate(steps, 1):
        op = "c" if before is None else "d" if after is None else "u"
        at = LastChange("uuid", (n, 10 * n, 0), LOG, 3, f"uuid:{n}", 1)
        rows = [None if value is None else (value,) for value in (before, after)]
        made.append(PlainChange(0, n, op, (), rows[1], at, before=rows[0]))
    return made


def total(net: NetImages | None) -> Counter[Row]:
    """Row → copies gained (or lost, below zero)."""
    assert net is not None
    counts = Counter[Row](net.rows(net.gained))
    counts.subtract(net.rows(net.lost))
    return Counter({row: n for row, n in counts.items() if n})


def counted(log: list[PlainChange]) -> Counter[Row]:
    """The same by counting alone."""
    counts = Counter[Row]()
    for one in log:
        for row, copies in ((one.after, 1), (one.before, -1)):
            if row is not None:
                counts[row] += copies
    return Counter({row: n for row, n in counts.items() if n})


@given(STEPS)
def test_a_batch_comes_to_what_its_changes_say(steps: list[tuple[str | None, str | None]]) -> None:
    log = log_of(steps)
    assert total(net_images(log, {})) == counted(log)


@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_of_a_batchs_changes_does_not_matter(
    steps: list[tuple[str | None, str | None]], random: object
) -> None:
    log = log_of(steps)
    mixed = list(log)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = net_images(log, {}), net_images(mixed, {})
    assert one is not None
    assert other is not None
    assert (total(one), one.high, one.changes) == (total(other), other.high, other.changes)


@given(STEPS, st.lists(st.integers(0, 11), max_size=8))
def test_a_change_that_comes_again_counts_once(steps: list[tuple[str | None, str | None]], again: list[int]) -> None:
    log = log_of(steps)
    repeated = [*log, *(log[at] for at in again if at < len(log))]
    net = net_images(repeated, {})
    assert net is not None
    assert (total(net), net.changes) == (counted(log), len(log))


@given(STEPS, st.lists(st.integers(1, 5), max_size=6))
def test_a_log_comes_to_the_same_however_it_is_cut_into_batches(
    steps: list[tuple[str | None, str | None]], sizes: list[int]
) -> None:
    log = log_of(steps)
    cuts = [0, *(at for at in accumulate(sizes) if at < len(log)), len(log)]
    applied: dict[str, Highest] = {}
    found = Counter[Row]()
    for begin, end in pairwise(cuts):
        net = net_images(log[begin:end], applied)
        assert net is not None, "what comes after all that was applied is certain"
        for row, copies in total(net).items():
            found[row] += copies
        applied |= net.high
    assert Counter({row: n for row, n in found.items() if n}) == counted(log)


@given(STEPS.filter(bool), st.integers(0, 11))
def test_a_batch_that_reaches_back_into_what_was_applied_is_not_decided_from_memory(
    steps: list[tuple[str | None, str | None]], back: int
) -> None:
    """Its identities are looked up in the topic: counted twice, a row would stand there twice for ever."""
    log = log_of(steps)
    net = net_images(log, {})
    assert net is not None
    assert net_images(log[min(back, len(log) - 1) :], net.high) is None


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_copies_that_lack_and_copies_too_many_make_the_two_sides_equal(source: list[str], sink: list[str]) -> None:
    diff = compare_multisets(source, sink)
    repaired = Counter(sink)
    repaired.update(diff.missing)
    repaired.subtract(diff.ghosts)
    assert +repaired == Counter(source)
    assert not set(diff.missing) & set(diff.ghosts)
    assert diff.different == ()


# --- leaves --------------------------------------------------------------------------------------------------------------------

WIDTHS, IDS = st.integers(2, 10**6), st.integers(-(2**63), 2**64 - 1)
KEYED = Table("shop", "orders", (col("id", 1, "bigint", "bigint", nullable=False),), ("id",))


@given(WIDTHS, IDS)
def test_an_id_is_within_the_bounds_of_its_leaf(width: int, number: int) -> None:
    low, high = leaf_bounds(width, leaf_at(width, number))
    assert low <= number <= high


@given(WIDTHS, IDS)
def test_a_leaf_is_what_the_engines_compute(width: int, number: int) -> None:
    """DIV of MySQL and `/` of integers in PostgreSQL and Spark round towards zero."""
    expected = abs(number) // width * (1 if number >= 0 else -1)
    assert leaf_at(width, number) == expected
    assert leaf_of(KEYED, IntegerLeaves("id", width), str(number)) == expected


@given(WIDTHS, st.integers(-1_000, 1_000))
def test_leaves_lie_side_by_side_without_a_gap(width: int, leaf: int) -> None:
    assert leaf_bounds(width, leaf)[1] + 1 == leaf_bounds(width, leaf + 1)[0]


@given(st.integers(2, 50), st.lists(st.integers(-20, 20), max_size=12), st.integers(-1_200, 1_200))
def test_ranges_hold_exactly_the_ids_of_their_leaves(width: int, leaves: list[int], number: int) -> None:
    ranges = leaf_ranges(width, leaves)
    assert any(low <= number <= high for low, high in ranges) == (leaf_at(width, number) in leaves)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges)), "neighbours are joined"


@given(st.integers(1, 1_000), st.sampled_from(list(KeyHash)), IDS)
def test_every_key_has_one_of_its_schemes_leaves(n: int, by: KeyHash, number: int) -> None:
    assert 0 <= leaf_of(KEYED, HashLeaves(n, by), str(number)) < n


@given(st.integers(0, 10**9), st.tuples(IDS, IDS).map(sorted), st.integers(1, 10**6))
def test_a_table_gets_about_as_many_leaves_as_its_rows_ask_for(rows: int, bounds: list[int], leaf_rows: int) -> None:
    scheme = choose_scheme(KEYED, rows, (bounds[0], bounds[1]), leaf_rows)
    assert isinstance(scheme, IntegerLeaves)
    wanted = max(1, -(-rows // leaf_rows))
    used = leaf_at(scheme.width, bounds[1]) - leaf_at(scheme.width, bounds[0]) + 1
    assert used <= wanted + 1  # leaf 0 lies on both sides of zero
    assert scheme_from_json(scheme_to_json(scheme)) == scheme


@given(st.integers(0, 10**9), st.integers(1, 10**6), st.sampled_from(list(KeyHash)))
def test_without_bounds_keys_are_cut_by_their_hash(rows: int, leaf_rows: int, by: KeyHash) -> None:
    scheme = choose_scheme(KEYED, rows, None, leaf_rows, by)
    assert scheme == HashLeaves(max(1, -(-rows // leaf_rows)), by)
    assert scheme_from_json(scheme_to_json(scheme)) == scheme
