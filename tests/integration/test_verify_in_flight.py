"""Comparisons while the source goes on: what is in flight is no fault, and a fault in flight is found."""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.leaves import choose_scheme
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.spark_apps.compare import flight, judge, ranges, scan
from tests import apply_support
from tests.integration.rig import Rig
from tests.integration.verify_support import (
    EVENTS,
    FILL,
    FILL_EVENTS,
    ORDERS,
    Scene,
    counts,
    five_changes,
    make_scene,
    order,
)

if TYPE_CHECKING:
    pass


@pytest.fixture
def scene(rig: Rig) -> Callable[..., Scene]:
    """`scene(name, *ddl)`: the table made, filled and read into a stage."""
    return partial(make_scene, rig)


RANGES = "on several connections"
WAYS = ["at once", "in parts", RANGES]


@pytest.fixture(params=[WAYS[0], *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS[1:])])
def in_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """`in_parts(n)`: what comes while a table is compared is judged at once, or spilled and judged in parts of n events.

    Or the source's table is digested as a large one, in ranges of its leaves.
    """
    opened = ranges.RangesView.split

    def split(view: ranges.RangesView, *arguments: Any) -> ranges.RangesView:
        result = opened(view, *arguments)
        assert len(result.views) == len(result.ranges.ends) + 1 > 1  # type: ignore[union-attr]
        request.node.user_properties.append(("views", len(result.views)))
        return result

    def spill(events: int) -> None:
        if request.param == "in parts":
            monkeypatch.setattr(flight, "EVENTS_AT_ONCE", events)
        if request.param == RANGES:
            monkeypatch.setattr(scan, "RANGE_ROWS", 0)
            monkeypatch.setattr(scan, "choose_scheme", partial(choose_scheme, leaf_rows=50))
            monkeypatch.setattr(ranges.RangesView, "split", split)

    yield spill
    assert request.param != RANGES or request.node.user_properties


@pytest.mark.parametrize("when", ["before the read", "between read and ends"])
def test_inv_24_keys_in_flight_are_judged_by_the_log(
    scene: Callable[..., Scene], when: str, in_parts: Callable[[int], None]
) -> None:
    in_parts(3)
    made = scene("orders", ORDERS, FILL)
    if when == "before the read":
        made.start = 0
        five_changes(made)
        found, outcome = made.verdict()
    else:
        found, outcome = made.verdict(lambda number: five_changes(made) if number == 0 else None)
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight == 6
    assert (outcome.source_rows, outcome.sink_rows) == (1000, 1000)


