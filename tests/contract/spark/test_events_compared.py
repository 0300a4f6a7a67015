"""Events as evidence of a comparison: what Spark makes of a topic is what is made of it in memory, and in parts the same as at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.compare.changelog import Event
from airflow_cdc.decisions.compare.leaves import IntegerLeaves
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.kinds import read_position
from airflow_cdc.spark_apps.compare import flight, tail
from airflow_cdc.spark_apps.compare.flight import Flight, Flights, flights
from airflow_cdc.spark_apps.compare.scan import Reached, Subject
from airflow_cdc.spark_apps.compare.views import SinkView
from tests.apply_support import EVENTS, ITEMS, Bench, Topic, few_of, table, watermark

if TYPE_CHECKING:
    from airflow_cdc.spark_apps.apply.context import ApplyContext

BEFORE = Watermark.from_json(watermark(), read_position)


def compared(bench: Bench, topic: Topic, *, in_memory: bool = False) -> tail.Topic:
    """The topic as a comparison reads it."""
    ctx: ApplyContext = bench.context([topic])
    few: Any = (lambda name, bounds, most: few_of({topic.name: topic}, name, bounds, most)) if in_memory else None
    return tail.Topic(topic.table, topic.name, {0: topic.begin}, ctx.log, ctx.events, ctx.read, few)


def busy() -> Topic:
    """Twelve keys that are created, changed and deleted, with a tombstone after each delete."""
    topic = Topic(ITEMS)
    for number in range(12):
        topic.create(id=number, name=f"n{number}", qty=number)
    for number in range(0, 12, 2):
        topic.update({"id": number, "name": f"n{number}", "qty": number}, id=number, name="changed", qty=None)
    topic.delete(id=3, name="n3", qty=3)
    return topic


def whole(topic: Topic) -> dict[int, tuple[int, int]]:
    return {0: (0, topic.upto[topic.name][0])}


def read(bench: Bench, topic: Topic, *, in_memory: bool) -> list[Event]:
    some = tail.read_events(bench.spark, compared(bench, topic, in_memory=in_memory), whole(topic), {})
    return sorted(some, key=lambda event: event.offset)


def test_what_spark_reads_is_what_is_read_in_memory(bench: Bench) -> None:
    topic = busy()
    by_spark = read(bench, topic, in_memory=False)
    assert by_spark == read(bench, topic, in_memory=True)
    assert [event.op for event in by_spark] == ["c"] * 12 + ["u"] * 6 + ["d"]  # a tombstone says nothing of its own
    last = by_spark[-1]
    assert (last.key, last.after, last.bad) == ("3", None, "")
    assert (last.origin, last.place, last.transaction) == (
        BEFORE.server,
        (topic.gno, topic.pos, 0),
        f"{BEFORE.server}:{topic.gno}",
    )
    assert last.before is not None


def test_rows_without_a_key_are_known_by_their_images(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.create(kind="x", n=1)
    topic.update({"kind": "x", "n": 1}, kind="y", n=None)
    both = [read(bench, topic, in_memory=in_memory) for in_memory in (True, False)]
    assert both[0] == both[1]
    created, changed = both[1]
    assert (created.key, changed.key) == (None, None)
    assert created.after == changed.before != changed.after


def test_a_record_that_cannot_be_read_says_why_and_one_of_another_table_is_passed_over(bench: Bench) -> None:
    topic = busy()
    topic.raw(b'{"id":5}', b"{oops")
    topic.table = table("others", ITEMS.columns, ("id",))
    topic.create(id=1, name="theirs", qty=1)
    topic.table = ITEMS
    some = read(bench, topic, in_memory=True)  # not all is plain: left to Spark
    assert some == read(bench, topic, in_memory=False)
    assert [(event.offset, "not JSON" in event.bad) for event in some if event.bad] == [(20, True)]
    assert max(event.offset for event in some) == 20


def test_the_leaves_of_the_keys_in_a_topic(bench: Bench) -> None:
    topic = busy()
    topic.raw(b"garbled", None)
    ctx = bench.context([topic])
    raw = ctx.read(bench.spark, {topic.name: {0: (4, 9)}})
    assert tail.touched_leaves(raw, ITEMS, ctx.events, IntegerLeaves("id", 5)) == {0, 1}
    raw = ctx.read(bench.spark, {topic.name: {0: (topic.ends[0] - 1, topic.ends[0])}})
    assert tail.touched_leaves(raw, ITEMS, ctx.events, IntegerLeaves("id", 5)) == frozenset()


def test_a_tail_is_read_back_until_it_shows_what_is_a_repeat(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transactions before the ends reach back to the position, or to the topic's beginning."""
    topic = busy()
    asked = compared(bench, topic, in_memory=True)
    spans = list[int]()
    whole_of = asked.few

    def noted(name: str, bounds: Any, most: int) -> Any:
        spans.append(bounds[0][0])
        return whole_of(name, bounds, most) if whole_of else None

    monkeypatch.setattr(tail, "LOOK_BACK", (2, 4, 1_000))
    asked = replace(asked, few=noted)
    found = tail.read_tail(bench.spark, asked, {0: (15, 20)}, BEFORE)
    assert spans == [13, 11, 0]
    assert [event.offset for event in found.events] == [15, 16, 17, 18]
    spans.clear()
    reached = replace(BEFORE, position=Watermark.from_json(watermark(f"{BEFORE.server}:1-114"), read_position).position)
    found = tail.read_tail(bench.spark, asked, {0: (15, 20)}, reached)
    assert (spans, found.complete) == ([13], True)
    spans.clear()
    earlier = tail.read_earlier(bench.spark, asked, {0: (15, 20)}, reached)
    assert (spans, [event.offset for event in earlier]) == ([13], [13, 14])


