"""A few changes, netted in memory and written by Arrow in one commit: the same rows, counts and stamps as by Spark's jobs."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from airflow_cdc.core.errors import SinkError, SourceError, StaleHeadError
from airflow_cdc.core.pipeline import MaintenancePolicy
from airflow_cdc.core.stamp import BASE
from airflow_cdc.decisions.apply.schema_change import DEFINITION, dump_definition
from airflow_cdc.sinks.iceberg import file_change, row_delta, row_positions
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.row_positions import live_files
from airflow_cdc.sinks.iceberg.snapshots import head_of, operation_of, snapshot_at, stamp_and_summary, summary_of
from airflow_cdc.spark_apps.adapters.iceberg_keeper import IcebergKeeper
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.apply.batch import apply_table
from airflow_cdc.spark_apps.apply.context import ApplyContext, ApplyTarget, Result, start_from
from airflow_cdc.spark_apps.ports_few import CommitsFew, SmallCommit
from airflow_cdc.spark_apps.tidied import Tidied
from tests.apply_support import ITEMS, UUID, Bench, Topic, column, no_session, stamp_at, table, watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.core.table import Table

PAIRS = table(
    "pairs", [column("a", "int", nullable=False), column("b", nullable=False), column("n", "int")], ("a", "b")
)
# types whose values take more than a cast
SHAPES = table(
    "shapes",
    [
        column("id", "bigint", nullable=False),
        column("g", "geometry"),
        column("j", "json"),
        column("f", "float"),
        column("u", "bigint unsigned"),
        column("bl", "blob"),
        column("d", "decimal(12,2)"),
        column("ts", "timestamp(6)"),
    ],
    ("id",),
)
# without a key, whose rows are few different ones, some with NULLs
LOGGED = table("logged", [column("kind"), column("n", "decimal(12,2)"), column("at", "timestamp(6)")])
WEIGHED = table("weighed", [column("w", "double"), column("g", "geometry")])
NOT_COMPARED = {"snapshot_id", "seconds"}


def opened_at(ctx: ApplyContext, place: tuple[str, str]) -> SmallCommit:
    assert isinstance(ctx.writer, CommitsFew)
    return ctx.writer.open_table(place)


@dataclass
class Side:
    """A sink table to which a topic is applied, batch after batch."""

    bench: Bench
    made: Table
    topic: Topic
    batches: int = 0
    by_arrow: int = 0
    results: list[Result] = field(default_factory=list)

    @property
    def place(self) -> tuple[str, str]:
        return self.bench.namespace, self.made.name

    def begin(self, rows: list[tuple[Any, ...]] | None = None, upto: int = 0, at: dict[str, Any] | None = None) -> None:
        """With these rows, read at a watermark: `at`, or one that covers transactions up to this one."""
        stamp = stamp_at(self.topic, watermark=watermark(f"{UUID}:1-{upto}") if upto else at)
        self.bench.lake.drop_stage(self.bench.target(self.made, stamp, rows or []).stage)
        lake = self.bench.lake

        def build(now: Any) -> Change | None:
            same = AssertTableUUID(uuid=now.metadata.table_uuid)
            text = {DEFINITION: dump_definition(self.made)}
            return Change((same,), (SetPropertiesUpdate(updates=text),)) if DEFINITION not in now.properties else None

        commit(lake.catalog, self.place, build, what="the definition")

    def apply(self, end: int, *, in_memory: bool, **more: Any) -> None:
        """A batch up to `end`, as apply_changes applies it."""
        self.batches += 1
        ctx = self.bench.context([self.topic], in_memory=in_memory, **more)
        upto = {self.topic.name: dict.fromkeys(range(self.topic.partitions), end)}
        opened = opened_at(ctx, self.place)
        start = start_from(ctx, self.made, *opened.stamped(None), upto)
        done = few.apply_few(ctx, opened, start, None, {})
        self.by_arrow += done is not None
        if done is None:
            lake = self.bench.lake
            stage = lake.stage(*self.place, f"t_{self.batches}")
            done = apply_table(ctx, ApplyTarget(self.made, stage, None, {}), upto)
            lake.publish(stage, lake.stage_head(stage), stage.base_head, {DEFINITION: dump_definition(self.made)})
        self.results.append({name: value for name, value in done.items() if name not in NOT_COMPARED})

    def state(self) -> tuple[Any, ...]:
        """Rows by PyIceberg, stamp, and what the stamped commit and the table record."""
        lake = self.bench.lake
        rows = sorted(map(repr, (tuple(row.values()) for row in lake.read_arrow(*self.place).to_pylist())))
        metadata = lake.table(*self.place).metadata
        stamp, summary = stamp_and_summary(metadata, None)
        assert stamp is not None
        assert lake.row_count(*self.place, head_of(metadata) or 0) == len(rows)
        # a commit in one piece has no base: nothing of ours lies before it
        own = {name: value for name, value in summary.items() if name.startswith("cdc.") and name != BASE}
        return rows, stamp.offsets, own, lake.definition_text(*self.place)

    def rows_by_spark(self) -> list[str]:
        """As `state` gives them."""
        frame = self.bench.spark.table(".".join((self.bench.lake.name, *self.place)))
        return sorted(repr(tuple(row.values())) for row in frame.toArrow().to_pylist())


@pytest.fixture
def lake(lake_properties: dict[str, str]) -> Lake:
    return Lake("lake", lake_properties)


def both(spark: SparkSession, lake: Lake, made: Table, topic: Topic) -> tuple[Side, Side]:
    return Side(Bench(spark, lake), made, topic), Side(Bench(spark, lake), made, topic)


def shapes(key: int, number: int) -> dict[str, Any]:
    """A row of SHAPES, as Debezium writes it; every third is NULL where it may be."""
    if number % 3 == 0:
        return {column.name: None for column in SHAPES.columns} | {"id": key}
    point = base64.b64encode(struct.pack("<BIdd", 1, 1, number, -0.5)).decode()
    amount = base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big")).decode()
    return {
        "id": key,
        "g": {"wkb": point, "srid": None if number % 2 else 4326},
        "j": json.dumps({"n": number, "a": [1.50, None]}),
        "f": 0.1 * number,
        "u": -number,
        "bl": point,
        "d": amount,
        "ts": f"2021-03-28T02:30:00.{number:06}Z",
    }


def history(made: Table, seed: int) -> Topic:
    """Creates, updates, deletes and deletes with a tombstone, of few keys again and again."""
    rng, topic, rows = random.Random(seed), Topic(made), dict[Any, dict[str, Any]]()
    for number in range(1, 101):
        key = rng.randrange(12)
        names = (
            {"a": key % 4, "b": f"k{key // 4}", "n": number}
            if made is PAIRS
            else {"id": key, "name": f"n{number}", "qty": None}
            if made is ITEMS
            else shapes(key, number)
        )
        if key in rows and rng.random() < 0.3:
            topic.delete(**rows.pop(key), tombstone=rng.random() < 0.5)
        elif key in rows:
            topic.update(rows[key], **names)
            rows[key] = names
        else:
            topic.create(**names)
            rows[key] = names
    return topic


class Sent(NamedTuple):
    """A change as it was sent."""

    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    source: dict[str, Any]


def log_history(seed: int) -> Topic:
    """Of LOGGED: equal rows come and go, and every tenth change is sent twice."""
    rng, topic, rows = random.Random(seed), Topic(LOGGED), list[dict[str, Any]]()
    for number in range(1, 101):
        row = {"kind": rng.choice(["a", "b", None]), "n": rng.choice(["AQ==", None]), "at": None}
        row |= {"at": f"2021-03-28T02:30:00.{number % 3:06}Z"} if number % 2 else {}
        act = rng.random()
        if rows and act < 0.3:
            gone = rows.pop(rng.randrange(len(rows)))
            again = Sent("d", gone, None, topic.delete(**gone))
        elif rows and act < 0.5:
            at = rng.randrange(len(rows))
            again = Sent("u", rows[at], row, topic.update(rows[at], **row))
            rows[at] = row
        else:
            again = Sent("c", None, row, topic.create(**row))
            rows.append(row)
        if number % 10 == 0 and number % 40:
            topic.event(again.op, again.before, again.after, source=again.source, same_transaction=True)
    return topic


@pytest.mark.parametrize(
    ("made", "covered"),
    [
        pytest.param(ITEMS, 0, marks=pytest.mark.slow, id="items-all"),
        pytest.param(ITEMS, 130, id="items-after_a_watermark"),
        pytest.param(SHAPES, 0, id="shapes-all"),
        pytest.param(SHAPES, 130, marks=pytest.mark.slow, id="shapes-after_a_watermark"),
    ],
)
def test_batch_after_batch_gives_the_same_as_by_spark(
    spark: SparkSession, lake: Lake, made: Table, covered: int
) -> None:
    """The snapshot may hold the first changes already."""
    same_by_both(spark, lake, history(made, 7), covered)


def test_batches_under_keys_of_two_columns(spark: SparkSession, lake: Lake) -> None:
    same_by_both(spark, lake, history(PAIRS, 7), 0)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_table_without_a_key_gets_the_same_as_by_spark(spark: SparkSession, lake: Lake, seed: int) -> None:
    same_by_both(spark, lake, log_history(seed), 0)


def same_by_both(spark: SparkSession, lake: Lake, topic: Topic, covered: int) -> None:
    """The topic is applied in batches, in memory and by Spark."""
    one, other = both(spark, lake, topic.table, topic)
    one.begin(upto=covered)
    other.begin(upto=covered)
    for end in [*range(40, len(topic.records), 40), len(topic.records)]:
        one.apply(end, in_memory=True)
        other.apply(end, in_memory=False)
        assert one.results[-1] == other.results[-1]
        assert one.state() == other.state()
    assert (one.by_arrow, other.by_arrow) == (one.batches, 0)
    assert one.rows_by_spark() == one.state()[0]
    assert (one.results[0]["before_watermark"] > 0) is bool(covered)


def logged(spark: SparkSession, lake: Lake, made: Table, covered: int = 0) -> Side:
    """An empty table of `made`."""
    side = Side(Bench(spark, lake), made, Topic(made))
    side.begin(upto=covered)
    return side


def test_changes_without_a_key_that_the_watermark_covers_are_not_applied_again(spark: SparkSession, lake: Lake) -> None:
    side = logged(spark, lake, LOGGED, covered=102)
    for kind in "abcc":
        side.topic.create(kind=kind, n=None, at=None)
    side.topic.delete(kind="c", n=None, at=None)
    side.apply(5, in_memory=True)
    assert (side.by_arrow, side.results[0]["before_watermark"], names(side)) == (1, 2, [("c", None, None)])


def test_a_change_without_a_key_that_may_have_been_applied_is_left_to_spark(spark: SparkSession, lake: Lake) -> None:
    """It looks the change's identity up in the topic."""
    side = logged(spark, lake, LOGGED)
    first = side.topic.create(kind="a", n=None, at=None)
    side.topic.create(kind="b", n=None, at=None)
    side.apply(2, in_memory=True)
    side.topic.event("c", None, {"kind": "a", "n": None, "at": None}, source=first, same_transaction=True)
    side.topic.create(kind="c", n=None, at=None)
    side.apply(4, in_memory=True)
    assert (side.by_arrow, side.results[1]["repeats"]) == (1, 1)
    side.topic.create(kind="d", n=None, at=None)
    side.apply(5, in_memory=True)
    assert (side.by_arrow, [kind for kind, *_ in names(side)]) == (2, ["a", "b", "c", "d"])


