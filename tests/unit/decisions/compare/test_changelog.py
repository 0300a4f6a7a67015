"""What a table's records after the compared ends say, with restarts of the connector in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.compare.changelog import NO_BEFORE, UNREADABLE, Event, Tail
from airflow_cdc.decisions.compare.verdict import UNKNOWN, Change, KeyLog, State
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition, covered

UUID = "75ac0c48-0000-11f0-8000-000000000001"
FILES = ("1/mysql-bin", 3)
WHY = "the row's column `c3` (a negative TIME) cannot be decoded"
UNREAD = f"{UNREADABLE}: {WHY}"
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


def befores(tail: Tail, ends: int = 5) -> dict[str, State]:
    """What each key's first change found, where no change is before the ends."""
    return {key: log.at_ends for key, log in tail.key_logs({0: ends}).items()}


def logged(*records: Event) -> dict[str, KeyLog]:
    """What is said of each key, but for its changes one by one."""
    return {key: log._replace(changes=()) for key, log in Tail.of(records, {0: 5}).key_logs({0: 5}).items()}


def test_the_first_change_of_a_key_says_what_was_there() -> None:
    tail = Tail.of([event(6, 6, before=("b",)), event(5, 5, before=("a",)), event(7, 7, "c", key="x")], {0: 5})
    assert befores(tail) == {"k": ("a",), "x": None}


def test_inv_28_every_image_that_a_key_passes_through_is_kept() -> None:
    records = [event(5, 5, before=("a",), after=("b",)), event(6, 6, "d", before=("b",), after=None)]
    assert logged(*records) == {"k": KeyLog(("a",), frozenset({("a",), ("b",), None}))}
    created = event(7, 7, "c", before=None, after=("c",), key="x")
    assert logged(created) == {"x": KeyLog(None, frozenset({None, ("c",)}))}


def test_inv_28_records_that_may_hide_an_image_show_none() -> None:
    records = [event(5, 5, before=("a",), after=("b",)), event(6, 6, bad=WHY)]
    assert logged(*records) == {"k": KeyLog(("a",), None)}


def test_records_before_the_ends_only_tell_repeats() -> None:
    records = [event(3, 3, before=("v1",)), event(4, 4, before=("v2",))]
    repeats = [event(5, 3, before=("v1",)), event(6, 4, before=("v2",))]
    assert Tail.of([*records, *repeats], {0: 5}).events == ()
    later = event(7, 5, before=("v3",))
    assert befores(Tail.of([*records, *repeats, later], {0: 5})) == {"k": ("v3",)}


def test_another_partition_or_server_has_an_order_of_its_own() -> None:
    seen = event(3, 9)
    elsewhere = event(0, 5, partition=1)
    other = event(6, 2, origin="75ac0c48-0000-11f0-8000-000000000002")
    assert Tail.of([seen, elsewhere, other], {0: 5, 1: 0}).events == (other, elsewhere)


def test_rows_of_one_transaction_are_told_apart() -> None:
    half = event(4, 4, place=(4, 400, 0))
    rest = event(5, 4, place=(4, 400, 1), key="l")
    assert Tail.of([half, rest], {0: 5}).events == (rest,)


def changes(*records: Event, ends: int) -> tuple[Change, ...]:
    """The changes of the key k; a view was opened after offset 0."""
    return Tail.of(records, {0: 0}).key_logs({0: ends})["k"].changes


def test_what_a_row_was_before_its_change_may_be_unknown_which_is_not_its_absence() -> None:
    inserted, updated = event(5, 5, "c", before=None), event(5, 5, before=None)
    deleted = event(5, 5, "d", before=None, after=None)
    assert befores(Tail.of([inserted], {0: 5})) == {"k": None}
    assert befores(Tail.of([updated], {0: 5})) == {"k": UNKNOWN}
    assert befores(Tail.of([deleted], {0: 5})) == {"k": UNKNOWN}
    assert befores(Tail.of([event(5, 5, bad=WHY)], {0: 5})) == {"k": UNKNOWN}


