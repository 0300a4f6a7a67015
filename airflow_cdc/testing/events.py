"""What every decoder of a connector's events must do, on records in the connector's own form: `ports.EventDecoder`.

No server is needed, but pyspark is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias

import pytest

from airflow_cdc.core.table import Table
from airflow_cdc.events.record import (
    CREATE,
    DELETE,
    READ,
    SNAPSHOT_BEGINS,
    SNAPSHOT_GOES_ON,
    TOMBSTONE,
    TRUNCATE,
    UPDATE,
)
from airflow_cdc.spark_apps.apply.changes import is_covered
from airflow_cdc.spark_apps.events import RAW_SCHEMA, SIDES
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from airflow_cdc.core.position import Watermark
    from airflow_cdc.spark_apps.ports import EventDecoder, SourceLog

# key and value of a record, as they are in the topic
Record: TypeAlias = tuple[bytes | None, bytes | None]
Image: TypeAlias = Mapping[str, object]

ONE, TWO = {"id": 1, "name": "a", "qty": 10}, {"id": 1, "name": None, "qty": -3}


class EventBench(Protocol):
    """Creates records as one connector writes them for one kind of source."""

    @property
    def decoder(self) -> EventDecoder:
        """The decoder under test."""
        ...

    @property
    def log(self) -> SourceLog:
        """The meaning of the positions in its source's log."""
        ...

    @property
    def keyed(self) -> Table:
        """A table of `id` (a whole number, its key), `name` (text) and `qty` (a whole number), the latter two nullable."""
        ...

    @property
    def keyless(self) -> Table:
        """Another table with the same columns and without a key."""
        ...

    def event(
        self,
        table: Table,
        op: str,
        before: Image | None,
        after: Image | None,
        *,
        at: int,
        row: int = 0,
        snapshot: str = "",
    ) -> Record:
        """A change as the connector writes it; the value of a tombstone is None.

        `at`: the number of its transaction, from 1; `row`: which change of the transaction. `snapshot`: first or later,
        for a row of the connector's own snapshot.
        """
        ...

    def tombstone(self, table: Table, key: Image) -> Record:
        """The record that follows a delete."""
        ...

    def placeless(self, table: Table, after: Image) -> Record:
        """An insert that carries no position in the log."""
        ...

    def watermark(self, at: int) -> Watermark:
        """A watermark that covers the transactions up to this number and none later."""
        ...


