"""The source's own rows as a witness: a decoding error that wrote the sink and reads the events is still found (INV 28)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from airflow_cdc.core.report import Verdict
from airflow_cdc.decisions.compare.verdict import STRANGE
from stack.process import wait_until
from tests.integration.rig import Rig
from tests.integration.verify_support import NUMBERS, Scene, counts, make_scene


@pytest.fixture(params=[pytest.param("by Spark", marks=pytest.mark.slow), "in memory"])
def scene(rig: Rig, request: pytest.FixtureRequest) -> Callable[..., Scene]:
    """`scene(name, *ddl)`: the table made, filled and read into a stage; few rows and events are read in either way."""
    return partial(make_scene, rig, in_memory=request.param == "in memory")


@dataclass(frozen=True, slots=True)
class Misread:
    """A column whose value the connector reads otherwise than the server.

    `right` and `wrong` are values as an event carries them, `sink` is the wrong one as the sink stores it (Spark SQL).
    """

    kind: str
    value: str
    right: Any
    wrong: Any
    sink: str


MISREAD = {
    "null for a text": Misread("VARCHAR(20) NULL DEFAULT 'NULL'", "NULL", None, "NULL", "'NULL'"),
    # U+FFFD, as Debezium writes it, would make the events dead letters
    "latin1 without a character": Misread("VARCHAR(20) CHARACTER SET latin1", "X'818D'", "\x81\x8d", "??", "'??'"),
    "a year of two digits": Misread("DATE", "'0024-05-06'", -710636, 19849, "DATE'2024-05-06'"),
    "hp8": Misread("VARCHAR(20) CHARACTER SET hp8", "'é'", "é", "Å", "'Å'"),
    "digits of a JSON number": Misread(
        "JSON",
        "JSON_OBJECT('a', 0.123456789012)",
        '{"a":0.123456789012}',
        '{"a":0.1234567890}',
        "'{\"a\":0.123456789}'",
    ),
}
CASES = [pytest.param(case, id=name) for name, case in MISREAD.items()]


def misread_scene(scene: Callable[..., Scene], case: Misread, rows: int = 2) -> Scene:
    fill = f"INSERT INTO t {NUMBERS.format(rows)} SELECT i, {case.value}, 0 FROM n"
    return scene("t", f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {case.kind}, n INT)", fill)


@contextmanager
def hot(made: Scene, value: Any) -> Iterator[None]:
    """Both rows get another `n` about 30 times a second; their events carry `value` for the column `v`."""
    stop = threading.Event()

    def write() -> None:
        n = 0
        with closing(made.rig.server.connect(database=made.rig.schema)) as connection, connection.cursor() as cursor:
            while not stop.wait(1 / 30):
                n += 1
                with made.lock:
                    cursor.execute("UPDATE t SET n = %s", (n,))
                    for number in (1, 2):
                        made.events.update({"id": number, "v": value, "n": n - 1}, id=number, v=value, n=n)

    made.start = 0
    thread = threading.Thread(target=write)
    thread.start()
    wait_until(lambda: len(made.events.records) >= 4 or None, timeout=30, interval=0.05, what="the first changes")
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("case", CASES)
def test_inv_28_a_value_that_events_carry_wrongly_is_no_match_in_flight(
    scene: Callable[..., Scene], case: Misread
) -> None:
    """Sink and events agree, because one decoder made both; the source's own row is none of what they say."""
    made = misread_scene(scene, case)
    with hot(made, case.right):
        verdict, outcome = made.verdict()
    assert verdict is Verdict.MATCH, (outcome.tally, outcome.caveats)
    assert outcome.in_flight == 2
    made.sink(f"UPDATE {{}} SET v = {case.sink}")
    made.events.records.clear()
    made.events.ends.clear()
    made.source("UPDATE t SET n = 0")
    with hot(made, case.wrong):
        verdict, outcome = made.verdict()
    assert outcome.in_flight == 2
    assert verdict is Verdict.MISMATCH, outcome.tally
    assert counts(outcome) == (0, 0, 2, 0)
    assert outcome.caveats == (STRANGE,)
    assert (outcome.source_rows, outcome.sink_rows) == (2, 2)


