"""Tables with a key: topic order is the truth, and the commit carries where it came to."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import SchemaError, SinkError, SourceError, TransportError, UnknownStateError
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.apply.applied import Applied, LastChange
from airflow_cdc.sinks.iceberg import dead_letters
from airflow_cdc.sinks.iceberg.snapshots import snapshot_at, summary_of
from airflow_cdc.spark_apps.adapters.iceberg_letters import IcebergLetters
from airflow_cdc.spark_apps.apply.batch import apply_batch, apply_each
from tests.apply_support import (
    CONFIG,
    ITEMS,
    UUID,
    Bench,
    Topic,
    column,
    settings,
    stamp_at,
    table,
    watermark,
)

if TYPE_CHECKING:
    pass


def test_last_event_of_a_key_wins_and_deletes_leave_nothing(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    topic.create(id=2, name="b", qty=2)
    topic.update({"id": 1, "name": "a", "qty": 1}, id=1, name="a2", qty=None)
    topic.delete(id=2, name="b", qty=2)
    topic.create(id=3, name="c😀", qty=-3)
    target = bench.target(ITEMS, stamp_at(topic), [(3, "old", 0), (9, "nine", 9)])
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert bench.rows(target.stage) == [(1, "a2", None), (3, "c😀", -3), (9, "nine", 9)]
    assert (done["creates"], done["updates"], done["deletes"], done["tombstones"]) == (3, 1, 1, 1)
    stamp = bench.lake.stamp(*target.stage.identifier)
    assert stamp is not None
    assert stamp.offsets == {topic.name: TopicOffsets("topic-id", {0: 6})}
    assert stamp.snapshot_id == done["snapshot_id"] == bench.lake.stage_head(target.stage)


def test_a_changed_key_moves_the_row(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    topic.delete(id=1, name="a", qty=1)
    topic.create(id=7, name="a", qty=1)
    topic.create(id=1, name="again", qty=2)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "again", 2), (7, "a", 1)]


def test_inv_17_a_tombstone_alone_is_a_delete(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.tombstone(id=1)
    target = bench.target(ITEMS, stamp_at(topic), [(1, "a", 1), (2, "b", 2)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(2, "b", 2)]


def test_with_and_without_the_schema_envelope_in_one_topic(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="plain", qty=1)
    topic.schemas = True
    topic.create(id=2, name="wrapped", qty=2)
    topic.delete(id=1, name="plain", qty=1)
    target = bench.target(ITEMS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(2, "wrapped", 2)]


def test_only_what_is_after_the_stamp_and_before_the_end_is_applied(bench: Bench) -> None:
    topic = Topic(ITEMS)
    for number in range(4):
        topic.create(id=number, name="n", qty=number)
    target = bench.target(ITEMS, stamp_at(topic, 1))
    apply_batch(bench.context([topic]), [target], {topic.name: {0: 3}})
    assert [row[0] for row in bench.rows(target.stage)] == [1, 2]
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert [row[0] for row in bench.rows(target.stage)] == [1, 2, 3]


def test_a_batch_done_again_from_the_same_stamp_ends_the_same(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    topic.delete(id=5, name="e", qty=5)
    first = bench.target(ITEMS, stamp_at(topic), [(5, "e", 5)])
    second = first.__class__(ITEMS, bench.lake.stage(bench.namespace, "items", "t_2"))
    for target in (first, second, first):
        apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(first.stage) == bench.rows(second.stage) == [(1, "a", 1)]
    assert bench.rows(first.stage) == bench.rows(second.stage)


def test_a_table_without_new_events_reads_and_commits_nothing(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    target = bench.target(ITEMS, stamp_at(topic, 1))
    head = bench.lake.stage_head(target.stage)
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["records"] == 0
    assert bench.reads == []
    assert bench.lake.stage_head(target.stage) == head


def test_inv_15_an_empty_stamped_commit_when_asked_for(bench: Bench) -> None:
    topic = Topic(ITEMS)
    target = bench.target(ITEMS, stamp_at(topic, None, watermark=watermark()), [(1, "a", 1)])
    head = bench.lake.stage_head(target.stage)
    done = apply_batch(bench.context([topic]), [target], topic.upto, always_stamp=True)["shop.items"]
    stamp = bench.lake.stamp(*target.stage.identifier)
    assert stamp is not None
    assert stamp.snapshot_id == done["snapshot_id"] != head
    assert stamp.watermark == watermark()
    assert bench.rows(target.stage) == [(1, "a", 1)]


def test_inv_18_a_batch_that_ends_inside_repeats_is_not_fit_to_publish(bench: Bench) -> None:
    topic = Topic(ITEMS)
    one = topic.create(id=1, name="v1", qty=1)
    two = topic.update({"id": 1}, id=1, name="v2", qty=1)
    target = bench.target(ITEMS, stamp_at(topic))
    assert not apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]["behind"]
    topic.event("c", None, {"id": 1, "name": "v1", "qty": 1}, source=one)
    assert apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]["behind"]
    other = bench.target(ITEMS, None, label="t_2")
    apply_batch(bench.context([topic]), [other], {topic.name: {0: 2}})
    topic.event("u", {"id": 1}, {"id": 1, "name": "v2", "qty": 1}, source=two)
    assert not apply_batch(bench.context([topic]), [other], topic.upto)["shop.items"]["behind"]
    assert bench.rows(other.stage) == [(1, "v2", 1)]


def test_events_at_or_before_w_are_dropped_and_counted(bench: Bench) -> None:
    topic = Topic(ITEMS, gno=48)
    topic.create(id=1, name="in W", qty=1)  # gtid 49
    topic.create(id=2, name="in W", qty=1)  # 50
    topic.create(id=3, name="after", qty=1)  # 51
    target = bench.target(ITEMS, stamp_at(topic, watermark=watermark()), [(1, "read later", 9)])
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["before_watermark"] == 2
    assert bench.rows(target.stage) == [(1, "read later", 9), (3, "after", 1)]


def test_the_tombstone_of_a_delete_before_w_is_dropped_with_it(bench: Bench) -> None:
    """A connector that goes on from before W sends a delete and a new creation that are both in the snapshot."""
    topic = Topic(ITEMS, gno=48)
    topic.delete(id=1, name="old", qty=1)  # gtid 49 and its tombstone, which has none
    topic.create(id=1, name="again", qty=2)  # 50
    topic.delete(id=2, name="gone", qty=1)  # 51, after W, with its tombstone
    rows = [(1, "again", 2), (2, "gone", 1), (3, "stays", 1)]
    target = bench.target(ITEMS, stamp_at(topic, watermark=watermark()), rows)
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["before_watermark"] == 2
    assert bench.rows(target.stage) == [(1, "again", 2), (3, "stays", 1)]


def test_without_gtids_position_on_the_same_server_tells_what_is_before_w(bench: Bench) -> None:
    topic = Topic(ITEMS, gtids=False, pos=300, ts_ms=1_790_000_000_000)
    topic.create(id=1, name="before", qty=1)  # pos 400
    topic.create(id=2, name="at W", qty=1)  # pos 500: begins where W ends
    topic.server_id = 2
    topic.pos = 100
    topic.create(id=3, name="other server", qty=1)
    target = bench.target(ITEMS, stamp_at(topic, watermark=watermark(gtids=None)))
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["before_watermark"] == 1
    assert [row[0] for row in bench.rows(target.stage)] == [2, 3]


def test_a_position_before_w_with_a_time_after_it_stops(bench: Bench) -> None:
    topic = Topic(ITEMS, gtids=False, pos=100, ts_ms=1_900_000_000_000)
    topic.create(id=1, name="?", qty=1)
    target = bench.target(ITEMS, stamp_at(topic, watermark=watermark(gtids=None)))
    with pytest.raises(SourceError, match="before the watermark by their position"):
        apply_batch(bench.context([topic]), [target], topic.upto)


@pytest.mark.parametrize("epoch", [0, 2])
def test_inv_01_02_a_stamp_of_another_epoch_is_refused(bench: Bench, epoch: int) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    target = bench.target(ITEMS, stamp_at(topic, epoch=epoch))
    with pytest.raises(SinkError, match="epoch"):
        apply_batch(bench.context([topic], epoch=1), [target], topic.upto)
    assert bench.rows(target.stage) == []


def test_no_stamp_at_all_is_unknown_and_no_mirror_is_believed_that_main_never_held(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    target = bench.target(ITEMS, None)
    with pytest.raises(UnknownStateError, match="how far"):
        apply_batch(bench.context([topic]), [target], topic.upto)
    # every commit that the table ever had is still there, and none of them carries it (INV 2)
    mirrored = target.__class__(ITEMS, target.stage, stamp=stamp_at(topic))
    with pytest.raises(UnknownStateError, match="how far"):
        apply_batch(bench.context([topic]), [mirrored], topic.upto)
    assert bench.rows(target.stage) == []


def test_inv_16_another_topic_under_the_same_name(bench: Bench) -> None:
    topic = Topic(ITEMS)
    target = bench.target(ITEMS, stamp_at(topic))
    for wrong, message in (
        (Topic(ITEMS, id="recreated"), "its id is recreated"),
        (Topic(ITEMS, partitions=3), "3 partitions"),
        (Topic(ITEMS, begin=5), "records 0 to 4 were removed"),
    ):
        wrong.create(id=1, name="a", qty=1)
        with pytest.raises(TransportError, match=message):
            apply_batch(bench.context([wrong]), [target], wrong.upto)
    beyond = bench.target(ITEMS, stamp_at(topic, 7), label="t_7")
    with pytest.raises(TransportError, match="ends at 0"):
        apply_batch(bench.context([topic]), [beyond], topic.upto)


def test_a_topic_absent_from_the_fence_starts_at_its_beginning(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    target = bench.target(ITEMS, stamp_at(topic, None))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "a", 1)]


def test_truncate_clears_at_its_place_in_the_order(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="before", qty=1)
    topic.truncate()
    topic.create(id=2, name="after", qty=2)
    target = bench.target(ITEMS, stamp_at(topic), [(8, "old", 8), (2, "old", 0)])
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert bench.rows(target.stage) == [(2, "after", 2)]
    assert done["truncates"] == 1


def test_truncate_in_a_topic_of_several_partitions_has_no_order(bench: Bench) -> None:
    topic = Topic(ITEMS, partitions=2)
    topic.truncate()
    target = bench.target(ITEMS, stamp_at(topic))
    with pytest.raises(TransportError, match="partitions do not show"):
        apply_batch(bench.context([topic]), [target], topic.upto)


BAD = {
    "not JSON": (b'{"id":1}', b"{oops", "not JSON"),
    "not UTF-8": (b'{"id":1}', b"\xff\xfe{}", "not valid UTF-8"),
    "no op": (b'{"id":1}', b'{"id":1,"name":"x"}', "no op"),
    "unknown op": (
        b'{"id":1}',
        b'{"op":"z","source":{"file":"f.1","pos":1,"row":0,"server_id":1,"db":"shop","table":"items"}}',
        "unknown op z",
    ),
    "no position": (b'{"id":1}', b'{"op":"c","after":{"id":1}}', "no source position"),
    "a number for a file": (
        b'{"id":1}',
        b'{"op":"c","after":{"id":1,"name":"x","qty":1},"source":{"file":7,"pos":1,"row":0,"server_id":1,"db":"shop","table":"items"}}',
        "no source position",
    ),
    "a GTID that is none": (
        b'{"id":1}',
        b'{"op":"c","after":{"id":1,"name":"x","qty":1},"source":{"file":"f.1","pos":1,"row":0,"server_id":1,"gtid":7,"db":"shop","table":"items"}}',
        "no source position",
    ),
    "no key": (
        None,
        b'{"op":"d","source":{"file":"f.1","pos":1,"row":0,"server_id":1,"db":"shop","table":"items"}}',
        "has no key",
    ),
    "wrong key": (b'{"nr":1}', None, "column id cannot be decoded"),
    "garbled key": (b"\xff", None, "key is not valid UTF-8"),
    "wrong type": (
        b'{"id":1}',
        b'{"op":"c","after":{"id":1,"name":"x","qty":"many"},"source":{"file":"f.1","pos":1,"row":0,"server_id":1,"db":"shop","table":"items"}}',
        "column qty cannot be decoded",
    ),
    "NULL in NOT NULL": (
        b'{"id":1}',
        b'{"op":"c","after":{"id":null,"name":"x","qty":1},"source":{"file":"f.1","pos":1,"row":0,"server_id":1,"db":"shop","table":"items"}}',
        "column id cannot be decoded",
    ),
}


def test_bad_records_are_kept_with_the_reason_and_the_rest_is_applied(bench: Bench) -> None:
    topic = Topic(ITEMS)
    for key, value, _ in BAD.values():
        topic.raw(key, value)
    good = [(number, "good", 2) for number in range(10, 10 + len(BAD))]  # rows are sorted as texts
    for number, name, qty in good:
        topic.create(id=number, name=name, qty=qty)
    target = bench.target(ITEMS, stamp_at(topic))
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert bench.rows(target.stage) == good
    assert done["dead_letters"] == len(BAD)
    kept = {letter.offset: letter for letter in dead_letters.unresolved(bench.lake, bench.pipeline, "shop.items")}
    for offset, (key, value, reason) in enumerate(BAD.values()):
        assert reason in kept[offset].reason
        assert (kept[offset].key, kept[offset].value) == (key, value)
        assert kept[offset].attempts == 1
    assert dead_letters.unresolved(bench.lake, bench.pipeline, "shop.orders") == ()


def test_a_batch_done_again_adds_no_dead_letter_and_counts_the_attempt(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.raw(b'{"id":1}', b"nonsense")
    first = bench.target(ITEMS, stamp_at(topic))
    apply_batch(bench.context([topic]), [first], topic.upto)
    second = first.__class__(ITEMS, bench.lake.stage(bench.namespace, "items", "t_2"))
    apply_batch(bench.context([topic]), [second], topic.upto)
    (letter,) = dead_letters.unresolved(bench.lake, bench.pipeline)
    assert letter.attempts == 2
    assert base64.b64decode(base64.b64encode(letter.value or b"")) == b"nonsense"
    IcebergLetters(bench.lake, bench.pipeline).resolve(bench.spark, [letter])
    assert dead_letters.unresolved(bench.lake, bench.pipeline) == ()
    assert len(dead_letters.letters(bench.lake, bench.pipeline)) == 1


def test_when_nearly_all_records_are_bad_nothing_is_applied(bench: Bench) -> None:
    topic = Topic(ITEMS)
    for _ in range(3):
        topic.raw(b'{"id":1}', b"\x00\x01avro")
    target = bench.target(ITEMS, stamp_at(topic))
    with pytest.raises(SchemaError, match="3 of 3 records"):
        apply_batch(bench.context([topic], max_dead_letters=2), [target], topic.upto)
    assert dead_letters.letters(bench.lake, bench.pipeline) == ()


def test_a_column_that_the_definition_does_not_have_stops_the_table(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1, colour="red")
    target = bench.target(ITEMS, stamp_at(topic))
    with pytest.raises(SchemaError, match="colour"):
        apply_batch(bench.context([topic]), [target], topic.upto)


def test_a_nullable_column_added_at_the_source_is_added_before_the_merge(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="from before", qty=1)
    topic.create(id=2, name="from after", qty=2, note="new")
    old = bench.target(ITEMS, stamp_at(topic), [(5, "old", 5)])
    grown = table("items", [*ITEMS.columns, column("note", "varchar(20)")], ("id",))
    with pytest.raises(SchemaError, match="default is unknown"):
        apply_batch(bench.context([topic]), [old.__class__(grown, old.stage)], topic.upto)
    target = old.__class__(grown, old.stage, defaults={"note": None})
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["added"] == ["note"]
    assert bench.rows(target.stage) == [(1, "from before", 1, None), (2, "from after", 2, "new"), (5, "old", 5, None)]
    assert [f.name for f in bench.lake.table(bench.namespace, "items").schema().fields] == ["id", "name", "qty"]


def test_an_integer_widened_at_the_source_is_widened_before_the_merge(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="big", qty=5_000_000_000)
    old = bench.target(ITEMS, stamp_at(topic), [(5, "old", 5)])
    wide = table("items", [*ITEMS.columns[:2], column("qty", "bigint")], ("id",))
    target = old.__class__(wide, old.stage)
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert done["widened"] == ["qty"]
    assert bench.rows(target.stage) == [(1, "big", 5_000_000_000), (5, "old", 5)]


def test_inv_13_a_dropped_column_stops_the_table_and_is_named(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a")
    old = bench.target(ITEMS, stamp_at(topic))
    with pytest.raises(SchemaError, match="qty was dropped"):
        apply_batch(
            bench.context([topic]), [old.__class__(table("items", ITEMS.columns[:2], ("id",)), old.stage)], topic.upto
        )


def test_a_definition_that_changed_unseen_by_the_sinks_types_is_refused(bench: Bench) -> None:
    """DATETIME(3) to DATETIME(6) changes the unit of events, not the type of the sink."""
    was = table("times", [column("id", "bigint", nullable=False), column("at", "datetime(3)")], ("id",))
    now = table("times", [column("id", "bigint", nullable=False), column("at", "datetime(6)")], ("id",))
    topic = Topic(was)
    topic.create(id=1, at=1_700_000_000_123)
    target = bench.target(was, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    topic.create(id=2, at=1_700_000_000_123_456)
    with pytest.raises(SchemaError, match=r"the reported DDL does not lead to the source.s definition: column at"):
        apply_batch(bench.context([topic]), [target.__class__(now, target.stage)], topic.upto)


def test_one_table_that_stops_does_not_stop_the_others(bench: Bench) -> None:
    good, other = Topic(ITEMS), Topic(table("others", ITEMS.columns, ("id",)))
    good.create(id=1, name="a", qty=1)
    other.create(id=1, name="a", qty=1, extra=1)
    targets = [bench.target(ITEMS, stamp_at(good)), bench.target(other.table, stamp_at(other))]
    outcomes = apply_each(bench.context([good, other]), targets, good.upto | other.upto)
    assert isinstance(outcomes["shop.others"], SchemaError)
    assert bench.rows(targets[0].stage) == [(1, "a", 1)]
    assert bench.rows(targets[1].stage) == []


def test_each_table_side_by_side_carries_its_own_stamp(bench: Bench) -> None:
    topics = [Topic(table(f"t{n}", ITEMS.columns, ("id",)), id=f"id-{n}") for n in range(5)]
    for n, topic in enumerate(topics):
        for row in range(n + 1):
            topic.create(id=row, name=f"{n}", qty=row)
    targets = [bench.target(topic.table, stamp_at(topic)) for topic in topics]
    upto = {name: ends for topic in topics for name, ends in topic.upto.items()}
    apply_batch(bench.context(topics), targets, upto)
    for n, (topic, target) in enumerate(zip(topics, targets, strict=True)):
        stamp = bench.lake.stamp(*target.stage.identifier)
        assert stamp is not None
        assert stamp.offsets == {topic.name: TopicOffsets(f"id-{n}", {0: n + 1})}
        assert len(bench.rows(target.stage)) == n + 1


def test_several_partitions_keep_each_keys_order(bench: Bench) -> None:
    topic = Topic(ITEMS, partitions=2)
    topic.event("c", None, {"id": 1, "name": "a", "qty": 1}, partition=0)
    topic.event("c", None, {"id": 2, "name": "b", "qty": 1}, partition=1)
    topic.event("u", {"id": 2}, {"id": 2, "name": "b2", "qty": 1}, partition=1)
    topic.event("d", {"id": 1}, None, partition=0)
    target = bench.target(ITEMS, stamp_at(topic))
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]
    assert bench.rows(target.stage) == [(2, "b2", 1)]
    assert done["offsets"] == {"0": 2, "1": 2}


ROUTED: dict[str, str] = {
    "transforms": "r",
    "transforms.r.type": "io.debezium.transforms.ByLogicalTableRouter",
    "transforms.r.topic.regex": r"p\.shop\.items.*",
    "transforms.r.topic.replacement": "all_items",
}


def test_a_shared_topic_is_told_apart_by_the_source_and_by_the_routers_mark(bench: Bench) -> None:
    mark = "__dbz__physicalTableIdentifier"
    topic = Topic(ITEMS, name="all_items")
    other = table("items_2", ITEMS.columns, ("id",))
    row: dict[str, Any] = {"id": 1, "name": "mine", "qty": 1}
    topic.event("c", None, row, key={"id": 1, mark: "p.shop.items"})
    topic.table = other
    topic.event("c", None, {**row, "name": "theirs"}, key={"id": 1, mark: "p.shop.items_2"})
    topic.raw(json.dumps({"id": 1, mark: "p.shop.items_2"}).encode(), None)
    topic.table = ITEMS
    target = bench.target(ITEMS, stamp_at(topic))
    routed = ConnectorSettings.from_config({**CONFIG, **ROUTED})
    done = apply_batch(bench.context([topic], made=routed), [target], topic.upto)["shop.items"]
    assert bench.rows(target.stage) == [(1, "mine", 1)]
    assert done["other_tables"] == 2


def test_a_shared_topic_without_a_mark_is_refused(bench: Bench) -> None:
    topic = Topic(ITEMS, name="all_items")
    topic.table = table("items_2", ITEMS.columns, ("id",))
    topic.create(id=1, name="theirs", qty=1)
    topic.table = ITEMS
    target = bench.target(ITEMS, stamp_at(topic))
    routed = ConnectorSettings.from_config({**CONFIG, **ROUTED, "transforms.r.key.enforce.uniqueness": "false"})
    with pytest.raises(SchemaError, match="belong to other tables"):
        apply_batch(bench.context([topic], made=routed), [target], topic.upto)


def test_inv_21_a_masked_column_is_refused_by_name(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="***", qty=1)
    target = bench.target(ITEMS, stamp_at(topic))
    masked = settings(column__mask__with__3__chars=r"shop\.items\.name")
    with pytest.raises(SchemaError, match="name"):
        apply_batch(bench.context([topic], made=masked), [target], topic.upto)


def test_column_names_that_clash_with_ours(bench: Bench) -> None:
    odd = table(
        "odd",
        [
            column("offset", "bigint", nullable=False),
            column("op"),
            column("it's `x`"),
            column("k0", "int"),
            column("cdc"),
        ],
        ("offset",),
    )
    topic = Topic(odd)
    topic.event("c", None, {"offset": 1, "op": "z", "it's `x`": "q", "k0": 4, "cdc": "c"})
    topic.event("u", None, {"offset": 1, "op": "y", "it's `x`": None, "k0": 5, "cdc": None})
    target = bench.target(odd, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [(1, "y", None, 5, None)]


def test_the_commit_remembers_the_last_change_of_each_partition(bench: Bench) -> None:
    topic = Topic(ITEMS)
    topic.create(id=1, name="a", qty=1)
    last = topic.create(id=2, name="b", qty=1)
    target = bench.target(ITEMS, stamp_at(topic))
    head = apply_batch(bench.context([topic]), [target], topic.upto)["shop.items"]["snapshot_id"]
    applied = Applied.from_summary(summary_of(snapshot_at(bench.lake.table(*target.stage.identifier).metadata, head)))
    assert applied is not None
    assert applied.last["0"] == LastChange(
        UUID, (topic.gno, last["pos"], 0), "1/mysql-bin", 3, f"{UUID}:{topic.gno}", last["ts_ms"]
    )
