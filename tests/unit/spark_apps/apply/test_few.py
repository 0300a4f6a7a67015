"""A small batch netted in memory: what of its records changes the table, and which batches are left to Spark's jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_cdc.core.position import NOTHING, Covered
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.applied import Applied, Highest, LastChange, NotPlainError, PlainChange
from airflow_cdc.decisions.apply.start import DdlLog, Start
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.apply.changes import CLOCK_SLACK_MS, Seen
from airflow_cdc.spark_apps.apply.few import Few
from airflow_cdc.spark_apps.apply.tombstones import LOOK_BACK, before_batch, has_tombstone
from airflow_cdc.spark_apps.events import FEW
from tests.unit.tables import column, table

KEYED = table(column("id", "bigint", nullable=False), column("note", "varchar(9)"), key=("id",))
KEYLESS = table(column("note", "varchar(9)"))
SERVER = "server"
# transactions 1 to 5 are in the snapshot
READ_AT_5 = Covered(numbers={SERVER: ((1, 5),)})


class Record:
    """A record of a topic that holds one change; the decoder below only hands the change on."""

    def __init__(self, change: PlainChange) -> None:
        self.change, self.partition, self.offset = change, change.partition, change.offset
        self.value = None if change.op == "tombstone" else b"{}"


class Decoder:
    """Gives what the records hold, and notes what was asked of it."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails, self.asked = fails, list[Any]()

    def decode(self, records: Sequence[Any], *, before: bool, rows_from: Any) -> list[PlainChange]:
        self.asked.append((before, rows_from))
        if self.fails is not None:
            raise self.fails
        return [record.change for record in records]


def at(number: int, origin: str = SERVER, **more: Any) -> LastChange:
    """The place of transaction `number`."""
    return LastChange(origin, (number, 10 * number, 0), "1/binlog", 3, f"{origin}:{number}", 1)._replace(**more)


def changed(offset: int, op: str, key: int, note: str | None = None, *, number: int = 9, **more: Any) -> PlainChange:
    """A change of the row `key` by transaction `number`; `partition`, `change`, `defaulted` and `before` may be given."""
    partition = more.pop("partition", 0)
    after = None if op in {"d", "tombstone"} else (key, note)
    change = more.pop("change", None if op == "tombstone" else at(number))
    return PlainChange(partition, offset, op, (key,), after, change, **more)


def start(of: Table = KEYED, ranges: dict[int, tuple[int, int]] | None = None, **more: Any) -> Start:
    """A batch of the offsets from 10 on."""
    known: dict[str, Any] = {"ranges": ranges or {0: (10, 99), 1: (10, 99)}, "begins": {0: 0, 1: 0}} | more
    applied = known.pop("applied", Applied())
    return Start(of, "t", "id", Stamp(3), watermark=None, applied=applied, ddl=DdlLog("p"), **known)


def netted(*changes: PlainChange, covered: Covered = NOTHING, begin: Start | None = None) -> Few | None:
    """What a batch of these changes comes to."""
    records: Any = [Record(change) for change in changes]
    decoder: Any = Decoder()
    return few.read(decoder, records, begin or start(), covered)


def rows(batch: Few | None) -> tuple[list[Any], list[Any]]:
    """The keys that change, and the rows that they have afterwards."""
    assert batch is not None
    return batch.keys.to_pylist(), [tuple(row.values()) for row in batch.rows.to_pylist()]


def test_each_key_has_its_newest_row_and_a_deleted_one_has_none() -> None:
    batch = netted(
        changed(10, "c", 1, "a"),
        changed(11, "u", 1, "b"),
        changed(12, "c", 2, "x"),
        changed(13, "d", 2),
        changed(14, "tombstone", 2),
        changed(15, "c", 3, None),
    )
    assert rows(batch) == ([{"id": 1}, {"id": 2}, {"id": 3}], [(1, "b"), (3, None)])


def test_records_are_taken_in_the_order_of_their_topic_however_they_arrive() -> None:
    assert rows(netted(changed(11, "u", 1, "newest"), changed(10, "c", 1, "first")))[1] == [(1, "newest")]


def test_the_counts_say_what_was_applied_and_what_the_snapshot_holds_already() -> None:
    batch = netted(
        changed(10, "u", 1, "old", number=5),
        changed(11, "c", 2, "a"),
        changed(12, "u", 2, "b", defaulted=True),
        changed(13, "d", 3),
        changed(14, "tombstone", 3),
        covered=READ_AT_5,
    )
    assert batch is not None
    counted = batch.counted
    ops = (counted.creates, counted.updates, counted.deletes, counted.tombstones)
    assert (counted.records, counted.before_watermark, ops, counted.defaulted) == (5, 1, (1, 1, 1, 1), 1)
    assert counted.logged == 3
    assert counted.last == {"0": at(9)}
    assert rows(batch)[0] == [{"id": 2}, {"id": 3}]