def test_inv_24_a_row_that_changes_too_often_is_a_doubt(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other changes are not looked at, so nothing is proven of it; all other rows are judged."""
    monkeypatch.setattr(flight, "EVENTS_AT_ONCE", 6)
    monkeypatch.setattr(flight, "EVENTS_OF_KEY", 3)
    made = scene("orders", ORDERS, FILL)

    def change_often(number: int) -> None:
        if number == 0:
            for qty in range(20, 25):
                made.source(f"UPDATE orders SET qty = {qty} WHERE id = 7")
                made.events.update(order(7, **({"qty": qty - 1} if qty > 20 else {})), **order(7, qty=qty))
            five_changes(made)

    found, outcome = made.verdict(change_often)
    assert found is Verdict.INCONCLUSIVE
    assert outcome.caveats == ("a row changed more than 3 times while the table was compared: 7",)
    assert (outcome.in_flight, counts(outcome)) == (7, (0, 0, 0, 0))


def test_inv_24_too_many_changes_of_a_table_without_a_key_are_a_doubt(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "MAX_CHANGES", 2)
    made = scene("events", EVENTS, FILL_EVENTS)

    def insert(number: int) -> None:
        for n in range(3 * (number == 0)):
            made.source(f"INSERT INTO events VALUES ('a', {n})")
            made.events.create(kind="a", n=n)

    found, outcome = made.verdict(insert)
    assert found is Verdict.INCONCLUSIVE
    assert "3 events came while the table, which has no key" in " ".join(outcome.caveats)


@pytest.mark.parametrize("in_parts", WAYS, indirect=True)
def test_inv_24_a_wrong_row_in_flight_is_found(scene: Callable[..., Scene], in_parts: Callable[[int], None]) -> None:
    """Also when the source's later value happens to be what the sink holds: the log knows what was there at the ends."""
    in_parts(1)
    made = scene("orders", ORDERS, FILL)
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")  # what the source will hold a moment later
    made.sink("DELETE FROM {} WHERE id = 11")
    made.sink("INSERT INTO {} VALUES (2000, 'n2000', 2, NULL)")
    made.start = 0
    five_changes(made)
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (1, 1, 1, 0)
    assert outcome.tally.samples["different"] == ["10"]


def test_inv_24_repeats_after_a_restart_are_no_evidence(
    scene: Callable[..., Scene], in_parts: Callable[[int], None]
) -> None:
    """The connector sends changes again that the sink held at the ends; their before images are older than that."""
    in_parts(1)
    made = scene("orders", ORDERS, FILL)
    first = made.events.update(order(10), **order(10, qty=50))
    second = made.events.update(order(10, qty=50), **order(10, qty=60))
    made.source("UPDATE orders SET qty = 60 WHERE id = 10")
    made.sink("UPDATE {} SET qty = 60 WHERE id = 10")
    made.start = 2
    made.events.event("u", order(10), order(10, qty=50), source=first)
    made.events.event("u", order(10, qty=50), order(10, qty=60), source=second)
    assert made.verdict()[0] is Verdict.MATCH
    made.source("UPDATE orders SET qty = 70 WHERE id = 10")
    made.events.update(order(10, qty=60), **order(10, qty=70))
    found, outcome = made.verdict()
    assert found is Verdict.MATCH, outcome.tally


def test_inv_07_a_change_that_is_shown_later_than_it_is_logged_is_no_difference(scene: Callable[..., Scene]) -> None:
    """The sink applied a change that the source's first read did not show yet."""
    made = scene("orders", ORDERS, FILL)
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")
    found, outcome = made.verdict(lambda n: made.source("UPDATE orders SET qty = 50 WHERE id = 10") if n == 0 else None)
    assert found is Verdict.MATCH
    assert outcome.tally.equal == 1


def test_a_source_that_changes_without_a_log_is_never_called_equal(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    values = itertools.count(100)
    made.source("UPDATE orders SET qty = 99 WHERE id = 10")
    found, outcome = made.verdict(lambda _: made.source(f"UPDATE orders SET qty = {next(values)} WHERE id = 10"))
    assert found is Verdict.INCONCLUSIVE
    assert counts(outcome) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("doubt", "say"),
    [
        (lambda e: e.truncate(), "truncated"),
        (lambda e: e.event("r", None, order(5)), "read the table again"),
        (lambda e: e.raw(b'{"id":5}', b"no json"), "cannot be decoded"),
        (lambda e: e.event("u", None, order(5)), "no image of the row before"),
    ],
)
def test_events_that_prove_nothing_leave_the_table_inconclusive(
    scene: Callable[..., Scene], doubt: Callable[[apply_support.Topic], None], say: str
) -> None:
    made = scene("orders", ORDERS, FILL)
    found, outcome = made.verdict(lambda number: doubt(made.events) if number == 0 else None)
    assert found is not Verdict.MATCH
    assert say in " ".join(outcome.caveats)


@pytest.fixture
def busy(scene: Callable[..., Scene]) -> Iterator[Scene]:
    """A writer that changes `orders` without pause, each change in source and topic, from the read on."""
    made = scene("orders", ORDERS, FILL)
    rows = {number: order(number) for number in range(1, 1001)}
    stop = threading.Event()

    def write() -> None:
        rng = random.Random(7)
        with closing(made.rig.server.connect(database=made.rig.schema)) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                number = rng.randrange(1, 1200)
                with made.lock:
                    change(made.events, cursor, rows, number, rng)

    thread = threading.Thread(target=write)
    thread.start()
    yield made
    stop.set()
    thread.join()


def change(
    events: apply_support.Topic, cursor: Any, rows: dict[int, dict[str, Any]], number: int, rng: random.Random
) -> None:
    old = rows.get(number)
    if old is None:
        rows[number] = order(number, qty=rng.randrange(99))
        cursor.execute("INSERT INTO orders VALUES (%(id)s, %(name)s, %(qty)s, %(doc)s)", rows[number])
        events.create(**rows[number])
    elif rng.random() < 0.2:
        cursor.execute("DELETE FROM orders WHERE id = %(id)s", rows.pop(number))
        events.delete(**old)
    else:
        rows[number] = {**old, "qty": rng.randrange(99), "doc": f'{{"b":{rng.randrange(9)}}}'}
        cursor.execute("UPDATE orders SET qty = %(qty)s, doc = %(doc)s WHERE id = %(id)s", rows[number])
        events.update(old, **rows[number])


def test_inv_24_it_ends_under_writes_and_is_right(busy: Scene, in_parts: Callable[[int], None]) -> None:
    """Nearly every key changes while it is compared; then one row of the branch is made wrong."""
    in_parts(200)
    busy.start = 0
    found, outcome = busy.verdict()
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight > 100
    assert (outcome.source_rows, outcome.sink_rows) == (1000, 1000)
    busy.sink("UPDATE {} SET name = 'wrong' WHERE id IN (7, 900)")
    found, outcome = busy.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 0, 2, 0)
    assert sorted(outcome.tally.samples["different"]) == ["7", "900"]


