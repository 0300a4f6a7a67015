"""MariaDB's positions and states: the laws, against a brute-force oracle of whole histories.

A history is, per domain, the servers that wrote its transactions 1, 2, 3 …; a position is how far one has come in each.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.mariadb.gtid import MariaDbGtid, MariaDbPosition, MariaDbState, is_mariadb

DOMAINS = (0, 1, 7)
LONGEST = 12
# one history for all: who wrote number n of a domain
WRITERS = {domain: [(n * (domain + 3)) % 3 + 1 for n in range(1, LONGEST + 1)] for domain in DOMAINS}
Gtid = tuple[int, int, int]

places = st.fixed_dictionaries({domain: st.integers(0, LONGEST) for domain in DOMAINS})


def transactions(place: dict[int, int]) -> set[Gtid]:
    """The oracle: every transaction up to a place, one by one."""
    return {(d, WRITERS[d][n - 1], n) for d, reached in place.items() for n in range(1, reached + 1)}


def position(place: dict[int, int]) -> MariaDbPosition:
    return MariaDbPosition(tuple(MariaDbGtid(d, WRITERS[d][n - 1], n) for d, n in place.items() if n))


def state(place: dict[int, int]) -> MariaDbState:
    """What a server that has logged all up to a place says of itself, newest last."""
    return MariaDbState(tuple(MariaDbGtid(*one) for one in sorted(transactions(place), key=lambda one: one[2])))


ALL = sorted(transactions(dict.fromkeys(DOMAINS, LONGEST)))


@given(places)
def test_parse_reverses_str(place: dict[int, int]) -> None:
    assert MariaDbPosition.parse(str(position(place))) == position(place)
    assert MariaDbState.parse(str(state(place))) == state(place)


@given(places)
def test_covers_and_has_agree_with_the_oracle(place: dict[int, int]) -> None:
    held = transactions(place)
    for one in ALL:
        assert position(place).covers(MariaDbGtid(*one)) == (one in held)
        assert state(place).has(MariaDbGtid(*one)) == (one in held)


@given(places, places)
def test_operations_agree_with_the_oracle(x: dict[int, int], y: dict[int, int]) -> None:
    a, b, left = position(x), position(y), position(x) - position(y)
    assert a.issubset(b) == (transactions(x) <= transactions(y))
    assert {one for one in ALL if MariaDbGtid(*one) in left} == transactions(x) - transactions(y)
    assert left.count == len(transactions(x) - transactions(y))
    assert left.is_empty == a.issubset(b) == (not left)
    assert {one for one in ALL if (a | b).covers(MariaDbGtid(*one))} == transactions(x) | transactions(y)
    assert {one for one in ALL if (a & b).covers(MariaDbGtid(*one))} == transactions(x) & transactions(y)


@given(places, places, places)
def test_laws(x: dict[int, int], y: dict[int, int], z: dict[int, int]) -> None:
    a, b, c = position(x), position(y), position(z)
    assert a | b == b | a
    assert a & b == b & a
    assert (a | b) | c == a | (b | c)
    assert a | (a & b) == a
    assert a & (a | b) == a
    assert a.issubset(a | b)
    assert (a & b).issubset(a)
    assert str(a - (a & b)) == str(a - b)


@given(places, places)
def test_a_state_lacks_what_was_written_after_it(x: dict[int, int], y: dict[int, int]) -> None:
    newer = {(d, WRITERS[d][n - 1], n) for d, n in y.items() if n} - transactions(x)
    assert {(g.domain, g.server, g.number) for g in state(x).lacks(position(y)).gtids} == newer
    assert state(x).position == position(x)


def test_another_servers_numbers_are_not_this_servers() -> None:
    """A promoted replica goes on with its own server id: by number all is there, by server one place never was."""
    promoted = MariaDbState.parse("0-1-90,0-2-120")
    stored = MariaDbPosition.parse("0-1-100")
    assert stored.issubset(promoted.position)
    assert promoted.lacks(stored) == stored
    assert promoted.lacks(MariaDbPosition.parse("0-1-90")).is_empty


def test_histories_that_have_parted_have_no_union() -> None:
    one, other = MariaDbPosition.parse("0-1-100"), MariaDbPosition.parse("0-2-100")
    for merge in (MariaDbPosition.__or__, MariaDbPosition.__and__):
        with pytest.raises(PositionError, match="two servers wrote one number"):
            merge(one, other)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        (" \n ", ""),
        ("0-1-1, 1-1-1", "0-1-1,1-1-1"),
        ("\n0-1-1 ,\n7-2-3 ", "0-1-1,7-2-3"),
        ("5-1-1,1-1-1,0-1-2", "0-1-2,1-1-1,5-1-1"),
        ("01-001-0001", "1-1-1"),
        ("0-1-7,1-1-0", "0-1-7"),
        ("4294967295-4294967295-18446744073709551615", "4294967295-4294967295-18446744073709551615"),
    ],
)
def test_text_forms(text: str, printed: str) -> None:
    assert str(MariaDbPosition.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "0-1-1,",
        "0-1",
        "0-1-1-1",
        "-1-1-1",
        "a-b-c",
        "0-1-1;1-1-1",
        "0 -1-1",
        "0-1-1,0-2-5",
        "4294967296-1-1",
        "1-4294967296-1",
        "0-1-18446744073709551616",
        "0-1-\N{ARABIC-INDIC DIGIT ONE}",
        "3e11fa47-71ca-11e1-9e33-c80aa9429562:1",
    ],
)
def test_malformed_text_is_refused_with_the_part_named(text: str) -> None:
    with pytest.raises(PositionError, match="MariaDB GTIDs cannot be read") as caught:
        MariaDbPosition.parse(text)
    assert "Expected 0-1-100" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "printed", "newest"),
    [
        ("0-55-9,0-101-11,7-101-1,7-55-2", "0-55-9,0-101-11,7-101-1,7-55-2", "0-101-11,7-55-2"),
        ("0-2-9,0-1-5", "0-2-9,0-1-5", "0-1-5"),  # the newest stands last, whatever its number
        ("1-1-1,0-2-9,0-1-5", "0-2-9,0-1-5,1-1-1", "0-1-5,1-1-1"),
        ("0-1-5,0-1-6", "0-1-6", "0-1-6"),
    ],
)
def test_states_as_a_server_prints_them(text: str, printed: str, newest: str) -> None:
    assert str(MariaDbState.parse(text)) == printed
    assert str(MariaDbState.parse(text).position) == newest


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0-1-100", True),
        ("0-1-100, 1-2-3", True),
        ("", False),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", False),
        ("11111111-1111-1111-1111-111111111111:1", False),
        ("0-1-100,", False),
    ],
)
def test_the_two_kinds_are_told_apart(text: str, wanted: bool) -> None:
    assert is_mariadb(text) is wanted
