"""Tables without a key are multisets: the net number of copies of each row counts, and repeats must not (INV 19)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import ConnectorError, SinkError, SourceError, TransportError
from airflow_cdc.decisions.apply.start import SNAPSHOT_AT
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply.batch import apply_batch
from tests.apply_support import EVENTS, Bench, Topic, column, stamp_at, table, watermark

if TYPE_CHECKING:
    pass

X1: dict[str, Any] = {"kind": "x", "n": 1}
Y2: dict[str, Any] = {"kind": "y", "n": 2}
Z: dict[str, Any] = {"kind": "z", "n": None}


def test_the_net_number_of_copies_counts(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.create(**X1)
    topic.create(**X1)
    topic.delete(**Y2)
    topic.update(Z, **X1)
    topic.create(**Y2)
    topic.delete(**Y2)
    target = bench.target(EVENTS, stamp_at(topic), [("y", 2)] * 3 + [("z", None)] * 2)
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [("x", 1)] * 3 + [("y", 2)] * 2 + [("z", None)]


def test_inserts_alone_and_changes_that_cancel_out(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.create(**X1)
    target = bench.target(EVENTS, stamp_at(topic), [("y", 2)])
    apply_batch(bench.context([topic]), [target], topic.upto)
    topic.create(**Z)
    topic.delete(**Z)
    head = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]["snapshot_id"]
    stamp = bench.lake.stamp(*target.stage.identifier)
    assert stamp is not None
    assert stamp.snapshot_id == head
    assert bench.rows(target.stage) == [("x", 1), ("y", 2)]


@pytest.mark.parametrize("gtids", [True, False])
def test_inv_19_repeats_in_one_batch_and_across_batches_count_once(bench: Bench, gtids: bool) -> None:
    topic = Topic(EVENTS, gtids=gtids)
    places = [topic.create(kind="k", n=n) for n in range(4)]
    topic.event("c", None, {"kind": "k", "n": 3}, source=places[3])
    target = bench.target(EVENTS, stamp_at(topic, watermark=watermark(gtids="" if gtids else None, pos=4)))
    first = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]
    for n in (2, 3):
        topic.event("c", None, {"kind": "k", "n": n}, source=places[n])
    topic.create(kind="k", n=9)
    second = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]
    assert (first["repeats"], second["repeats"]) == (1, 2)
    assert [row[1] for row in bench.rows(target.stage)] == [0, 1, 2, 3, 9]


def test_inv_19_a_transaction_cut_by_the_end_of_a_batch_is_not_taken_for_a_repeat(bench: Bench) -> None:
    topic = Topic(EVENTS, partitions=2)
    topic.event("c", None, {"kind": "t", "n": 1}, partition=0)
    first = topic.upto
    topic.event("c", None, {"kind": "t", "n": 2}, partition=0, same_transaction=True)
    late = topic.source(pos=topic.pos - 250)  # of the same transaction, earlier in the log, through another partition
    topic.event("c", None, {"kind": "t", "n": 0}, partition=1, source=late, same_transaction=True)
    target = bench.target(EVENTS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], first)
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]
    assert done["repeats"] == 0
    assert [row[1] for row in bench.rows(target.stage)] == [0, 1, 2]


def test_inv_19_repeats_that_the_topic_no_longer_explains_are_refused(bench: Bench) -> None:
    topic = Topic(EVENTS)
    place = topic.create(**X1)
    topic.create(**Y2)
    target = bench.target(EVENTS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    shorter = Topic(EVENTS, begin=2, gno=topic.gno, pos=topic.pos)
    shorter.event("c", None, X1, source=place)
    with pytest.raises(TransportError, match="repeats"):
        apply_batch(bench.context([shorter]), [target], shorter.upto)


# A replica's log keeps the id of the server that wrote the change first: then the file alone says that it is another log.
@pytest.mark.parametrize("server_id", [1, 2])
def test_inv_19_a_transaction_repeated_from_another_server_is_refused(bench: Bench, server_id: int) -> None:
    topic = Topic(EVENTS)
    place = topic.create(**X1)
    topic.create(**Y2)
    target = bench.target(EVENTS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    topic.event("c", None, X1, source={**place, "server_id": server_id, "file": "mysql-bin.000001", "pos": 4})
    with pytest.raises(SourceError, match="another server"):
        apply_batch(bench.context([topic]), [target], topic.upto)


def test_inv_19_without_gtids_a_changed_server_is_refused(bench: Bench) -> None:
    topic = Topic(EVENTS, gtids=False)
    topic.create(**X1)
    target = bench.target(EVENTS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    topic.server_id = 2
    topic.create(**Y2)
    with pytest.raises(SourceError, match="repeats from another server cannot be recognised"):
        apply_batch(bench.context([topic]), [target], topic.upto)


def test_inv_19_events_up_to_the_read_views_own_position_are_dropped(bench: Bench) -> None:
    """The table was read at GTID 60, later than W at 50: what lies between is in the rows already."""
    topic = Topic(EVENTS, gno=54)
    topic.create(**X1)  # gtid 55
    topic.gno = 60
    topic.create(**Y2)  # gtid 61
    target = bench.target(EVENTS, None, [("x", 1)])
    stamp = stamp_at(topic, watermark=watermark())
    at = watermark(gtids=str(watermark()["position"]["gtids"]).replace("1-50", "1-60"))
    append_nothing(bench.spark, target.stage.spark_name("lake"), {**stamp.to_summary(), SNAPSHOT_AT: json.dumps(at)})
    first = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]
    assert first["before_watermark"] == 1
    assert bench.rows(target.stage) == [("x", 1), ("y", 2)]
    topic.gno = 57
    topic.create(**Z)  # gtid 58, from a producer that was believed dead; a later batch drops it too
    assert apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]["before_watermark"] == 1
    assert bench.rows(target.stage) == [("x", 1), ("y", 2)]


def test_a_delete_of_a_row_that_is_not_there_stops_the_table(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.delete(**X1)
    topic.delete(**X1)
    target = bench.target(EVENTS, stamp_at(topic), [("x", 1)])
    with pytest.raises(SinkError, match="1 rows that the source deleted"):
        apply_batch(bench.context([topic]), [target], topic.upto)


def test_truncate_clears_and_what_follows_counts(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.create(**X1)
    place = topic.truncate()
    topic.create(**Y2)
    topic.create(**Y2)
    target = bench.target(EVENTS, stamp_at(topic), [("x", 1)] * 3 + [("y", 2)] * 5)
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [("y", 2)] * 2
    topic.event("t", None, None, source=place)  # the repeat of a truncate must not clear again
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [("y", 2)] * 2


def test_inv_05_a_snapshot_that_nobody_asked_for_is_refused(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.event("r", None, X1, source=topic.source(snapshot="first"))
    target = bench.target(EVENTS, stamp_at(topic, watermark=watermark()), [("x", 1)])
    with pytest.raises(ConnectorError, match="snapshot of its own"):
        apply_batch(bench.context([topic]), [target], topic.upto)


def test_a_table_that_the_connectors_first_snapshot_fills(bench: Bench) -> None:
    topic = Topic(EVENTS)
    place = topic.source(snapshot="first", gtid=None, pos=100)
    topic.event("r", None, X1, source=place)
    topic.event("r", None, X1, source={**place, "snapshot": "true"})
    topic.create(**Y2)
    target = bench.target(EVENTS, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert bench.rows(target.stage) == [("x", 1)] * 2 + [("y", 2)]


def test_bad_records_of_a_table_without_a_key(bench: Bench) -> None:
    topic = Topic(EVENTS)
    topic.raw(None, b"nonsense")
    topic.raw(None, None)  # Debezium's tombstone after a delete: without a key it says nothing
    topic.create(**X1)
    target = bench.target(EVENTS, stamp_at(topic))
    done = apply_batch(bench.context([topic]), [target], topic.upto)["shop.events"]
    assert (done["dead_letters"], done["repeats"]) == (1, 0)
    assert bench.rows(target.stage) == [("x", 1)]


def test_rows_with_nulls_bytes_and_doubles_are_told_apart_exactly(bench: Bench) -> None:
    rich = table(
        "rich", [column("b", "varbinary(4)"), column("d", "double"), column("t", "datetime(6)"), column("p", "point")]
    )
    topic = Topic(rich)
    point = {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None}
    full: dict[str, Any] = {"b": "AAE=", "d": 0.1, "t": 1_700_000_000_123_456, "p": point}
    empty: dict[str, Any] = {"b": None, "d": None, "t": None, "p": None}
    for row in (full, full, empty, empty, {**full, "d": 0.2}):
        topic.create(**row)
    target = bench.target(rich, stamp_at(topic))
    apply_batch(bench.context([topic]), [target], topic.upto)
    assert len(bench.rows(target.stage)) == 5
    topic.delete(**full)
    topic.delete(**empty)
    apply_batch(bench.context([topic]), [target], topic.upto)
    left = bench.rows(target.stage)
    assert sorted(row[1] or 0 for row in left) == [0, 0.1, 0.2]