def test_a_tail_of_nothing_asks_for_nothing(bench: Bench) -> None:
    def never(*_: object) -> Any:
        raise AssertionError("records were asked for")

    asked = replace(compared(bench, busy()), few=never, read=never)
    assert tail.read_tail(bench.spark, asked, {0: (7, 7)}, BEFORE).events == ()


# ---- in parts ---------------------------------------------------------------------------------------------------------------


def subject(bench: Bench, topic: Topic, ends: int) -> Subject:
    """The table as it was at these ends, its rows in a view of Spark's."""
    rows = [(number, f"n{number}", number) for number in range(8)]
    bench.spark.createDataFrame(rows, "id bigint, name string, qty int").createOrReplaceGlobalTempView(bench.namespace)
    sink = SinkView(bench.spark, f"global_temp.{bench.namespace}", 1)
    return Subject(ITEMS, sink, compared(bench, topic), {0: ends}, BEFORE)


def flown(events: Flights) -> tuple[dict[str, list[int]], dict[str, list[Any]], list[Flight]]:
    """Key → the offsets of its events; key → the sink's rows; the flights."""
    offsets, rows, every = dict[str, list[int]](), dict[str, list[Any]](), list[Flight]()
    for one in events.each():
        own = {event.key for event in one.tail.events if event.key is not None}
        for event in one.tail.events:
            if event.key is not None:
                offsets.setdefault(event.key, []).append(event.offset)
        rows |= one.sink(own, WHOLE)
        every.append(one)
    return offsets, rows, every


def both_ways(bench: Bench, topic: Topic, ends: int, monkeypatch: pytest.MonkeyPatch) -> Sequence[Any]:
    now = Reached(BEFORE, {topic.name: {0: topic.ends[0]}})
    found = []
    for at_once in (1_000, 6):
        monkeypatch.setattr(flight, "EVENTS_AT_ONCE", at_once)
        with flights(subject(bench, topic, ends), now) as events:
            found.append(flown(events))
    return found


def test_inv_24_many_events_in_parts_are_those_that_fit_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key's events are in one part, with the sink's rows under it."""
    topic = busy()
    at_once, spilled = both_ways(bench, topic, 10, monkeypatch)
    assert (
        spilled[0]
        == at_once[0]
        == {"0": [12], "2": [13], "4": [14], "6": [15], "8": [16], "10": [10, 17], "11": [11], "3": [18]}
    )
    assert spilled[1] == at_once[1]
    assert sorted(spilled[1]) == ["0", "2", "3", "4", "6"]
    assert (len(at_once[2]), len(spilled[2])) == (1, 2)


def test_inv_24_of_several_parts_only_the_keys_that_are_asked_for_are_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "EVENTS_AT_ONCE", 6)
    topic = busy()
    with flights(subject(bench, topic, 10), Reached(BEFORE, {topic.name: {0: topic.ends[0]}})) as events:
        asked = [event.key for one in events.each(only={"10", "3"}) for event in one.tail.events]
    assert sorted(str(key) for key in asked) == ["10", "10", "3"]


def test_inv_24_an_event_without_a_readable_key_is_in_every_part(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may concern any key, so none of them is proven by its own events alone."""
    monkeypatch.setattr(flight, "EVENTS_AT_ONCE", 6)
    topic = busy()
    topic.raw(b"garbled", b"{oops")
    with flights(subject(bench, topic, 10), Reached(BEFORE, {topic.name: {0: topic.ends[0]}})) as events:
        every = list(events.each())
        narrowed = list(events.each(only={"3"}))
    assert len(every) > 1
    assert all(any(event.bad for event in one.tail.events) for one in (*every, *narrowed))
    assert all(one.caveats(placed=True) for one in every)


def test_inv_24_a_row_that_changes_too_often_is_named_and_not_held(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "EVENTS_AT_ONCE", 6)
    monkeypatch.setattr(flight, "EVENTS_OF_KEY", 3)
    topic = busy()
    for number in range(9):
        topic.update({"id": 7, "name": "n7", "qty": 7}, id=7, name=f"v{number}", qty=7)
    with flights(subject(bench, topic, 10), Reached(BEFORE, {topic.name: {0: topic.ends[0]}})) as events:
        every = list(events.each())
    hot = [one for one in every if one.hot]
    assert [one.hot for one in hot] == [("7",)]
    assert "a row changed more than 3 times while the table was compared: 7" in hot[0].caveats(placed=True)
    assert sum(event.key == "7" for event in hot[0].tail.events) == 4


def test_a_table_of_which_no_events_are_examined_has_one_empty_flight(bench: Bench) -> None:
    topic = busy()
    quiet = replace(subject(bench, topic, 10), topic=None)
    with flights(quiet, Reached(BEFORE, {topic.name: {0: topic.ends[0]}})) as events:
        (one,) = events.each()
    assert one.tail.events == ()
    assert list(one.sink(["3"], WHOLE)) == ["3"]
