"""Batches that are not applied, by what was counted in them: each reason, and how much of it is still applied."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.errors import (
    CdcError,
    ConnectorError,
    SchemaError,
    SourceError,
    TransportError,
    UnreadableEventsError,
    UnreportedChangeError,
)
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.decisions.apply.applied import Applied, LastChange
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.decisions.apply.start import DdlLog, Start
from airflow_cdc.spark_apps.apply.counts import Counts, _summed, check, check_nulls, read_change
from tests.unit.builders import WATERMARK
from tests.unit.tables import column, table

KEYED = table(column("id", "bigint", nullable=False), key=("id",))
KEYLESS = table(column("note", "varchar(9)"))
WAY_OUT = {"doubt_way_out": "Convert the column.", "unreadable_way_out": "Name a converter."}
ROUTED: Any = SimpleNamespace(key_mark=lambda _name: None, **WAY_OUT)
MARKED: Any = SimpleNamespace(key_mark=lambda _name: "__dbz__physicalTableIdentifier", **WAY_OUT)
BEGIN = Start(KEYED, "t", "id", Stamp(3), {0: (0, 9)}, {0: 0}, None, Applied(), DdlLog("p"))
BAD = "the row's note: of another type"


def judged(counted: Counts, start: Start = BEGIN, routing: Any = ROUTED, max_bad: int = 5, most: float = 0.5) -> None:
    check(counted, start, routing, max_bad, most)


def refused(counted: Counts, start: Start = BEGIN, routing: Any = ROUTED) -> CdcError:
    with pytest.raises(CdcError) as caught:
        judged(counted, start, routing)
    assert caught.value.where.startswith("table shop.t, topic t")
    assert caught.value.todo
    return caught.value


def test_a_column_that_the_definition_does_not_have_is_waited_for() -> None:
    error = refused(Counts(records=9, unknown=("note", "price")))
    assert isinstance(error, UnreportedChangeError)
    assert "note, price" in str(error)


def test_a_column_that_the_batchs_own_ddl_dropped_is_expected_in_older_events() -> None:
    dropping = replace(BEGIN, change=SchemaChange(dropped=("note",)))
    judged(Counts(records=9, unknown=("note",)), dropping)
    assert "price" in str(refused(Counts(records=9, unknown=("note", "price")), dropping))


def test_events_of_other_tables_are_refused_unless_their_keys_say_whose_they_are() -> None:
    counted = Counts(records=9, other_tables=1)
    assert isinstance(refused(counted), SchemaError)
    judged(counted, routing=MARKED)


def test_inv_26_events_before_the_watermark_by_place_and_after_it_by_time_are_another_sources() -> None:
    assert isinstance(refused(Counts(records=9, contradictory=1)), SourceError)


@pytest.mark.parametrize(
    ("records", "unreadable", "applied"),
    [(10, 5, True), (10, 6, False), (1, 1, True), (2, 2, False), (1_000, 5, True)],
    ids=["half of them", "more than half", "a single one says nothing of others", "both", "a few of very many"],
)
def test_inv_42_a_batch_of_which_most_records_cannot_be_read_is_not_applied(
    records: int, unreadable: int, applied: bool
) -> None:
    counted = Counts(records=records, bad=unreadable, unreadable=unreadable, reason="no JSON")
    if applied:
        check(counted, BEGIN, ROUTED, 10, 0.5)
        return
    error = refused(counted)
    assert isinstance(error, UnreadableEventsError)
    assert error.todo == "Name a converter. Nothing was applied."


@pytest.mark.parametrize(("bad", "applied"), [(5, True), (6, False)])
def test_no_more_records_become_dead_letters_than_the_policy_allows(bad: int, applied: bool) -> None:
    counted = Counts(records=1_000, bad=bad, reason=BAD)
    if applied:
        judged(counted)
        return
    assert "6 of 1000 records cannot be read" in str(refused(counted))


@pytest.mark.parametrize(("rows", "applied"), [(5, True), (6, False)])
def test_rows_whose_characters_the_connector_reads_otherwise_are_limited_by_rows_and_not_by_records(
    rows: int, applied: bool
) -> None:
    """A row that changed a thousand times is read from the source once."""
    counted = Counts(records=1_000, bad=900, doubted=900, doubted_rows=rows, reason=BAD)
    if applied:
        judged(counted)
        return
    error = refused(counted)
    assert (isinstance(error, SchemaError), error.todo) == (True, "Convert the column. Nothing was applied.")


@pytest.mark.parametrize(
    ("partitions", "truncates", "applied"), [(1, 1, True), (2, 0, True), (2, 1, False)]
)  # fmt: skip
def test_inv_13_a_truncate_is_applied_only_where_one_partition_says_what_came_before_it(
    partitions: int, truncates: int, applied: bool
) -> None:
    start = replace(BEGIN, ranges=dict.fromkeys(range(partitions), (0, 9)))
    if applied:
        judged(Counts(records=9, truncates=truncates), start)
        return
    assert isinstance(refused(Counts(records=9, truncates=truncates), start), TransportError)


@pytest.mark.parametrize(
    ("of", "watermark", "before", "seen", "applied"),
    [
        (KEYLESS, False, 0, (1, 9), True),
        (KEYLESS, False, 0, (2, 9), False),
        (KEYLESS, False, 1, (1, 9), False),
        (KEYLESS, False, 1, (0, 9), True),
        (KEYLESS, True, 0, (0, 1), False),
        (KEYLESS, True, 0, (0, 0), True),
        (KEYED, True, 1, (1, 9), True),
    ],
    ids=[
        "the first copy of all",
        "two snapshots in it",
        "a second snapshot",
        "the first one goes on",
        "the table was read already",
        "no rows were sent again",
        "a key shows which row it is",
    ],
)
def test_inv_05_a_snapshot_that_nobody_asked_for_is_not_applied_to_a_table_without_a_key(
    of: Any, watermark: bool, before: int, seen: tuple[int, int], applied: bool
) -> None:
    """`before`: how many snapshots the connector began earlier; `seen`: begun in this batch, and rows of them."""
    start = replace(BEGIN, table=of, watermark=WATERMARK if watermark else None, applied=Applied(snapshots=before))
    counted = Counts(records=9, snapshots_begun=seen[0], reads=seen[1])
    if applied:
        judged(counted, start)
        return
    assert isinstance(refused(counted, start), ConnectorError)


@pytest.mark.parametrize(
    ("columns", "defaulted", "applied"), [((), 3, True), (("note",), 0, True), (("note",), 1, False)]
)
def test_events_whose_nulls_may_be_defaults_are_refused_for_columns_that_can_hold_both(
    columns: tuple[str, ...], defaulted: int, applied: bool
) -> None:
    counted = Counts(records=9, defaulted=defaulted)
    if applied:
        check_nulls(counted, "shop.t", columns)
        return
    with pytest.raises(ConnectorError, match="replaces NULL with the default: note"):
        check_nulls(counted, "shop.t", columns)


def partition(number: int, **more: Any) -> dict[str, Any]:
    """What Spark counts in a partition."""
    place = {"n": 7, "pos": 70, "row": number}
    last = {"origin": "s", "place": place, "log": {"name": "l", "n": 3}, "transaction": "s:7", "ts_ms": 5}
    row: dict[str, Any] = {
        "partition": number,
        "records": 2,
        "creates": 1,
        "truncated_at": None,
        "unknown": [],
        "reason": None,
    }
    return row | {"last": last} | more


def test_the_partitions_of_a_batch_are_counted_together_and_each_has_its_last_change() -> None:
    counted = _summed(
        [
            partition(0, truncated_at=4, unknown=["b"], reason="second"),
            partition(1, truncated_at=9, unknown=["a", "b"]),
            partition(2, last=None, records=5),
        ],
        ("records", "creates"),
    )
    assert (counted.records, counted.creates, counted.truncated_at) == (9, 3, 9)
    assert (counted.unknown, counted.reason) == (("a", "b"), "second")
    assert counted.last == {str(p): LastChange("s", (7, 70, p), "l", 3, "s:7", 5) for p in (0, 1)}


def test_nothing_counted_is_an_empty_batch() -> None:
    counted = _summed([], ("records",))
    assert (counted.records, counted.truncated_at, counted.reason, counted.last) == (0, None, None, {})


def test_a_place_of_which_a_source_gives_only_a_part_is_zero_in_the_others() -> None:
    """PostgreSQL has no rows within an event, and no files."""
    row = {"origin": "s", "place": {"n": None, "pos": None, "row": None}, "log": {"name": "l", "n": None}}
    assert read_change({**row, "transaction": None, "ts_ms": None}) == LastChange("s", (0, 0, 0), "l", 0, None, 0)


def test_an_applys_report_names_what_it_left_out_as_dead_letters() -> None:
    told = Counts(records=9, bad=2, before_watermark=3, doubted=1, unknown=("a",)).to_json()
    assert (told["dead_letters"], told["before_watermark"], told["records"]) == (2, 3, 9)
    assert {"last", "unknown", "doubted", "reason"} & set(told) == set()