def test_a_row_without_a_key_that_is_not_there_is_an_error(spark: SparkSession, lake: Lake) -> None:
    side = logged(spark, lake, LOGGED)
    side.topic.create(kind="a", n=None, at=None)
    side.apply(1, in_memory=True)
    for _ in range(2):
        side.topic.delete(kind="a", n=None, at=None)
    with pytest.raises(SinkError, match="1 rows that the source deleted are not in the table"):
        side.apply(3, in_memory=True)
    assert [kind for kind, *_ in names(side)] == ["a"]


def test_rows_without_a_key_that_hold_floating_point_numbers_are_added_in_memory_and_removed_by_spark(
    spark: SparkSession, lake: Lake
) -> None:
    side = logged(spark, lake, WEIGHED)
    rows = [shapes(1, number) for number in (1, 1, 2)]
    for row in rows:
        side.topic.create(w=-0.0, g=row["g"])
    side.apply(3, in_memory=True)
    side.topic.delete(w=-0.0, g=rows[0]["g"])
    side.apply(4, in_memory=True)
    assert (side.by_arrow, side.batches, len(side.state()[0])) == (1, 2, 2)


def test_an_event_before_the_watermark_that_was_committed_after_it_is_an_error(spark: SparkSession, lake: Lake) -> None:
    """By its time; the source was reset or replaced."""
    topic = Topic(ITEMS, gtids=False)
    side = Side(Bench(spark, lake), ITEMS, topic)
    side.begin(at=watermark(None, pos=5000))
    topic.create(id=1, name="a", qty=1)
    with pytest.raises(SourceError, match="before the watermark by their position and after it by their time"):
        side.apply(1, in_memory=True)
    assert names(side) == []


