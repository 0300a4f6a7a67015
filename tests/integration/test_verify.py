"""The comparison on a real server and real stages, with topics in memory: it must find every fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare import verdict
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves, Leaf, leaf_of
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.repair import RepairPlan, refusal
from airflow_cdc.spark_apps.compare.views import SinkView
from airflow_cdc.spark_apps.driver.progress import Progress
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.snapshot.differences import read_differences
from airflow_cdc.spark_apps.types import sink_type
from tests.apply_support import no_session
from tests.integration.every_type import CASES, create_sql, insert_sql, row_id
from tests.integration.rig import Rig
from tests.integration.verify_support import (
    EVENTS,
    FILL,
    FILL_EVENTS,
    GTID_UUID,
    NUMBERS,
    ORDERS,
    PLAIN,
    Scene,
    counts,
    five_changes,
    make_scene,
    order,
)

if TYPE_CHECKING:
    pass


@pytest.fixture(params=["by Spark", "in memory"])
def scene(rig: Rig, request: pytest.FixtureRequest) -> Callable[..., Scene]:
    """`scene(name, *ddl)`: the table made, filled and read into a stage; few rows and events are read in either way."""
    return partial(make_scene, rig, in_memory=request.param == "in memory")


# what changes a value of each sink type, as Spark SQL over the column {c}
OTHER = {
    "double": "IF({c} <=> 5.5, 6.5, 5.5)",
    "string": "concat(coalesce({c}, ''), 'x')",
    "binary": "concat(coalesce({c}, X''), X'01')",
    "date": "IF({c} <=> DATE'2000-02-29', DATE'2000-03-01', DATE'2000-02-29')",
    "timestamp": "coalesce({c}, timestamp_micros(1)) + INTERVAL 1 SECOND",
    "timestamp_ntz": "coalesce({c}, TIMESTAMP_NTZ'2000-01-01') - INTERVAL 0.000001 SECOND",
    "struct<srid:int,wkb:binary>": "named_struct('srid', coalesce({c}.srid, 0) + 1, 'wkb', {c}.wkb)",
}


def other(table: Table, name: str) -> str:
    kind = sink_type(table.column(name))
    text = OTHER.get(kind, "IF({c} <=> 5, 6, 5)")
    return f"CAST({text.replace('{c}', quote_ident(name))} AS {kind})"


def test_one_changed_value_of_every_type_one_row_gone_and_one_too_many(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each type's column is changed in a row of its own, in the branch: all are found, and named by their key."""
    monkeypatch.setattr(verdict, "SAMPLE_KEYS", 1000)
    cases = [case for case in CASES if case.changeable]
    names = ", ".join(quote_ident(case.name) for case in cases)
    same = ", ".join(f"t.{quote_ident(case.name)}" for case in cases)
    copies = f"INSERT INTO t (id, {names}) {NUMBERS.format(len(cases) + 2)} SELECT 1000 + n.i, {same} FROM n, t WHERE id = {row_id(0)}"
    made = scene("t", create_sql("t"), *insert_sql("t"), copies)
    assert made.verdict()[0] is Verdict.MATCH
    changes = [
        f"{quote_ident(case.name)} = IF(id = {1001 + at}, {other(made.table, case.name)}, {quote_ident(case.name)})"
        for at, case in enumerate(cases)
    ]
    made.sink(f"UPDATE {{}} SET {', '.join(changes)}")
    gone, extra = 1001 + len(cases), 5000
    made.sink(f"DELETE FROM {{}} WHERE id = {gone}")
    columns = ", ".join(quote_ident(column.name) for column in made.table.mirrored if column.name != "id")
    made.sink(f"INSERT INTO {{}} (id, {columns}) SELECT {extra}, {columns} FROM {{}} WHERE id = {gone + 1}")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (1, 1, len(cases), 0)
    assert set(outcome.tally.samples["different"]) == {str(1001 + at) for at in range(len(cases))}
    assert outcome.tally.samples["missing"] == [str(gone)]
    assert outcome.tally.samples["ghosts"] == [str(extra)]