@pytest.mark.parametrize("case", CASES)
def test_inv_28_a_value_that_was_decoded_wrongly_is_no_match_at_rest(
    scene: Callable[..., Scene], case: Misread
) -> None:
    """The source's digests are computed by the source over what it holds: no decoder of ours takes part."""
    made = misread_scene(scene, case)
    assert made.verdict()[0] is Verdict.MATCH
    made.sink(f"UPDATE {{}} SET v = {case.sink}")
    verdict, outcome = made.verdict()
    assert verdict is Verdict.MISMATCH
    assert counts(outcome) == (0, 0, 2, 0)


def test_inv_28_a_wrong_image_in_the_middle_of_the_log_is_no_match(scene: Callable[..., Scene]) -> None:
    """The sink is right at the ends; what the events make of the row next is not what the source holds."""
    made = misread_scene(scene, MISREAD["hp8"])
    made.start = 0
    made.source("UPDATE t SET v = 'ü' WHERE id = 1")
    made.events.update({"id": 1, "v": "é", "n": 0}, id=1, v="Ï", n=0)
    verdict, outcome = made.verdict()
    assert (verdict, outcome.tally.samples["different"]) == (Verdict.MISMATCH, ["1"])


def test_inv_28_rows_that_come_and_go_have_a_witness_too(scene: Callable[..., Scene]) -> None:
    """A row that the log changes and the source does not hold is no match; one that came and went again is."""
    made = misread_scene(scene, MISREAD["hp8"])
    made.start = 0
    made.events.create(id=3, v="é", n=0)
    made.events.delete(id=3, v="é", n=0)
    verdict, outcome = made.verdict()
    assert (verdict, outcome.in_flight) == (Verdict.MATCH, 1)
    made.source("DELETE FROM t WHERE id = 1")
    made.events.update({"id": 1, "v": "é", "n": 0}, id=1, v="é", n=1)
    verdict, outcome = made.verdict()
    assert (verdict, outcome.tally.samples["different"]) == (Verdict.MISMATCH, ["1"])


def test_inv_28_a_change_that_the_view_shows_late_is_no_difference(scene: Callable[..., Scene]) -> None:
    """The sink holds a change, and the log the next one, before the source's first view shows either (INV 7)."""
    made = misread_scene(scene, MISREAD["hp8"])
    made.sink("UPDATE {} SET n = 1 WHERE id = 1")
    made.sink("INSERT INTO {} VALUES (3, 'é', 0)")
    made.start = 0
    made.events.update({"id": 1, "v": "é", "n": 1}, id=1, v="é", n=2)
    made.events.update({"id": 3, "v": "é", "n": 0}, id=3, v="é", n=1)

    def visible(number: int) -> None:
        if number == 0:
            made.source("UPDATE t SET n = 2 WHERE id = 1")
            made.source("INSERT INTO t VALUES (3, 'é', 1)")

    verdict, outcome = made.verdict(visible)
    assert verdict is Verdict.MATCH, outcome.tally
    assert (outcome.source_rows, outcome.sink_rows) == (3, 3)


def test_inv_28_records_that_prove_nothing_are_no_witness_against_a_row(scene: Callable[..., Scene]) -> None:
    """A truncate takes rows away without an event for each: their keys are doubted, and not called different."""
    made = misread_scene(scene, MISREAD["hp8"])
    made.start = 0
    made.events.update({"id": 1, "v": "é", "n": 0}, id=1, v="é", n=1)
    made.events.update({"id": 2, "v": "é", "n": 0}, id=2, v="é", n=1)
    made.events.truncate()
    made.source("TRUNCATE TABLE t")
    assert made.verdict()[0] is Verdict.INCONCLUSIVE


def test_inv_28_a_wrong_image_of_a_row_without_a_key_is_no_match(scene: Callable[..., Scene]) -> None:
    """Such rows are counted: copies that the source does not hold, and copies that no event took away."""
    fill = "INSERT INTO t VALUES ('é', 1), ('é', 1), ('e', 2)"
    made = scene("t", "CREATE TABLE t (v VARCHAR(20) CHARACTER SET hp8, n INT)", fill)
    made.sink("UPDATE {} SET v = 'Å' WHERE n = 1")
    made.start = 0
    made.source("UPDATE t SET n = 3 WHERE n = 1 LIMIT 1")
    made.events.update({"v": "Å", "n": 1}, v="Å", n=3)
    verdict, outcome = made.verdict()
    assert verdict is Verdict.MISMATCH, outcome.tally