def test_a_key_that_was_deleted_and_created_again_before_the_watermark_stays(spark: SparkSession, lake: Lake) -> None:
    """The tombstone between them has no place in the log."""
    side = Side(Bench(spark, lake), ITEMS, Topic(ITEMS))
    side.begin([(1, "kept", 1)], upto=103)
    side.topic.create(id=1, name="kept", qty=1)
    side.topic.delete(id=1, name="kept", qty=1)
    side.topic.create(id=1, name="kept", qty=1)
    side.topic.create(id=2, name="new", qty=2)
    side.apply(len(side.topic.records), in_memory=True)
    assert (side.by_arrow, names(side)) == (1, [(1, "kept", 1), (2, "new", 2)])


JOBS, MEMORY = "jobs", "memory"


# a cut at 2 or 5 parts a delete from its tombstone
@pytest.mark.parametrize(
    ("cut", "way"),
    [
        *((cut, MEMORY) for cut in range(1, 6)),
        (2, JOBS),
        *(pytest.param(cut, JOBS, marks=pytest.mark.slow) for cut in (1, 3, 4, 5)),
    ],
)
def test_inv_17_a_batch_may_end_between_a_covered_delete_and_its_tombstone(
    spark: SparkSession, lake: Lake, way: str, cut: int
) -> None:
    """The next batch sees the tombstone alone; a tombstone whose delete is not covered, or which stands alone, deletes."""
    side = Side(Bench(spark, lake), ITEMS, Topic(ITEMS))
    side.begin([(1, "kept", 1), (2, "old", 2), (3, "alone", 3)], upto=103)
    side.topic.create(id=1, name="first", qty=1)
    side.topic.delete(id=1, name="first", qty=1)
    side.topic.create(id=1, name="kept", qty=1)
    side.topic.delete(id=2, name="old", qty=2)
    side.topic.tombstone(id=3)
    side.apply(cut, in_memory=way != JOBS)
    side.apply(len(side.topic.records), in_memory=way != JOBS)
    assert (side.by_arrow, names(side)) == (0 if way == JOBS else 2, [(1, "kept", 1)])
    if way != JOBS:
        return
    side.topic.create(id=9, name="last", qty=9)
    reads = len(side.bench.reads)
    side.apply(len(side.topic.records), in_memory=False)
    # past the watermark nothing is read before the batch
    assert [bounds for one in side.bench.reads[reads:] for bounds in one.values()] == [{0: (7, 8)}]


