"""What a table's records after the compared ends say, with restarts of the connector in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.compare.changelog import NO_BEFORE, UNREADABLE, Event, Tail
from airflow_cdc.core.compare.verdict import Image, KeyLog
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.events import covered
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition

UUID = "75ac0c48-0000-11f0-8000-000000000001"
FILES = ("1/mysql-bin", 3)
BASE = Event(0, 0, "u", UUID, (1, 100, 0), FILES, f"{UUID}:1", "k", ("old",), ("new",))


def event(offset: int, number: int, op: str = "u", **changes: object) -> Event:
    """An event of transaction `number` at `offset`."""
    made = replace(BASE, offset=offset, op=op, place=(number, 100 * number, 0), transaction=f"{UUID}:{number}")
    return replace(made, **changes)  # type: ignore[arg-type]


def watermark(gtids: str | None, pos: int = 0, server_id: int = 1) -> Watermark:
    found = None if gtids is None else GtidSet.parse(gtids)
    return Watermark(
        MySqlPosition("mysql-bin.000003", pos, found, server_id),
        UUID,
        datetime.fromisoformat("2026-11-21T10:00:00+00:00"),
    )


def befores(tail: Tail) -> dict[str, Image | None]:
    """What each key's first change found."""
    return {key: log.before for key, log in tail.key_logs().items()}


def test_the_first_change_of_a_key_says_what_was_there() -> None:
    tail = Tail.of([event(6, 6, before=("b",)), event(5, 5, before=("a",)), event(7, 7, "c", key="x")], {0: 5})
    assert befores(tail) == {"k": ("a",), "x": None}


def test_inv_28_every_image_that_a_key_passes_through_is_kept() -> None:
    records = [event(5, 5, before=("a",), after=("b",)), event(6, 6, "d", before=("b",), after=None)]
    assert Tail.of(records, {0: 5}).key_logs() == {"k": KeyLog(("a",), frozenset({("a",), ("b",), None}))}
    created = event(7, 7, "c", before=None, after=("c",), key="x")
    assert Tail.of([created], {0: 5}).key_logs() == {"x": KeyLog(None, frozenset({None, ("c",)}))}


def test_inv_28_records_that_may_hide_an_image_show_none() -> None:
    records = [event(5, 5, before=("a",), after=("b",)), event(6, 6, bad=True)]
    assert Tail.of(records, {0: 5}).key_logs() == {"k": KeyLog(("a",), None)}


def test_records_before_the_ends_only_tell_repeats() -> None:
    records = [event(3, 3, before=("v1",)), event(4, 4, before=("v2",))]
    repeats = [event(5, 3, before=("v1",)), event(6, 4, before=("v2",))]
    assert Tail.of([*records, *repeats], {0: 5}).events == ()
    later = event(7, 5, before=("v3",))
    assert Tail.of([*records, *repeats, later], {0: 5}).key_logs()["k"].before == ("v3",)


def test_another_partition_or_server_has_an_order_of_its_own() -> None:
    seen = event(3, 9)
    elsewhere = event(0, 5, partition=1)
    other = event(6, 2, origin="75ac0c48-0000-11f0-8000-000000000002")
    assert Tail.of([seen, elsewhere, other], {0: 5, 1: 0}).events == (other, elsewhere)


def test_rows_of_one_transaction_are_told_apart() -> None:
    half = event(4, 4, place=(4, 400, 0))
    rest = event(5, 4, place=(4, 400, 1), key="l")
    assert Tail.of([half, rest], {0: 5}).events == (rest,)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_a_restart_never_changes_the_evidence(lengths: list[int], data: st.DataObject) -> None:
    """However often the connector goes back, the first change after the ends is that of the plain log."""
    log = [event(0, number, before=(f"v{number}",), after=(f"v{number + 1}",)) for number in range(1, 8)]
    cut = data.draw(st.integers(1, 6))
    sent = list(log[:cut])
    for length in lengths:  # goes back at most to the first, then forward again, past what was sent
        back = data.draw(st.integers(0, len(log) - 1))
        sent += log[back : back + length]
    ends = cut
    tail = Tail.of([replace(e, offset=at) for at, e in enumerate(sent)], {0: ends})
    new = [e for e in sent[cut:] if e.place > log[cut - 1].place]
    assert befores(tail) == ({"k": new[0].before} if new else {})


