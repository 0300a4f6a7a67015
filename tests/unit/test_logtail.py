"""What a table's records after the compared ends say, with restarts of the connector in between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.logtail import NO_BEFORE, UNREADABLE, Event, Tail
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.verdict import FirstEvent

UUID = "75ac0c48-0000-11f0-8000-000000000001"
BASE = Event(0, 0, "u", UUID, (1, 100, 0), f"{UUID}:1", 1, "mysql-bin.000003", 100, "k", ("old",), ("new",))


def event(offset: int, number: int, op: str = "u", **changes: object) -> Event:
    """An event of transaction `number` at `offset`."""
    made = replace(
        BASE, offset=offset, op=op, place=(number, 100 * number, 0), gtid=f"{UUID}:{number}", pos=100 * number
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def watermark(gtids: str | None, pos: int = 0, server_id: int = 1) -> Watermark:
    found = None if gtids is None else GtidSet.parse(gtids)
    return Watermark(UUID, "mysql-bin.000003", pos, found, "2026-11-21T10:00:00+00:00", server_id)


def test_the_first_change_of_a_key_says_what_was_there() -> None:
    tail = Tail.of([event(6, 6, before=("b",)), event(5, 5, before=("a",)), event(7, 7, "c", key="x")], {0: 5})
    assert tail.first_events() == {"k": FirstEvent(("a",)), "x": FirstEvent(None)}


def test_records_before_the_ends_only_tell_repeats() -> None:
    records = [event(3, 3, before=("v1",)), event(4, 4, before=("v2",))]
    repeats = [event(5, 3, before=("v1",)), event(6, 4, before=("v2",))]
    assert Tail.of([*records, *repeats], {0: 5}).events == ()
    later = event(7, 5, before=("v3",))
    assert Tail.of([*records, *repeats, later], {0: 5}).first_events() == {"k": FirstEvent(("v3",))}


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
    expected = {"k": FirstEvent(new[0].before)} if new else {}
    assert tail.first_events() == expected


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
    assert any(doubt in said for said in tail.doubts())
    assert Tail.of([event(4, 4), event(5, 5)], {0: 5}).doubts() == ()


def test_images_come_and_go_once_in_the_sources_order() -> None:
    update = event(6, 6, before=("a",), after=("b",))
    delete = event(5, 7, "d", before=("b",), after=None)
    tail = Tail.of([delete, update, replace(update, offset=8)], {0: 5})
    assert [(image, sign) for image, sign, _ in tail.image_changes()] == [(("a",), -1), (("b",), 1), (("b",), -1)]


def test_a_change_is_before_a_position_only_for_certain() -> None:
    assert event(1, 5).is_before(watermark(f"{UUID}:1-5"))
    assert not event(1, 6).is_before(watermark(f"{UUID}:1-5"))
    assert not event(1, 5, gtid=None).is_before(watermark(f"{UUID}:1-5"))
    assert event(1, 5, gtid=None).is_before(watermark(None, pos=501))
    assert not event(1, 5, gtid=None).is_before(watermark(None, pos=500))
    assert not event(1, 5, gtid=None).is_before(watermark(None, pos=900, server_id=2))