def test_a_batch_of_each_kind_in_turn(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's deletes meet files that Spark wrote, and the other way round; manifests are merged meanwhile."""
    monkeypatch.setattr(file_change, "MERGE_AT", 4)
    topic = history(ITEMS, 11)
    one, other = both(spark, lake, ITEMS, topic)
    one.begin()
    other.begin()
    for number, end in enumerate(range(15, len(topic.records), 15)):
        one.apply(end, in_memory=number % 4 != 2)
    other.apply(end, in_memory=False)
    assert one.state()[0] == other.state()[0] == one.rows_by_spark()
    metadata = lake.table(*one.place).metadata
    head = snapshot_at(metadata, head_of(metadata))
    assert head is not None
    assert len(head.manifests(lake.table(*one.place).io)) < 12


def quiet(spark: SparkSession, lake: Lake, rows: list[tuple[Any, ...]]) -> Side:
    """A table with rows whose next batch may be written by Arrow."""
    topic = Topic(ITEMS)
    topic.create(id=100, name="first", qty=1)
    side = Side(Bench(spark, lake), ITEMS, topic)
    side.begin(rows)
    side.apply(1, in_memory=True)
    assert side.by_arrow == 1
    side.by_arrow = 0
    return side


def names(side: Side) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in side.bench.lake.read_arrow(*side.place).to_pylist())