class EventDecoderContract:
    """Subclass it and provide the fixtures `events` (an EventBench) and `spark` (a session like the driver's).

    What a connector does not send, its subclass says by these.

    Attributes:
        KEYED: records have a key, and tombstones follow deletes.
        SNAPSHOTS: the connector sends copies of its own.
        ROWS_PLACED: the log's order within a transaction is in the records; otherwise it is that of the topic.
        UNKNOWN: how a record says an operation `x` that nobody knows.
    """

    KEYED: ClassVar[bool] = True
    SNAPSHOTS: ClassVar[bool] = True
    ROWS_PLACED: ClassVar[bool] = True
    UNKNOWN: ClassVar[str] = "x"

    def test_the_records_of_the_tables_topic_are_a_row_each(self, events: EventBench, spark: SparkSession) -> None:
        some = [events.event(events.keyed, CREATE, None, {**ONE, "id": n}, at=n) for n in (1, 2, 3)]
        theirs = [events.event(events.keyless, CREATE, None, ONE, at=4)]
        raw = _raw(spark, events, events.keyed, some).union(_raw(spark, events, events.keyless, theirs))
        decoded = _collected(events.decoder.decode(raw, events.keyed))
        rows = [row for row in decoded if row["cdc"]["other_table"] is None]
        assert [(row["cdc"]["offset"], row["key"]["id"]) for row in rows] == [(0, 1), (1, 2), (2, 3)]
        assert {row["cdc"]["topic"] for row in rows} == {events.decoder.routing.topic_of(events.keyed.full_name)}

    def test_images_are_in_the_sinks_types(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        frame = events.decoder.decode(_raw(spark, events, table, []), table)
        assert frame.columns == ["cdc", "key", *SIDES]
        declared = [(column.name, sink_type(column)) for column in table.mirrored]
        for side in SIDES:
            fields = frame.schema[side].dataType.fields
            assert [(field.name, field.dataType.simpleString()) for field in fields] == declared
        assert [field.name for field in frame.schema["key"].dataType.fields] == ["id"]

    def test_what_each_operation_says(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        records = [
            events.event(table, CREATE, None, ONE, at=1),
            events.event(table, UPDATE, ONE, TWO, at=2),
            events.event(table, DELETE, TWO, None, at=3),
        ]
        ops, after = [CREATE, UPDATE, DELETE], [ONE, TWO, None]
        if self.KEYED:
            records.append(events.tombstone(table, {"id": 1}))
            ops, after = [*ops, TOMBSTONE], [*after, None]
        if self.SNAPSHOTS:
            records.append(events.event(table, READ, None, ONE, at=4, snapshot=SNAPSHOT_BEGINS))
            ops, after = [*ops, READ], [*after, ONE]
        rows = _decoded(spark, events, table, records)
        assert [row["cdc"]["op"] for row in rows] == ops
        assert [row["cdc"]["bad"] for row in rows] == [None] * len(ops)
        assert [_dict(row["after"]) for row in rows] == after
        assert {row["key"]["id"] for row in rows} == {1}
        # an image that may be incomplete counts as none
        assert [_dict(row["before"]) for row in rows[1:3]] in ([ONE, TWO], [None, None])

    def test_without_a_key_the_old_row_is_whole(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyless
        records = [events.event(table, UPDATE, ONE, TWO, at=1), events.event(table, DELETE, TWO, None, at=2)]
        rows = _decoded(spark, events, table, records)
        assert "key" not in rows[0].asDict()
        assert [(_dict(row["before"]), _dict(row["after"])) for row in rows] == [(ONE, TWO), (TWO, None)]
        without = _decoded(spark, events, table, [events.event(table, DELETE, None, None, at=3)])
        assert without[0]["cdc"]["bad"]

    def test_a_truncate_needs_no_row(self, events: EventBench, spark: SparkSession) -> None:
        (row,) = _decoded(spark, events, events.keyed, [events.event(events.keyed, TRUNCATE, None, None, at=1)])
        assert (row["cdc"]["op"], row["cdc"]["bad"]) == (TRUNCATE, None)
        assert row["cdc"]["origin"]

    def test_places_are_ordered_within_their_origin(self, events: EventBench, spark: SparkSession) -> None:
        """The order of the topic differs from that of the log."""
        table, at = events.keyed, [(2, 0), (1, 1), (10, 0), (1, 0), (2, 1)]
        if not self.ROWS_PLACED:
            at = [(2, 0), (1, 0), (10, 0), (1, 1), (2, 1)]
        rows = _decoded(spark, events, table, [events.event(table, CREATE, None, ONE, at=n, row=r) for n, r in at])
        assert len({row["cdc"]["origin"] for row in rows}) == 1
        places = {pair: tuple(row["cdc"]["place"]) for pair, row in zip(at, rows, strict=True)}
        assert sorted(at, key=lambda pair: places[pair]) == sorted(at)
        assert len(set(places.values())) == len(at)
        assert all(row["cdc"]["log"]["name"] and row["cdc"]["ts_ms"] for row in rows)

    def test_a_tombstone_has_no_place(self, events: EventBench, spark: SparkSession) -> None:
        if not self.KEYED:
            pytest.skip("the connector sends no tombstones")
        (row,) = _decoded(spark, events, events.keyed, [events.tombstone(events.keyed, {"id": 1})])
        assert row["cdc"]["origin"] is None
        assert row["cdc"]["bad"] is None

    def test_a_watermark_covers_what_was_committed_before_it(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        records = [events.event(table, CREATE, None, ONE, at=n, row=r) for n in (1, 2, 3) for r in (0, 1)]
        records += [events.tombstone(table, {"id": 1})] if self.KEYED else []
        records.append(events.placeless(table, ONE))
        decoded = events.decoder.decode(_raw(spark, events, table, records), table)
        none, some = [False] * len(records), [True] * 4 + [False] * (len(records) - 4)
        for watermark, expected in ((None, none), (events.watermark(2), some)):
            covered = events.log.covered(watermark)
            rows = _collected(decoded.select("cdc", is_covered(covered).alias("covered")))
            assert [row["covered"] for row in rows] == expected
            places = [None if row["cdc"]["origin"] is None else tuple(row["cdc"]["place"]) for row in rows]
            said = [covered.holds(row["cdc"]["origin"], place) for row, place in zip(rows, places, strict=True)]
            assert said == expected

    def test_what_cannot_be_applied_is_named_and_not_dropped(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        key, value = events.event(table, CREATE, None, ONE, at=1)
        assert value is not None
        records: list[tuple[Record, str]] = [
            ((key, value), ""),
            ((key, b"nothing of the kind"), "the value"),
            ((key, value[: len(value) // 2]), "the value"),
            ((key, b"\xff\xfe" + value), "the value"),
            *([((b"\xff\xfe", value), "the key"), ((None, value), "key")] if self.KEYED else []),
            (events.event(table, "x", None, ONE, at=2), self.UNKNOWN),
            (events.event(table, CREATE, None, None, at=3), "row"),
            (events.event(table, CREATE, None, {**ONE, "qty": "ten"}, at=4), "qty"),
            (events.event(table, CREATE, None, {"id": 1, "qty": 10**30}, at=5), "qty"),
            (events.placeless(table, ONE), "position"),
        ]
        rows = _decoded(spark, events, table, [record for record, _ in records])
        for row, (record, said) in zip(rows, records, strict=True):
            bad = row["cdc"]["bad"]
            assert (bad is None) == (not said), (record, bad)
            assert said in (bad or ""), (record, bad)

    def test_a_column_that_the_table_does_not_have_is_named(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        records = [
            events.event(table, CREATE, None, {**ONE, "more": 1}, at=1),
            events.event(table, UPDATE, ONE, TWO, at=2),
        ]
        rows = _decoded(spark, events, table, records)
        assert [row["cdc"]["unknown"] for row in rows] == [["more"], None]
        assert [row["cdc"]["bad"] for row in rows] == [None, None]

    def test_only_what_is_asked_for_is_decoded(self, events: EventBench, spark: SparkSession) -> None:
        table = events.keyed
        raw = _raw(spark, events, table, [events.event(table, UPDATE, ONE, {**TWO, "qty": "ten"}, at=1)])
        for sides, bad in ((("after",), True), ((), False)):
            frame = events.decoder.decode(raw, table, sides)
            assert frame.columns == ["cdc", "key", *sides]
            assert bool(_collected(frame)[0]["cdc"]["bad"]) is bad

    def test_a_copy_of_the_connectors_own_is_told_from_a_change(self, events: EventBench, spark: SparkSession) -> None:
        if not self.SNAPSHOTS:
            pytest.skip("the connector sends no copies of its own")
        table = events.keyed
        records = [
            events.event(table, READ, None, ONE, at=1, snapshot=SNAPSHOT_BEGINS),
            events.event(table, READ, None, {**ONE, "id": 2}, at=1, snapshot=SNAPSHOT_GOES_ON),
            events.event(table, CREATE, None, {**ONE, "id": 3}, at=2),
        ]
        rows = _decoded(spark, events, table, records)
        assert [row["cdc"]["snapshot"] for row in rows] == [SNAPSHOT_BEGINS, SNAPSHOT_GOES_ON, None]

    def test_an_event_of_another_table_in_the_topic_is_told(self, events: EventBench, spark: SparkSession) -> None:
        mine = events.event(events.keyed, CREATE, None, ONE, at=1)
        _key, theirs = events.event(events.keyless, CREATE, None, {"other": 1}, at=2)
        rows = _decoded(spark, events, events.keyed, [mine, (mine[0], theirs)])
        assert [row["cdc"]["other_table"] for row in rows] == [None, events.keyless.full_name]
        assert [row["cdc"]["bad"] for row in rows] == [None, None]

    def test_no_records_hold_no_statements(self, events: EventBench) -> None:
        assert list(events.decoder.statements((), "the topic")) == []

    def test_a_column_without_a_default_keeps_its_null(self, events: EventBench) -> None:
        assert events.decoder.nulls_at_risk(events.keyed, {"name": None, "qty": None}) == ()


def _raw(spark: SparkSession, events: EventBench, table: Table, records: Sequence[Record]) -> DataFrame:
    """The records in the table's topic, from offset 0."""
    topic = events.decoder.routing.topic_of(table.full_name)
    parts = [tuple(None if part is None else bytearray(part) for part in record) for record in records]
    return spark.createDataFrame([(topic, 0, at, *part) for at, part in enumerate(parts)], RAW_SCHEMA)


def _decoded(spark: SparkSession, events: EventBench, table: Table, records: Sequence[Record]) -> list[Row]:
    return _collected(events.decoder.decode(_raw(spark, events, table, records), table))


def _collected(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: int(row["cdc"]["offset"]))


def _dict(image: Row | None) -> dict[str, object] | None:
    return None if image is None else image.asDict()