def event(kind: str | None, number: int) -> dict[str, Any]:
    return {"kind": kind, "n": number}


def test_copies_of_rows_without_a_key_are_counted(scene: Callable[..., Scene]) -> None:
    made = scene("events", EVENTS, FILL_EVENTS)
    assert made.verdict()[0] is Verdict.MATCH
    made.source("INSERT INTO events VALUES ('a', 3), ('a', 3), (NULL, 999)")
    made.sink("INSERT INTO {} VALUES ('b', 4)")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (3, 1, 0, 0)


def logged(made: Scene, statement: str, op: str, before: Any, after: Any) -> None:
    """A change in source and topic, the event with the place that the server gave it."""
    made.source(statement)
    now = made.rig.source.position()
    at = mysql_position(now.position)
    place: dict[str, Any] = {"file": at.file, "pos": at.pos - 100, "server_id": at.server_id}
    if at.gtids is not None:
        ((_, _, spans),) = [item for item in at.gtids.items if item[0] == now.server]
        place["gtid"] = f"{now.server}:{spans[-1][1]}"
    made.events.event(op, before, after, source=made.events.source(**place))


@pytest.mark.parametrize("when", [-1, 0])
def test_inv_24_images_in_flight_are_taken_back(scene: Callable[..., Scene], when: int) -> None:
    """Changes that the source's view already holds (-1), and changes after it (0)."""
    made = scene("events", EVENTS, FILL_EVENTS)
    made.start = 0
    one_b = "WHERE kind = 'b' AND n = {} LIMIT 1"

    def changes(number: int) -> None:
        if number == when:
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, f"DELETE FROM events {one_b.format(7)}", "d", event("b", 7), None)
            logged(made, f"UPDATE events SET n = 1000 {one_b.format(16)}", "u", event("b", 16), event("b", 1000))

    changes(-1)
    found, outcome = made.verdict(changes)
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight == 4
    assert outcome.source_rows == outcome.sink_rows == 300


def test_inv_24_a_wrong_count_in_flight_is_found(scene: Callable[..., Scene]) -> None:
    """The sink holds what the source will hold a moment later."""
    made = scene("events", EVENTS, FILL_EVENTS)
    made.sink("INSERT INTO {} VALUES ('a', 3), ('a', 3)")

    def changes(number: int) -> None:
        if number == 0:
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))
            logged(made, "INSERT INTO events VALUES ('a', 3)", "c", None, event("a", 3))

    found, outcome = made.verdict(changes)
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 2, 0, 0)
    assert outcome.source_rows == 300


def test_inv_24_transaction_numbers_that_do_not_rise_are_changes(
    scene: Callable[..., Scene], in_parts: Callable[[int], None]
) -> None:
    """A number below the last one is no repeat: a group gives its members blocks, and gtid_next fills from below."""
    in_parts(1)
    made = scene("orders", ORDERS, FILL)
    group = str(uuid.uuid4())

    def numbered(number: int, before: int, qty: int) -> None:
        gtid = f"{group}:{number}"
        made.source(
            f"SET @@SESSION.gtid_next = '{gtid}'",
            f"UPDATE orders SET qty = {qty} WHERE id = 10",
            "SET @@SESSION.gtid_next = 'AUTOMATIC'",
        )
        place = made.events.source(gtid=gtid)
        made.events.event("u", order(10, qty=before), order(10, qty=qty), source=place)

    numbered(1_000_007, 1, 50)
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")
    found, outcome = made.verdict(lambda number: numbered(8, 50, 60) if number == 0 else None)
    assert found is Verdict.MATCH, outcome.tally
    assert outcome.in_flight == 1


@pytest.mark.parametrize("again", [1, 300])
def test_inv_24_repeats_are_known_however_far_back_they_came_first(scene: Callable[..., Scene], again: int) -> None:
    """The connector goes back by many transactions after a restart; their first copies are far behind the ends."""
    made = scene("orders", ORDERS, FILL)
    first = made.events.update(order(10), **order(10, qty=50))
    for number in range(again):
        made.events.update(order(11, qty=number), **order(11, qty=number + 1))
    made.sink("UPDATE {} SET qty = 50 WHERE id = 10")
    made.sink(f"UPDATE {{}} SET qty = {again} WHERE id = 11")
    made.source("UPDATE orders SET qty = 51 WHERE id = 10", f"UPDATE orders SET qty = {again} WHERE id = 11")
    made.start = len(made.events.records)
    made.events.event("u", order(10), order(10, qty=50), source=first)
    made.events.update(order(10, qty=50), **order(10, qty=51))
    found, outcome = made.verdict()
    assert found is Verdict.MATCH, (outcome.tally, outcome.caveats)