def test_a_row_whose_converter_may_have_replaced_a_null_counts_only_if_it_is_applied() -> None:
    batch = netted(changed(10, "u", 1, "old", number=5, defaulted=True), covered=READ_AT_5)
    assert batch is not None
    assert batch.counted.defaulted == 0


def test_inv_33_a_key_whose_events_are_in_two_partitions_has_no_newest_row() -> None:
    assert netted(changed(10, "c", 1, "a"), changed(10, "u", 1, "b", partition=1)) is None
    assert netted(changed(10, "c", 1, "a"), changed(10, "u", 2, "b", partition=1)) is not None


def test_inv_33_a_key_in_two_partitions_is_fine_where_the_snapshot_holds_one_of_its_changes() -> None:
    both = (changed(10, "c", 1, "a", number=5), changed(10, "u", 1, "b", partition=1))
    assert rows(netted(*both, covered=READ_AT_5))[1] == [(1, "b")]


# ---- a tombstone belongs to its delete ------------------------------------------------------------------------------------------


def test_the_tombstone_of_a_delete_that_the_snapshot_knows_does_not_delete_the_row_that_came_after() -> None:
    """Deleted and created again before the watermark: a connector that resumes before it sends all of that."""
    batch = netted(changed(10, "d", 1, number=4), changed(11, "tombstone", 1), covered=READ_AT_5)
    assert rows(batch) == ([], [])


def test_a_tombstone_whose_delete_is_not_in_the_snapshot_deletes() -> None:
    """INV 17: compaction may have taken the delete itself."""
    assert rows(netted(changed(11, "tombstone", 1), covered=READ_AT_5)) == ([{"id": 1}], [])
    again = netted(
        changed(10, "d", 1, number=4),
        changed(11, "c", 1, "a", number=5),
        changed(12, "tombstone", 1),
        covered=READ_AT_5,
    )
    assert rows(again)[0] == [{"id": 1}]


def test_the_delete_may_be_in_the_batch_before() -> None:
    """It says what its tombstone means, and is neither counted nor applied again."""
    earlier = changed(9, "d", 1, number=4)
    batch = netted(earlier, changed(10, "tombstone", 1), changed(11, "c", 2, "a"), covered=READ_AT_5)
    assert rows(batch) == ([{"id": 2}], [(2, "a")])
    assert batch is not None
    assert (batch.counted.records, batch.counted.before_watermark) == (2, 0)


def test_a_change_before_the_batch_is_not_applied_again() -> None:
    assert rows(netted(changed(9, "c", 1, "a"), changed(10, "c", 2, "b")))[1] == [(2, "b")]


@pytest.mark.parametrize(
    ("covered", "begin", "bounds"),
    [
        (READ_AT_5, start(ranges={0: (1_000, 1_010)}), {0: (1_000 - LOOK_BACK, 1_000)}),
        (READ_AT_5, start(ranges={0: (10, 20)}), {0: (0, 10)}),
        (Covered(below={SERVER: (5, 4)}), start(ranges={0: (10, 20)}), {0: (0, 10)}),
        (READ_AT_5, start(ranges={0: (10, 20)}, begins={0: 7}), {0: (7, 10)}),
        (READ_AT_5, start(ranges={0: (10, 20)}, applied=Applied(last={"0": at(5)})), {0: (0, 10)}),
        (READ_AT_5, start(ranges={0: (10, 20)}, applied=Applied(last={"0": at(6)})), {}),
        (READ_AT_5, start(ranges={0: (10, 20)}, applied=Applied(last={"1": at(6)})), {0: (0, 10)}),
        (READ_AT_5, start(ranges={0: (10, 20)}, begins={0: 10}), {}),
        (READ_AT_5, start(ranges={0: (10, 10)}), {}),
        (NOTHING, start(ranges={0: (10, 20)}), {}),
        (READ_AT_5, start(KEYLESS, ranges={0: (10, 20)}), {}),
    ],
    ids=[
        "so many records before it",
        "from the beginning",
        "a log without numbers",
        "from where the topic begins",
        "the last change is one that the snapshot holds",
        "the partition is past the watermark",
        "another partition is",
        "nothing is before it",
        "nothing is in it",
        "there is no watermark",
        "there is no key",
    ],
)
def test_a_delete_is_looked_for_before_a_batch_only_where_a_watermark_may_cover_it(
    covered: Covered, begin: Start, bounds: dict[int, tuple[int, int]]
) -> None:
    assert before_batch(begin, covered) == bounds


def test_a_tombstone_is_a_record_without_a_value() -> None:
    some: Any = [Record(changed(10, "c", 1, "a")), Record(changed(11, "tombstone", 1))]
    assert has_tombstone(some)
    assert not has_tombstone(some[:1])


# ---- without a key --------------------------------------------------------------------------------------------------------------


def copied(offset: int, op: str, number: int, before: str | None = None, after: str | None = None) -> PlainChange:
    """A change of a table without a key."""
    images = [None if text is None else (text,) for text in (before, after)]
    return PlainChange(0, offset, op, (), images[1], at(number), before=images[0])