def test_the_row_at_the_ends_is_that_which_the_last_change_before_them_leads_to() -> None:
    first, second = event(3, 3, before=None, after=("a",)), event(5, 5, before=None, after=("b",))
    assert Tail.of([first, second], {0: 0}).key_logs({0: 5})["k"].at_ends == ("a",)
    gone = event(4, 4, "d", before=None, after=None)
    assert Tail.of([first, gone, second], {0: 0}).key_logs({0: 5})["k"].at_ends is None
    unread = event(4, 4, bad=WHY)
    assert Tail.of([first, unread, second], {0: 0}).key_logs({0: 5})["k"].at_ends is UNKNOWN


def test_a_change_that_came_again_counts_where_it_came_first() -> None:
    first, repeat = event(3, 3, after=("a",)), event(6, 3, after=("a",))
    assert [change.in_sink for change in changes(first, repeat, ends=5)] == [True]


def test_a_change_whose_rows_are_unknown_is_a_doubt_of_its_key_alone_where_views_are_exact() -> None:
    records = [event(5, 5, before=None), event(6, 6, bad=WHY)]
    assert Tail.of(records, {0: 5}).caveats(placed=True) == ()
    assert Tail.of([event(5, 5, bad=WHY, key=None)], {0: 5}).caveats(placed=True) == (UNREAD,)
    assert Tail.of([event(5, 5, bad=WHY, origin=None)], {0: 5}).caveats(placed=True) == (UNREAD,)
    assert Tail.of([event(5, 5, key=None, before=None)], {0: 5}).caveats(placed=True) == (NO_BEFORE,)
    assert any("truncated" in said for said in Tail.of([event(5, 5, "t")], {0: 5}).caveats(placed=True))


def test_records_that_cannot_be_decoded_are_named_by_their_first_reasons() -> None:
    records = [event(5 + at, 5 + at, bad=f"reason {at % 4}", key=None) for at in range(8)]
    assert Tail.of(records, {0: 5}).caveats() == tuple(f"{UNREADABLE}: reason {at}" for at in range(3))


def test_transactions_that_were_numbered_before_others_and_committed_after_them_are_no_repeats() -> None:
    """PostgreSQL: a change is ordered by the end of the transaction committed before it, not by its own number."""
    passed = event(4, 9, transaction=None, origin="postgres", place=(812, 5000, 1), log=("wal", 4000))
    later = event(5, 7, transaction=None, origin="postgres", place=(790, 3000, 1), log=("wal", 6000))
    assert Tail.of([passed, later], {0: 5}).events == (later,)
    assert Tail.of([passed, replace(passed, offset=5), later], {0: 5}).events == (later,)


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
    assert befores(tail, ends) == ({"k": new[0].before} if new else {})


@pytest.mark.parametrize(
    ("record", "doubt"),
    [
        (event(5, 5, "t"), "truncated"),
        (event(5, 1, "r"), "read the table again"),
        (event(5, 5, bad=WHY), UNREAD),
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
    new = event(6, 10, transaction=None, origin="1/mysql-bin", place=(4, 4, 0), log=("1/mysql-bin", 4))
    assert Tail.of([before, repeat, new], {0: 5}).events == (new,)


def test_changes_without_a_place_in_the_log_are_told_apart_by_their_records() -> None:
    """A flattened change keeps none: two UPDATEs of a key are not a change and its repeat."""
    nowhere = replace(BASE, origin=None, place=(0, 0, 0), log=("", 0), transaction=None, before=None)
    records = [replace(nowhere, offset=at, after=(f"v{at}",)) for at in (5, 6, 7)]
    changes = Tail.of(records, {0: 5}).key_logs({0: 6})["k"].changes
    assert [change.after for change in changes] == [("v5",), ("v6",), ("v7",)]
    assert Tail.of(records, {0: 5}).key_logs({0: 6})["k"].at_ends == ("v5",)