def test_equal_sides_match_and_are_counted(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    found, outcome = made.verdict()
    assert found is Verdict.MATCH
    assert (outcome.source_rows, outcome.sink_rows, outcome.leaves_rechecked) == (1000, 1000, 0)
    assert outcome.leaves >= 1


def test_inv_25_a_difference_in_json_alone_is_found_in_every_row(scene: Callable[..., Scene]) -> None:
    """JSON is in no leaf digest; spelling does not count, JSON null is not NULL."""
    made = scene("orders", ORDERS, FILL)
    made.source('UPDATE orders SET doc = \'{"a": 1.50, "b": 3}\' WHERE id = 3')
    assert made.verdict()[0] is Verdict.MATCH
    made.sink('UPDATE {} SET doc = \'{"a":1.5,"b":7}\' WHERE id = 4')
    made.source("UPDATE orders SET doc = 'null' WHERE id = 5")
    made.sink("UPDATE {} SET doc = NULL WHERE id = 5")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert outcome.leaves_rechecked == 0
    assert outcome.tally.samples["different"] == ["4", "5"]


def test_inv_25_rows_beyond_the_ends_are_compared_too(scene: Callable[..., Scene]) -> None:
    made = scene("plain", PLAIN, f"INSERT INTO plain {NUMBERS.format(100)} SELECT i, CONCAT('n', i) FROM n")
    made.sink("INSERT INTO {} VALUES (-9223372036854775808, 'low'), (9223372036854775807, 'high')")
    made.source("INSERT INTO plain VALUES (99999999, 'mine')")
    _, outcome = made.verdict()
    assert counts(outcome) == (1, 2, 0, 0)


def test_a_key_that_stands_twice_in_the_sink_is_a_ghost(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    made.sink("INSERT INTO {} SELECT * FROM {} WHERE id = 17")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 1, 0, 0)
    assert outcome.tally.samples["ghosts"] == ["17"]


def test_inv_04_what_is_committed_after_the_pinned_snapshot_is_not_what_is_compared(
    scene: Callable[..., Scene],
) -> None:
    made = scene("orders", ORDERS, FILL)
    pinned = made.head
    made.sink("DELETE FROM {} WHERE id < 500")
    made.head = pinned
    found, outcome = made.verdict()
    assert found is Verdict.MATCH
    assert outcome.sink_rows == 1000


def test_inv_09_the_comparison_reads_no_other_server(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL)
    foreign = replace(made.rig.source.watermark(), server=GTID_UUID)
    with (
        pytest.raises(SourceError),
        made.rig.tools().reader.view(made.table, at=foreign),
    ):
        pytest.fail("a view of another server was opened")


def test_many_differences_are_counted_exactly(scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """More suspects than are settled one by one."""
    monkeypatch.setattr("airflow_cdc.spark_apps.compare.judge.MAX_SUSPECTS", 50)
    made = scene("orders", ORDERS, FILL)
    made.source("DELETE FROM orders WHERE id <= 300")
    made.source("UPDATE orders SET qty = 77 WHERE id > 700")
    _, outcome = made.verdict()
    assert counts(outcome) == (0, 300, 300, 0)
    assert len(outcome.tally.samples["ghosts"]) == verdict.SAMPLE_KEYS


def test_inv_24_a_table_that_is_wholly_wrong_is_a_mismatch_of_which_some_keys_are_held(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows differ, the driver holds so many keys and counts the rest; such a table is not repaired by key."""
    for module in ("spark_apps.compare.judge", "spark_apps.compare.scan", "decisions.compare.verdict"):
        monkeypatch.setattr(f"airflow_cdc.{module}.KEYS_HELD", 100)
    monkeypatch.setattr("airflow_cdc.spark_apps.compare.judge.MAX_SUSPECTS", 50)
    made = scene("orders", ORDERS, FILL)
    made.source("DELETE FROM orders WHERE id <= 300")
    made.source("UPDATE orders SET qty = 77 WHERE id > 300")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (0, 300, 700, 0)
    assert (len(outcome.tally.keys), outcome.tally.left_out) == (100, 900)
    plan = RepairPlan.of(made.table, outcome.tally, outcome.sink_rows)
    assert "1000 of its rows differ" in refusal(Policy(approval="never"), plan, {})


def test_leaves_in_python_are_those_of_both_engines(scene: Callable[..., Scene]) -> None:
    made = scene("orders", ORDERS, FILL, "INSERT INTO orders VALUES (-7, 'x', 1, NULL), (-30, 'y', 1, NULL)")
    sink = SinkView(made.rig.spark, made.rig.tools().writer.at(made.rig.spark, made.stage, made.head), made.head)
    with made.rig.tools().reader.view(made.table, at=made.rig.source.position()) as view:
        for scheme in (IntegerLeaves("id", 10), HashLeaves(13)):
            leaves = sorted(view.leaves(scheme, WHOLE))
            for leaf in (leaves[0], leaves[1], leaves[-1]):
                ours = sorted(view.hashes(scheme, [leaf], WHOLE))
                assert ours == sorted(sink.hashes(made.table, scheme, [leaf]))
                assert {leaf_of(made.table, scheme, key) for key, _ in ours} == {leaf}


DAYS = "CREATE TABLE days (day DATE NOT NULL PRIMARY KEY, n INT)"
FILL_DAYS = "INSERT INTO days VALUES ('0000-00-00', 1), ('1970-01-01', 2), ('2020-02-29', 3)"


def test_inv_34_two_rows_of_the_source_that_are_one_in_the_sink_are_no_match(scene: Callable[..., Scene]) -> None:
    """A zero date that may not be NULL is the epoch in the sink: an event about one of the rows replaced both."""
    made = scene("days", DAYS, FILL_DAYS)
    made.sink("DELETE FROM {} WHERE n = 1")
    found, outcome = made.verdict()
    assert found is Verdict.MISMATCH
    assert counts(outcome) == (1, 0, 0, 0)
    assert (outcome.source_rows, outcome.sink_rows) == (3, 2)
    assert "2 rows of the source have the same key in the sink" in " ".join(outcome.reasons)


def test_inv_34_two_rows_with_one_key_in_flight_are_a_doubt(scene: Callable[..., Scene]) -> None:
    """Their events do not say which of them they are about."""
    made = scene("days", DAYS, FILL_DAYS)
    made.sink("DELETE FROM {} WHERE n = 1")
    made.start = 0
    made.source("UPDATE days SET n = 4 WHERE day = '1970-01-01'")
    made.events.update({"day": 0, "n": 2}, day=0, n=4)
    found, outcome = made.verdict()
    assert found is Verdict.INCONCLUSIVE
    assert outcome.source_rows == 3


@pytest.mark.parametrize("table", [("orders", ORDERS, FILL), ("events", EVENTS, FILL_EVENTS)], ids=["key", "no key"])
def test_inv_34_a_leaf_that_differs_while_no_row_in_it_does_is_a_doubt(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, table: tuple[str, ...]
) -> None:
    made = scene(*table)
    digested = SinkView.leaves

    def lying(view: SinkView, *asked: Any) -> dict[int, Leaf]:
        return {leaf: digest._replace(lane2=digest.lane2 ^ 1) for leaf, digest in digested(view, *asked).items()}

    monkeypatch.setattr(SinkView, "leaves", lying)
    found, outcome = made.verdict()
    assert found is Verdict.INCONCLUSIVE
    assert counts(outcome) == (0, 0, 0, 0)
    assert "no row in them explains it" in " ".join(outcome.reasons)


def test_inv_34_counts_that_no_row_explains_are_a_doubt(
    scene: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene("orders", ORDERS, FILL)
    one_side = iter((1000, 999))
    monkeypatch.setattr("airflow_cdc.spark_apps.compare.judge.rows_in", lambda _: next(one_side))
    found, outcome = made.verdict()
    assert found is Verdict.INCONCLUSIVE
    assert "the rows that differ do not explain it" in " ".join(outcome.reasons)


def test_inv_34_a_row_that_comes_into_view_late_is_counted(scene: Callable[..., Scene]) -> None:
    """The sink holds an insert and a delete that the source's first view does not show yet (INV 7)."""
    made = scene("orders", ORDERS, FILL)
    made.sink("INSERT INTO {} VALUES (2000, 'n2000', 2, NULL)")
    made.sink("DELETE FROM {} WHERE id IN (10, 11)")

    def visible(number: int) -> None:
        if number == 0:
            made.source("INSERT INTO orders VALUES (2000, 'n2000', 2, NULL)")
            made.source("DELETE FROM orders WHERE id IN (10, 11)")

    found, outcome = made.verdict(visible)
    assert found is Verdict.MATCH, outcome.reasons
    assert (outcome.source_rows, outcome.sink_rows) == (999, 999)


GENERATED = (
    "doubled INT AS (n * 2) STORED, label VARCHAR(20) AS (CONCAT('n', n)) VIRTUAL, doc JSON AS (JSON_OBJECT('n', n))"
)


def test_inv_25_generated_columns_are_read_again_after_their_expression_changed(
    scene: Callable[..., Scene], rig: Rig
) -> None:
    """The ALTER writes no row event: every row of the sink still has the old expression's value."""
    made = scene(
        "made",
        f"CREATE TABLE made (id INT PRIMARY KEY, n INT, {GENERATED})",
        f"INSERT INTO made (id, n) {NUMBERS.format(40)} SELECT i, i FROM n",
    )
    assert made.verdict()[0] is Verdict.MATCH
    rig.lake.publish(made.stage, made.head, made.stage.base_head)
    made.source("ALTER TABLE made MODIFY label VARCHAR(20) AS (IF(n > 30, CONCAT('m', n), CONCAT('n', n))) VIRTUAL")
    made.table = rig.table("made")
    found, outcome = made.verdict()
    assert (found, counts(outcome)) == (Verdict.MISMATCH, (0, 0, 10, 0))
    reading = rig.reading(made.table, rig.source.watermark(), "recov_2_1")
    assert read_differences(rig.tools(), reading, Progress({made.table.full_name: 0})) is not None
    made.stage, made.head = reading.stage, rig.lake.stage_head(reading.stage)
    assert made.verdict()[0] is Verdict.MATCH


def test_a_small_table_that_changes_is_compared_without_a_session(rig: Rig) -> None:
    """Both digests, the JSON column, and the keys in flight: those that come, change and go."""
    made = make_scene(rig, "orders", ORDERS, FILL, in_memory=True)
    made.spark, asked = no_session()

    def change(look: int) -> None:
        if look == 0:
            five_changes(made)

    found, outcome = made.verdict(change)
    assert (found, outcome.in_flight, asked) == (Verdict.MATCH, 6, [])


def test_records_from_before_a_ddl_need_no_session(rig: Rig) -> None:
    """They are before the compared ends, and only say what is a repeat: one of them comes again, and counts once."""
    made = make_scene(rig, "orders", ORDERS, FILL, in_memory=True)
    made.spark, asked = no_session()
    old = [made.events.create(id=number, name=f"n{number}") for number in (20, 21)]

    def change(look: int) -> None:
        if look == 0:
            made.events.event("c", None, order(21), source=old[1], same_transaction=True)
            five_changes(made)

    found, outcome = made.verdict(change)
    assert (found, outcome.in_flight, asked) == (Verdict.MATCH, 6, [])


def test_a_document_that_differs_in_a_small_table_is_found_without_a_session(rig: Rig) -> None:
    made = make_scene(rig, "orders", ORDERS, FILL, in_memory=True)
    made.spark, asked = no_session()
    made.sink("UPDATE {} SET doc = '[2]' WHERE id = 400")
    found, outcome = made.verdict()
    assert (found, counts(outcome), asked) == (Verdict.MISMATCH, (0, 0, 1, 0), [])