def test_rows_without_a_key_are_counted_and_the_old_row_of_each_change_is_asked_for() -> None:
    changes = [copied(10, "c", 7, after="a"), copied(11, "c", 8, after="a"), copied(12, "u", 9, "x", "b")]
    decoder: Any = Decoder()
    records: Any = [Record(change) for change in [*changes, changes[0]]]
    batch = few.read(decoder, records, start(KEYLESS), NOTHING)
    assert decoder.asked == [(True, {0: 10, 1: 10})]
    assert batch is not None
    assert (batch.keys.to_pylist(), list(batch.copies or ())) == ([{"note": "x"}], [1])
    assert [row["note"] for row in batch.rows.to_pylist()] == ["a", "a", "b"]
    assert batch.repeats == 1


def test_a_table_with_a_key_needs_no_old_rows_and_has_no_repeats() -> None:
    decoder: Any = Decoder()
    records: Any = [Record(changed(10, "c", 1, "a")), Record(changed(11, "c", 1, "a"))]
    batch = few.read(decoder, records, start(), NOTHING)
    assert decoder.asked == [(False, {0: 10, 1: 10})]
    assert batch is not None
    assert (batch.repeats, batch.copies) == (0, None)


def test_changes_of_the_snapshot_are_not_counted_as_copies() -> None:
    batch = few.read(
        Decoder(),  # type: ignore[arg-type]
        [Record(copied(10, "c", 5, after="a")), Record(copied(11, "c", 6, after="b"))],  # type: ignore[list-item]
        start(KEYLESS),
        READ_AT_5,
    )
    assert batch is not None
    assert [row["note"] for row in batch.rows.to_pylist()] == ["b"]


def test_a_change_without_a_key_that_may_have_been_applied_is_left_to_the_jobs() -> None:
    known = start(KEYLESS, applied=Applied(high={SERVER: Highest(7, 70, 0, "1/binlog", 3)}))
    assert netted(copied(10, "c", 7, after="a"), begin=known) is None
    batch = netted(copied(10, "c", 8, after="a"), begin=known)
    assert batch is not None
    assert batch.applied(known).high == {SERVER: Highest(8, 80, 0, "1/binlog", 3)}


def test_what_was_applied_of_other_servers_stays_noted() -> None:
    known = start(KEYLESS, applied=Applied(high={"other": Highest(1, 1, 0, "1/binlog", 3)}))
    batch = netted(copied(10, "c", 8, after="a"), begin=known)
    assert batch is not None
    assert set(batch.applied(known).high) == {"other", SERVER}
    assert batch.applied(known).last == {"0": at(8)}


@pytest.mark.parametrize(("before", "after"), [(7, 9), (9, 7)])
def test_the_highest_change_never_goes_back(before: int, after: int) -> None:
    one, other = Highest(before, 1, 0, "l", 1), Highest(after, 1, 0, "l", 1)
    assert Seen({"a": one}).raised({"a": other, "b": other}).high == {"a": Highest(9, 1, 0, "l", 1), "b": other}


# ---- what is left to the jobs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [NotPlainError("a truncate"), KeyError("after"), OverflowError("a number")])
def test_a_batch_with_anything_that_is_not_plain_is_left_to_the_jobs_which_say_what_it_is(fault: Exception) -> None:
    records: Any = [Record(changed(10, "c", 1, "a"))]
    decoder: Any = Decoder(fault)
    assert few.read(decoder, records, start(), NOTHING) is None


MOVED = Covered(below={SERVER: (5, 400)}, taken_ms=1_000_000)


@pytest.mark.parametrize(
    ("place", "ms", "plain"),
    [
        ((5, 399, 0), 1_000_000 + CLOCK_SLACK_MS + 1, False),
        ((5, 399, 0), 1_000_000 + CLOCK_SLACK_MS, True),
        ((5, 400, 0), 1_000_000 + CLOCK_SLACK_MS + 1, True),
        ((4, 900, 0), 1_000_000 + CLOCK_SLACK_MS + 1, False),
    ],
    ids=["before it and later", "within what clocks differ", "at the watermark", "in an earlier file and later"],
)
def test_inv_26_a_change_before_the_watermark_by_place_and_after_it_by_time_is_left_to_the_jobs(
    place: tuple[int, int, int], ms: int, plain: bool
) -> None:
    """The source was reset or restored: its places say nothing any more."""
    change = changed(10, "u", 1, "a", change=at(1, place=place, ts_ms=ms))
    assert (netted(change, covered=MOVED) is not None) is plain


@pytest.mark.parametrize(
    ("begin", "is_few"),
    [
        (start(ranges={0: (10, 10 + FEW)}), True),
        (start(ranges={0: (10, 11 + FEW)}), False),
        (start(ranges={0: (10, 10)}), False),
        (start(ranges={0: (10, 20)}, unproven=True), False),
    ],
    ids=["as many as fit", "one more", "none", "a topic that may be another"],
)
def test_few_records_of_a_topic_that_is_surely_the_tables_own(begin: Start, is_few: bool) -> None:
    assert few._is_few(begin) is is_few
