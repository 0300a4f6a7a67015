"""Ways in which an apply could leave a sink that differs in silence, on a real broker, source and lake.

Each is shown twice: with the rule that prevents it, and with that rule taken out, when the wrong result comes about
without any error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.errors import SinkError, SourceError, TransportError, UnknownStateError
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.decisions.apply import start as apply_start
from airflow_cdc.sinks.iceberg import snapshots
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.adapters.mysql import MySqlReader
from airflow_cdc.spark_apps.apply import batch as apply
from airflow_cdc.spark_apps.apply import context, counts, few, replay
from airflow_cdc.spark_apps.stages import waiting
from airflow_cdc.transports.kafka.client import KafkaTransport
from airflow_cdc.transports.kafka.wire import admin, read_all
from stack.process import wait_until
from tests.apply_support import Topic
from tests.integration.apply_scene import Scene
from tests.integration.rig import Rig

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
NAMES = "CREATE TABLE names (code VARCHAR(20) PRIMARY KEY, n INT)"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"

TakeOut = Callable[[Any, str, Any], None]


@pytest.fixture
def scene(rig: Rig, kafka: str, tmp_path: Path) -> Scene:
    return Scene(rig, kafka, tmp_path)


@pytest.fixture
def take_out(monkeypatch: pytest.MonkeyPatch) -> TakeOut:
    """`take_out(module, name, instead)`: the rule is gone until the test ends."""

    def gone(module: Any, name: str, instead: Any) -> None:
        monkeypatch.setattr(module, name, instead)

    return gone


def order(number: int, name: str = "a", qty: int = 1) -> dict[str, Any]:
    return {"id": number, "name": name, "qty": qty}


def put_in(scene: Scene, topic: Topic, *rows: dict[str, Any]) -> None:
    """Rows in the source, and their events in the topic."""
    for row in rows:
        values = ", ".join("NULL" if v is None else repr(v) for v in row.values())
        scene.rig.run(f"INSERT INTO {topic.table.name} VALUES ({values})")
        topic.create(**row)
    scene.send(topic)


def source_rows(scene: Scene, table: str) -> list[tuple[Any, ...]]:
    return sorted(scene.rig.run(f"SELECT * FROM {table}"), key=repr)


# --- INV 2: main put back across a recovery --------------------------------------------------------------------------


def put_back(scene: Scene, topic: Topic, snapshot_id: int) -> None:
    """What a user does in Spark SQL."""
    place = f"{scene.rig.schema}.{topic.table.name}"
    scene.rig.spark.sql(f"CALL lake.system.rollback_to_snapshot('{place}', {snapshot_id})")


def recovered_by(scene: Scene, topic: Topic) -> int:
    """A recovery's outcome: row 2 was deleted in a gap that no event tells of. Returns main before it."""
    put_in(scene, topic, order(1), order(2))
    scene.apply()
    before = scene.rig.lake.head(scene.rig.schema, "orders")
    assert before is not None
    scene.rig.run("DELETE FROM orders WHERE id = 2")
    control = scene.run().clients.control
    control.open_recovery("rec-1", tables=[topic.table.full_name])
    scene.rig.spark.sql(f"DELETE FROM {scene.name(topic.table)} WHERE id = 2")
    fence = {topic.name: TopicOffsets(topic.id, {0: 2})}
    append_nothing(scene.rig.spark, scene.name(topic.table), Stamp(1, None, fence).to_summary())
    control.close_recovery("rec-1")
    put_in(scene, topic, order(3))
    scene.apply(run_id="run-2")
    assert scene.rows("orders") == source_rows(scene, "orders")
    return before


def test_inv_02_main_put_back_across_a_recovery_is_no_start(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS)
    put_back(scene, topic, recovered_by(scene, topic))
    put_in(scene, topic, order(4))
    with pytest.raises(SinkError, match="epoch 0, the pipeline's is 1"):
        scene.apply(run_id="run-3")

    take_out(apply_start, "_check_epoch", lambda *_: None)
    assert scene.apply(run_id="run-4")["orders"]["published"]
    ghosts = set(scene.rows("orders")) - set(source_rows(scene, "orders"))
    assert ghosts == {(2, "a", 1)}  # the deleted row is back for ever, and nothing says so