def test_it_is_one_commit_with_position_deletes(spark: SparkSession, lake: Lake) -> None:
    side = quiet(spark, lake, [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    before = lake.head(*side.place)
    side.topic.update({}, id=1, name="new", qty=1)
    side.topic.delete(id=2, name="b", qty=2)
    side.apply(len(side.topic.records), in_memory=True)
    metadata = lake.table(*side.place).metadata
    head = snapshot_at(metadata, head_of(metadata))
    assert head is not None
    summary = summary_of(head)
    assert (operation_of(head), head.parent_snapshot_id) == ("overwrite", before)
    assert (summary["added-position-deletes"], summary["added-records"]) == ("2", "1")
    assert names(side) == [(1, "new", 1), (3, "c", 3), (100, "first", 1)]


def test_maintenance_keeps_the_rows_and_the_next_batch_finds_its_keys(spark: SparkSession, lake: Lake) -> None:
    """Spark's procedures over files, deletes and manifests that PyIceberg wrote."""
    side = quiet(spark, lake, [(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    for number in range(3):
        side.topic.update({}, id=1, name=f"n{number}", qty=number)
        side.topic.create(id=10 + number, name="new", qty=number)
        side.apply(len(side.topic.records), in_memory=True)
    before, where = names(side), f"table => '{'.'.join(side.place)}'"
    some = "options => map('rewrite-all', 'true')"
    for call in (
        f"rewrite_data_files({where}, {some})",
        f"rewrite_position_delete_files({where}, {some})",
        f"rewrite_manifests({where})",
    ):
        spark.sql(f"CALL {lake.name}.system.{call}")
        assert side.bench.spark.table(".".join((lake.name, *side.place))).count() == len(before)
        assert names(side) == before
    side.topic.delete(id=1, name="n2", qty=2)
    side.apply(len(side.topic.records), in_memory=True)
    assert side.by_arrow == 4
    assert names(side) == [row for row in before if row[0] != 1]


def test_merged_files_are_read_by_spark_and_expiry_deletes_what_they_were_made_of(
    spark: SparkSession, lake: Lake
) -> None:
    """Spark's own files, deletes and manifests meet those of small commits; each batch is compared by both readers."""
    topic = history(ITEMS, 13)
    side = Side(Bench(spark, lake), ITEMS, topic)
    side.begin()
    merged = 0
    for number, end in enumerate(range(15, len(topic.records), 15)):
        side.apply(end, in_memory=number % 3 != 2)
        merged += opened_at(side.bench.context([topic]), side.place).merge_files(2) != Tidied()
        assert side.state()[0] == side.rows_by_spark()
    assert merged > 3
    # what the oldest kept version removed is deleted with that version, so that must not be a merge
    topic.create(id=900, name="last", qty=1)
    side.apply(len(topic.records), in_memory=True)
    policy = MaintenancePolicy(compact=False, expire_after=0)
    done = IcebergKeeper(lake).tidy(spark, side.place, policy, datetime.now(UTC) + timedelta(hours=1), lambda: None)
    assert done.expired > merged
    files = live_files(lake.table(*side.place))
    assert files is not None
    live = {file.file_path.removeprefix("file:") for file in (*files.data, *files.deletes)}
    folder = Path(lake.table(*side.place).location().removeprefix("file:")) / "data"
    assert {str(path) for path in folder.rglob("*.parquet")} == {str(Path(path)) for path in live}
    assert side.state()[0] == side.rows_by_spark()


def test_a_table_that_somebody_else_moved_is_not_written(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = quiet(spark, lake, [(9, "nine", 9)])
    side.topic.create(id=1, name="a", qty=1)
    writes = file_change.write_rows

    def moved(*args: Any) -> Any:
        lake.commit_nothing(*side.place, {})
        return writes(*args)

    monkeypatch.setattr(row_delta, "write_rows", moved)
    with pytest.raises(StaleHeadError, match="main moved from"):
        side.apply(len(side.topic.records), in_memory=True)
    assert names(side) == [(9, "nine", 9), (100, "first", 1)]


def _bad(topic: Topic) -> None:
    topic.raw(b'{"id": 5}', b'{"op": "c", "after": {"id": 5')


def _wrong_value(topic: Topic) -> None:
    topic.create(id=5, name="five", qty="no number")


def _truncate(topic: Topic) -> None:
    topic.truncate()


def _snapshot(topic: Topic) -> None:
    topic.event("r", None, {"id": 5, "name": "five", "qty": 5}, source=topic.source(snapshot="first"))


def _nowhere(topic: Topic) -> None:
    """A position that is NULL is none."""
    topic.event("u", {}, {"id": 1, "name": "x", "qty": 1}, source=topic.source(pos=None))


def _number_for_a_file(topic: Topic) -> None:
    topic.event("c", None, {"id": 5, "name": "five", "qty": 5}, source=topic.source(file=7))


def _number_for_a_gtid(topic: Topic) -> None:
    topic.event("c", None, {"id": 5, "name": "five", "qty": 5}, source=topic.source(gtid=7))


def _brackets(topic: Topic) -> None:
    topic.raw(b'{"id": 5}', b"[" * 200_000)


ODD = [_bad, _wrong_value, _truncate, _snapshot, _nowhere, _number_for_a_file, _number_for_a_gtid, _brackets]


@pytest.mark.parametrize("unusual", ODD)
def test_what_is_not_plain_is_left_to_spark(spark: SparkSession, lake: Lake, unusual: Any) -> None:
    side = quiet(spark, lake, [(1, "a", 1)])
    side.topic.update({}, id=1, name="new", qty=1)
    unusual(side.topic)
    head = lake.head(*side.place)
    ctx = side.bench.context([side.topic], in_memory=True)
    opened = opened_at(ctx, side.place)
    start = start_from(ctx, ITEMS, *opened.stamped(None), side.topic.upto)
    assert few.apply_few(ctx, opened, start, None, {}) is None
    assert lake.head(*side.place) == head


@pytest.mark.parametrize(
    "why",
    [
        {"property": {"write.format.default": "orc"}},
        {"limit": ("MOST_FILES", 0)},
        {"limit": ("MOST_ROWS", 0)},
        {"few": ("FEW", 0)},
        {"few": ("MOST_BYTES", 10)},
    ],
    ids=str,
)
def test_a_table_or_batch_of_another_kind_is_left_to_spark(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, why: Mapping[str, Any]
) -> None:
    side = quiet(spark, lake, [(1, "a", 1), (2, "b", 2)])
    if "property" in why:

        def build(now: Any) -> Change | None:
            same = AssertTableUUID(uuid=now.metadata.table_uuid)
            missing = any(now.properties.get(name) != value for name, value in why["property"].items())
            return Change((same,), (SetPropertiesUpdate(updates=why["property"]),)) if missing else None

        commit(lake.catalog, side.place, build, what="a property")
    for module, name in ((row_positions, "limit"), (few, "few")):
        if name in why:
            monkeypatch.setattr(module, *why[name])
    side.topic.update({}, id=1, name="new", qty=1)
    side.apply(len(side.topic.records), in_memory=True)
    assert side.by_arrow == 0
    assert names(side) == [(1, "new", 1), (2, "b", 2), (100, "first", 1)]


def test_a_repeated_range_is_not_written(spark: SparkSession, lake: Lake) -> None:
    side = quiet(spark, lake, [])
    first = side.topic.update({}, id=1, name="one", qty=1)
    side.topic.update({}, id=1, name="two", qty=2)
    side.apply(len(side.topic.records), in_memory=True)
    side.topic.event("u", {}, {"id": 1, "name": "one", "qty": 1}, source=first)
    ctx = side.bench.context([side.topic], in_memory=True, write_behind=False)
    opened = opened_at(ctx, side.place)
    head = lake.head(*side.place)
    done = few.apply_few(ctx, opened, start_from(ctx, ITEMS, *opened.stamped(None), side.topic.upto), None, {})
    assert done is not None
    assert (done["behind"], done["snapshot_id"], lake.head(*side.place)) == (True, None, head)
    assert json.loads(json.dumps(done)) == done


def test_a_batch_that_ends_inside_repeats_is_written_to_a_stage_that_goes_on(spark: SparkSession, lake: Lake) -> None:
    """As by Spark's jobs: a verification's stage is at each end, and its next batch is past the repeats (INV 18)."""
    side = quiet(spark, lake, [])
    first = side.topic.update({}, id=1, name="one", qty=1)
    side.topic.update({}, id=1, name="two", qty=2)
    side.apply(len(side.topic.records), in_memory=True)
    side.topic.event("u", {}, {"id": 1, "name": "one", "qty": 1}, source=first)
    target = ApplyTarget(ITEMS, lake.stage(*side.place, "recov_1_1"), None, {})
    told = [apply_table(side.bench.context([side.topic], in_memory=True), target, side.topic.upto)]
    side.topic.update({}, id=1, name="three", qty=3)
    told.append(apply_table(side.bench.context([side.topic], in_memory=True), target, side.topic.upto))
    assert [one["behind"] for one in told] == [True, False]
    assert told[1]["snapshot_id"] == lake.stage_head(target.stage)
    assert side.bench.rows(target.stage) == [(1, "three", 3), (100, "first", 1)]


def test_a_stage_takes_few_plain_events_without_a_session(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = quiet(spark, lake, [(1, "a", 1)])
    side.topic.update({}, id=1, name="new", qty=1)
    target = ApplyTarget(ITEMS, lake.stage(*side.place, "recov_1_1"), None, {})
    ctx = replace(side.bench.context([side.topic], in_memory=True), spark=no_session()[0])
    assert apply_table(ctx, target, side.topic.upto)["records"] == 1
    assert names(side) == [(1, "a", 1), (100, "first", 1)]
    assert side.bench.rows(target.stage) == [(1, "new", 1), (100, "first", 1)]
    monkeypatch.setattr(few, "FEW", 0)
    side.topic.update({}, id=1, name="newer", qty=1)
    ctx = replace(side.bench.context([side.topic], in_memory=True), spark=no_session()[0])
    with pytest.raises(AssertionError, match="a session of Spark"):
        apply_table(ctx, target, side.topic.upto)
