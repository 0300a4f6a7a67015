"""GTID sets: the laws of sets, against a brute-force oracle of single transactions."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.mysql.gtid import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "75ac0c48-7f6b-11f0-9c3a-0242ac110002"
Gtid = tuple[str, str, int]

intervals = st.tuples(st.integers(1, 25), st.integers(0, 6)).map(lambda x: (x[0], x[0] + x[1]))
items = st.tuples(st.sampled_from([A, B]), st.sampled_from(["", "backup", "_x1"]), st.lists(intervals, max_size=5))
gtid_sets = st.lists(items, max_size=6).map(lambda xs: GtidSet(tuple((u, t, tuple(iv)) for u, t, iv in xs)))


def oracle(gtids: GtidSet) -> set[Gtid]:
    return {(u, t, n) for u, t, ivs in gtids.items for lo, hi in ivs for n in range(lo, hi + 1)}


def messy(gtids: GtidSet) -> str:
    """The same set as text that nobody normalised: single transactions, upper case, newlines."""
    return ",\n".join(":".join(filter(None, [u.upper(), t.upper(), str(n)])) for u, t, n in sorted(oracle(gtids))[::-1])


@given(gtid_sets)
def test_parse_reverses_str(gtids: GtidSet) -> None:
    assert GtidSet.parse(str(gtids)) == gtids
    assert str(GtidSet.parse(str(gtids))) == str(gtids)


@given(gtid_sets)
def test_equal_sets_have_one_form_whatever_the_text(gtids: GtidSet) -> None:
    again = GtidSet.parse(messy(gtids))
    assert again == gtids
    assert hash(again) == hash(gtids)
    assert str(again) == str(gtids)


@given(gtid_sets, gtid_sets)
def test_operations_agree_with_the_oracle(x: GtidSet, y: GtidSet) -> None:
    assert oracle(x | y) == oracle(x) | oracle(y)
    assert oracle(x - y) == oracle(x) - oracle(y)
    assert oracle(x & y) == oracle(x) & oracle(y)
    assert x.issubset(y) == (oracle(x) <= oracle(y))
    assert x.isdisjoint(y) == oracle(x).isdisjoint(oracle(y))


@given(gtid_sets)
def test_size_and_emptiness_agree_with_the_oracle(x: GtidSet) -> None:
    assert x.count == len(oracle(x))
    assert x.is_empty == (not oracle(x))
    assert bool(x) == bool(oracle(x))
    assert set(x.uuids) == {u for u, _, _ in oracle(x)}


@given(gtid_sets, st.sampled_from([A, B]), st.sampled_from(["", "backup"]), st.integers(1, 40))
def test_contains_agrees_with_the_oracle(x: GtidSet, uuid: str, tag: str, number: int) -> None:
    assert x.contains(uuid.upper(), number, tag) == ((uuid, tag, number) in oracle(x))


@given(gtid_sets, gtid_sets, gtid_sets)
def test_laws(x: GtidSet, y: GtidSet, z: GtidSet) -> None:
    assert x | y == y | x
    assert x & y == y & x
    assert (x | y) | z == x | (y | z)
    assert x - (y | z) == (x - y) - z
    assert (x - y) | (x & y) == x
    assert x.issubset(x | y)


@given(gtid_sets)
def test_intervals_are_merged_sorted_and_apart(x: GtidSet) -> None:
    assert list(x.items) == sorted(x.items)
    for _, _, ivs in x.items:
        assert ivs
        assert all(hi + 1 < lo for (_, hi), (lo, _) in pairwise(ivs))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (" \n ", ""),
        (f"{A}:1-5:6-10", f"{A}:1-10"),
        (f"{A}:11-18:1-5:7", f"{A}:1-5:7:11-18"),
        (f"{A.upper()}:3,\n{A}:4", f"{A}:3-4"),
        (f"{B}:1,{A}:1", f"{A}:1,{B}:1"),
        (f"{A}:1-6:backup:1-3", f"{A}:1-6:backup:1-3"),
        (f"{A}:Backup:3:1-2:4-9:_x:7,{A}:1", f"{A}:1:_x:7:backup:1-9"),
        (A.replace("-", "") + ":1", f"{A}:1"),
        (f"{A}:1,,{A}:2,", f"{A}:1-2"),
        (f"{A}:{2**63 - 2}", f"{A}:{2**63 - 2}"),
    ],
)
def test_text_forms(text: str, printed: str) -> None:
    assert str(GtidSet.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-3",
        f"{A}:1-",
        f"{A}:-3",
        f"{A}:1-2-3",
        f"{A}:tag",
        f"{A}:1:tag",
        f"{A}:1:9tag:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:{2**63}",
        f"{A[:-1]}:1",
        "0-1-100",
        "nonsense",
        f"{A}:1;{B}:1",
        f"{A}:\N{ARABIC-INDIC DIGIT ONE}",
    ],
)
def test_malformed_text_is_refused_with_the_part_named(text: str) -> None:
    with pytest.raises(PositionError, match="GTID set cannot be read") as caught:
        GtidSet.parse(f"{B}:1,{text}")
    assert "Expected uuid:1-6" in str(caught.value)


def test_construction_normalises() -> None:
    assert GtidSet(((A.upper(), "", ((4, 6), (1, 3))),)).items == ((A, "", ((1, 6),)),)


def test_sets_of_a_hundred_thousand_intervals_stay_near_linear() -> None:
    def seconds(count: int) -> float:
        odd = GtidSet(((A, "", tuple((n, n) for n in range(1, 2 * count, 2))),))
        every_third = GtidSet(((A, "", tuple((n, n) for n in range(1, 2 * count, 3))),))
        began = time.perf_counter()
        left, shared = odd - every_third, odd & every_third
        assert left.count + shared.count == count
        return time.perf_counter() - began

    small, large = min(seconds(10_000) for _ in range(3)), seconds(100_000)
    assert large < 60 * small  # ten times the intervals; a quadratic one would take a hundred times as long