def test_inv_02_main_put_back_to_before_every_stamp_is_not_the_mirror(scene: Scene, take_out: TakeOut) -> None:
    """The stamped commits are expired, so only the control table says how far the table came; main did not come there."""
    topic = scene.table(ORDERS)
    place, sql = f"{scene.rig.schema}.orders", scene.rig.spark.sql
    put_in(scene, topic, order(1))
    scene.apply()
    sql(f"INSERT INTO {scene.name(topic.table)} VALUES (1000, 'by hand', 0)")
    by_hand = scene.rig.lake.head(scene.rig.schema, "orders")
    put_in(scene, topic, order(2))
    scene.apply(run_id="run-2")
    assert by_hand is not None
    put_back(scene, topic, by_hand)
    sql(
        f"CALL lake.system.expire_snapshots(table => '{place}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert scene.rig.lake.stamp(scene.rig.schema, "orders") is None
    with pytest.raises(UnknownStateError, match="how far"):
        scene.apply(run_id="run-3")

    take_out(snapshots, "may_hold", lambda *_: True)
    put_in(scene, topic, order(3))
    assert scene.apply(run_id="run-4")["orders"]["published"]
    assert (2, "a", 1) not in scene.rows("orders")  # read over, although the source has it


# --- INV 15: the stamp of a compacted, expired table -----------------------------------------------------------------


def test_inv_15_compaction_and_expiry_leave_the_mirrored_stamp(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS)
    place, sql = f"{scene.rig.schema}.orders", scene.rig.spark.sql
    for number in (1, 2):
        put_in(scene, topic, order(number))
        scene.apply(run_id=f"run-{number}")
    sql(f"CALL lake.system.rewrite_data_files(table => '{place}', options => map('rewrite-all', 'true'))")
    sql(f"CALL lake.system.rewrite_manifests('{place}')")
    sql(
        f"CALL lake.system.expire_snapshots(table => '{place}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert scene.rig.lake.stamp(scene.rig.schema, "orders") is None
    put_in(scene, topic, order(3))
    done = scene.apply(run_id="run-3")["orders"]
    assert (done["records"], done["published"]) == (1, True)
    assert scene.rows("orders") == source_rows(scene, "orders")


# --- INV 16: the topic is another one --------------------------------------------------------------------------------


def starts_by_number(known: TopicOffsets | None, state: TopicState, _where: str) -> dict[int, int]:
    """Only numbers are compared: neither the topic's id nor its partitions."""
    stamped = {} if known is None else known.next
    return {p: stamped[p] for p in state.partitions if p in stamped}


def test_inv_16_a_recreated_topic_that_is_longer_already(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS)
    put_in(scene, topic, order(1), order(2))
    scene.apply()
    recreate(scene, topic)
    put_in(scene, topic, order(3), order(4), order(5))
    with pytest.raises(TransportError, match="is not the one that was stamped: its id is"):
        scene.apply(run_id="run-2")
    assert [row[0] for row in scene.rows("orders")] == [1, 2]

    take_out(apply_start, "_starts", starts_by_number)
    assert scene.apply(run_id="run-3")["orders"]["published"]
    missing = set(source_rows(scene, "orders")) - set(scene.rows("orders"))
    assert {row[0] for row in missing} == {3, 4}  # the first two of the new topic were never read


def test_inv_16_a_topic_without_an_id_is_known_by_its_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As brokers before 2.8 have them."""
    topic = scene.table(ORDERS)
    named = KafkaTransport.topic_states

    def nameless(self: KafkaTransport, names: Sequence[str]) -> dict[str, TopicState]:
        return {name: replace(state, id="") for name, state in named(self, names).items()}

    with monkeypatch.context() as old_brokers:
        old_brokers.setattr(KafkaTransport, "topic_states", nameless)
        for number in (1, 2, 3):
            put_in(scene, topic, order(number))
            assert scene.apply(run_id=f"run-{number}")["orders"]["published"]
    recreate(scene, topic)
    monkeypatch.setattr(KafkaTransport, "topic_states", nameless)
    put_in(scene, topic, *(order(number) for number in (4, 5, 6, 7)))
    with pytest.raises(TransportError, match="its brokers have no topic ids"):
        scene.apply(run_id="run-4")
    assert [row[0] for row in scene.rows("orders")] == [1, 2, 3]


def recreate(scene: Scene, topic: Topic) -> None:
    with admin(scene.transport.endpoint) as client:
        client.delete_topics([topic.name])
        wait_until(
            lambda: not scene.transport.topic_states([topic.name]) or None, timeout=30, what="the topic to be gone"
        )
        wanted = {"num_partitions": 1, "replication_factor": 1, "configs": {}}
        client.create_topics({topic.name: wanted}, wait_for_metadata=True)
    topic.records.clear()
    topic.ends.clear()


def test_inv_16_partitions_added_since_are_not_passed_over(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS)
    put_in(scene, topic, order(1))
    scene.apply()
    with admin(scene.transport.endpoint) as client:
        client.create_partitions({topic.name: 2})
    wait_until(
        lambda: len(scene.transport.topic_states([topic.name])[topic.name].partitions) == 2 or None,
        timeout=30,
        what="the new partition",
    )
    scene.rig.run("INSERT INTO orders VALUES (2, 'a', 1), (3, 'a', 1)")
    topic.event("c", None, order(2), partition=1)
    topic.event("c", None, order(3), partition=0)
    scene.send(topic)
    with pytest.raises(TransportError, match="it has 2 partitions, the stamp has 1"):
        scene.apply(run_id="run-2")

    take_out(apply_start, "_starts", starts_by_number)
    scene.apply(run_id="run-3")
    missing = set(source_rows(scene, "orders")) - set(scene.rows("orders"))
    assert {row[0] for row in missing} == {2}  # for ever: nobody reads the new partition


# --- INV 17: compaction takes deletes away ---------------------------------------------------------------------------

EAGER = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "1",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
}


def test_inv_17_a_stamp_older_than_kept_tombstones_is_a_gap(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS, configs=EAGER)
    put_in(scene, topic, order(1), order(2))
    take_out(apply_start, "_tombstones_seen", lambda _state, _ranges, applied, _where: applied)
    scene.apply()
    scene.rig.run("DELETE FROM orders WHERE id = 2")
    topic.delete(**order(2))
    scene.send(topic)
    compacted(scene, topic)
    scene.apply(run_id="run-2")
    assert (2, "a", 1) in scene.rows("orders")  # a ghost for ever: neither delete nor tombstone is left

    take_out(apply_start, "_tombstones_seen", TOMBSTONES_SEEN)
    put_in(scene, topic, order(4))
    with pytest.raises(TransportError, match="older than its tombstones are kept"):
        scene.apply(run_id="run-3")


TOMBSTONES_SEEN = apply_start._tombstones_seen


def compacted(scene: Scene, topic: Topic) -> None:
    """Wait until the broker has taken away what it had of key 2; each new record lets it close a segment."""

    def gone() -> bool | None:
        topic.update(order(1), **order(1))
        scene.send(topic)
        keys = [record.key for record in read_all(scene.transport.endpoint, topic.name)]
        return True if b'{"id": 2}' not in keys else None

    wait_until(gone, timeout=180, interval=1.0, what="the tombstone to be compacted away")


# --- INV 18: readers do not go back in time --------------------------------------------------------------------------


def test_inv_18_a_batch_that_ends_inside_repeats_is_not_published(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(ORDERS)
    first, second, third = order(1), order(1, "b", 2), order(1, "c", 3)
    scene.rig.run("INSERT INTO orders VALUES (1, 'c', 3)")
    places = [topic.create(**first), topic.update(first, **second), topic.update(second, **third)]
    scene.send(topic)
    scene.apply()
    assert scene.rows("orders") == [(1, "c", 3)]

    topic.event("c", None, first, source=places[0])  # the connector was restarted and begins again
    topic.event("u", first, second, source=places[1])
    scene.send(topic)
    done = scene.apply(run_id="run-2")["orders"]
    assert (done["behind"], done["published"]) == (True, False)
    assert scene.rows("orders") == [(1, "c", 3)]

    for module in (few, apply, context):
        take_out(module, "is_behind", lambda *_: False)
    assert scene.apply(run_id="run-3")["orders"]["published"]
    assert scene.rows("orders") == [(1, "b", 2)]  # what the source has long overwritten


def test_inv_18_once_past_the_repeats_it_is_published(scene: Scene) -> None:
    topic = scene.table(ORDERS)
    places = [topic.create(**order(1)), topic.update(order(1), **order(1, "b", 2))]
    scene.send(topic)
    scene.apply()
    topic.event("c", None, order(1), source=places[0])
    scene.send(topic)
    assert not scene.apply(run_id="run-2")["orders"]["published"]
    topic.event("u", order(1), order(1, "b", 2), source=places[1])
    topic.update(order(1, "b", 2), **order(1, "c", 3))
    scene.send(topic)
    assert scene.apply(run_id="run-3")["orders"]["published"]
    assert scene.rows("orders") == [(1, "c", 3)]


# --- INV 19: repeats of a table without a key ------------------------------------------------------------------------


def test_inv_19_repeats_across_batches_count_once(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(EVENTS)
    row = {"kind": "x", "n": 1}
    scene.rig.run("INSERT INTO events VALUES ('x', 1), ('x', 1)")
    places = [topic.create(**row), topic.create(**row)]
    scene.send(topic)
    scene.apply()
    repeat(scene, topic, row, places)
    done = scene.apply(run_id="run-2")["events"]
    assert (done["repeats"], done["published"]) == (2, True)
    assert scene.rows("events") == source_rows(scene, "events")

    take_out(apply, "_without_applied", lambda _ctx, _start, logged: logged)
    repeat(scene, topic, row, places)
    assert scene.apply(run_id="run-3")["events"]["published"]
    assert len(scene.rows("events")) == 4  # two rows too many


def repeat(scene: Scene, topic: Topic, row: dict[str, Any], places: list[dict[str, Any]]) -> None:
    for place in places:
        topic.event("c", None, row, source=place)
    scene.send(topic)


def test_inv_19_without_gtids_another_server_is_refused(scene: Scene, take_out: TakeOut) -> None:
    topic = scene.table(EVENTS)
    topic.gtids = False
    row = {"kind": "x", "n": 1}
    scene.rig.run("INSERT INTO events VALUES ('x', 1)")
    topic.create(**row)
    scene.send(topic)
    scene.apply()
    topic.server_id, topic.pos = 2, 1000  # a failover: the same change, read again from the other server
    topic.create(**row)
    scene.send(topic)
    with pytest.raises(SourceError, match="changes come from 2/mysql-bin now"):
        scene.apply(run_id="run-2")

    take_out(counts, "check_origins", lambda *_: None)
    scene.apply(run_id="run-3")
    assert len(scene.rows("events")) == 2  # the source has one


# --- maintenance by others between applies ---------------------------------------------------------------------------


def test_a_column_added_to_the_sink_by_hand_stops_apply_and_says_so(scene: Scene) -> None:
    topic = scene.table(ORDERS)
    put_in(scene, topic, order(1))
    scene.apply()
    scene.rig.spark.sql(f"ALTER TABLE {scene.name(topic.table)} ADD COLUMN mine STRING")
    put_in(scene, topic, order(2))
    with pytest.raises(SinkError, match="the sink has mine, which the source never had"):
        scene.apply(run_id="run-2")
    scene.rig.spark.sql(f"ALTER TABLE {scene.name(topic.table)} DROP COLUMN mine")
    scene.apply(run_id="run-3")
    assert scene.rows("orders") == source_rows(scene, "orders")


def test_main_put_back_within_an_epoch_is_applied_again(scene: Scene) -> None:
    topic = scene.table(ORDERS)
    put_in(scene, topic, order(1))
    scene.apply()
    before = scene.rig.lake.head(scene.rig.schema, "orders")
    put_in(scene, topic, order(2))
    scene.apply(run_id="run-2")
    assert before is not None
    put_back(scene, topic, before)
    assert scene.apply(run_id="run-3")["orders"]["records"] == 1
    assert scene.rows("orders") == source_rows(scene, "orders")


# --- INV 20: a dead letter's key is read again -----------------------------------------------------------------------


def test_inv_20_an_old_event_is_never_applied_later(scene: Scene, take_out: TakeOut) -> None:
    """The broken event is older than a delete that was applied; what counts is what the source holds now."""
    topic = scene.table(NAMES)
    letter = json.dumps({"op": "c", "after": {"code": "a", "n": 1}}).encode()  # no source position: set aside
    topic.raw(b'{"code":"a"}', letter)
    topic.create(code="b", n=2)
    topic.delete(code="a", n=1)
    scene.rig.run("INSERT INTO names VALUES ('b', 2)")
    scene.send(topic)
    done = scene.apply()["names"]
    assert (done["dead_letters"], done["unresolved"]) == (1, 0)
    assert scene.rows("names") == source_rows(scene, "names")

    take_out(waiting, "replay", applied_as_it_was)
    topic.raw(b'{"code":"a"}', letter)
    scene.send(topic)
    scene.apply(run_id="run-2")
    assert ("a", 1) in scene.rows("names")  # the source deleted it


def applied_as_it_was(ctx: Any, target: Any, start: Any, letters: Any, _read: Any) -> Any:
    """Replay as it must not be: the row that the old event held."""

    class Letters(MySqlReader):
        def __init__(self) -> None:
            """There is no server to ask."""

        def rows_of_keys(self, session: Any, _table: Any, _keys: Any, *, at: Any) -> Any:
            found = [json.loads(letter.value)["after"] for letter in letters]
            return session.createDataFrame([(row["code"], row["n"]) for row in found], "code string, n int")

    return replay.replay(ctx, target, start, letters, Letters())