@pytest.mark.parametrize(
    ("record", "doubt"),
    [
        (event(5, 5, "t"), "truncated"),
        (event(5, 1, "r"), "read the table anew"),
        (event(5, 5, bad=True), UNREADABLE),
        (event(5, 5, before=None), NO_BEFORE),
        (event(5, 5, "d", before=None), NO_BEFORE),
    ],
)
def test_what_is_no_sound_evidence_is_said(record: Event, doubt: str) -> None:
    tail = Tail.of([event(4, 4), record], {0: 5})
    assert any(doubt in said for said in tail.caveats())
    assert Tail.of([event(4, 4), event(5, 5)], {0: 5}).caveats() == ()


def test_images_come_and_go_once_in_the_sources_order() -> None:
    update = event(6, 6, before=("a",), after=("b",))
    delete = event(5, 7, "d", before=("b",), after=None)
    tail = Tail.of([delete, update, replace(update, offset=8)], {0: 5})
    assert [(image, sign) for image, sign, _ in tail.image_changes()] == [(("a",), -1), (("b",), 1), (("b",), -1)]


def test_a_change_is_covered_only_for_certain() -> None:
    unnamed = event(1, 5, transaction=None, origin="1/mysql-bin", place=(3, 500, 0))
    assert event(1, 5).is_covered(covered(watermark(f"{UUID}:1-5")))
    assert not event(1, 6).is_covered(covered(watermark(f"{UUID}:1-5")))
    assert not unnamed.is_covered(covered(watermark(f"{UUID}:1-5")))
    assert unnamed.is_covered(covered(watermark(None, pos=501)))
    assert not unnamed.is_covered(covered(watermark(None, pos=500)))
    assert not unnamed.is_covered(covered(watermark(None, pos=900, server_id=2)))
    assert not event(1, 5).is_covered(covered(watermark(None, pos=900)))
    assert not replace(unnamed, origin=None).is_covered(covered(watermark(None, pos=900)))


def test_a_transaction_number_that_does_not_rise_is_no_repeat() -> None:
    """Group Replication gives each member a block of numbers; gtid_next set by hand fills from below."""
    high, low = event(4, 1_000_007), event(5, 8, before=("b",))
    assert Tail.of([high, low], {0: 5}).events == (low,)
    again = replace(high, offset=6)
    assert Tail.of([high, low, again], {0: 5}).events == (low,)


def test_a_transaction_is_a_repeat_if_its_position_was_reached_before_the_ends() -> None:
    """Also when its first copy is further back than the records that were looked at."""
    at = covered(watermark(f"{UUID}:1-3"))
    repeat, new = event(5, 3, before=("old",)), event(6, 9, before=("b",))
    assert Tail.of([repeat, new], {0: 5}, at).events == (new,)


@pytest.mark.parametrize(("oldest", "complete"), [(event(2, 3), True), (event(2, 4), False)])
def test_it_is_said_whether_the_records_reach_back_far_enough(oldest: Event, complete: bool) -> None:
    tail = Tail.of([oldest, event(3, 5), event(5, 6)], {0: 5}, covered(watermark(f"{UUID}:1-3")))
    assert tail.complete is complete


def test_the_rest_of_a_transaction_may_come_after_the_ends() -> None:
    """Its rows up to the ends are repeats when they come again; those after them are changes."""
    first = event(3, 9, place=(9, 900, 0))
    second = replace(first, offset=4, place=(9, 900, 1), key="l")
    third = replace(first, offset=5, place=(9, 900, 2), key="m")
    again = [replace(one, offset=6 + at) for at, one in enumerate((first, second))]
    assert Tail.of([first, second, third, *again], {0: 5}).events == (third,)


def test_without_gtids_the_place_in_the_log_tells() -> None:
    before = event(4, 9, transaction=None, origin="1/mysql-bin", place=(3, 900, 0))
    repeat = event(5, 8, transaction=None, origin="1/mysql-bin", place=(3, 800, 0))
    new = event(6, 10, transaction=None, origin="1/mysql-bin", place=(4, 4, 0))
    assert Tail.of([before, repeat, new], {0: 5}).events == (new,)
