"""The Kafka transport on a real broker: ids, ends, the raw offsets topic, schema histories."""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.history import fold_history
from airflow_cdc.connectors.kafka_connect.offsets_topic import read_raw_offsets, write_raw_offset
from airflow_cdc.core.errors import TransportError
from airflow_cdc.transports.kafka import client
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.wire import read_all
from stack.process import wait_until

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

Topics = Callable[..., str]


@pytest.fixture
def transport(kafka: str) -> KafkaTransport:
    return KafkaTransport(KafkaEndpoint(kafka))


@pytest.fixture
def topics(kafka: str) -> Iterator[Topics]:
    """`topics(partitions=1, **configs) -> name`: a new topic per call, deleted after the test."""
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=kafka)
    made: list[str] = []

    def make(partitions: int = 1, name: str = "", **configs: str) -> str:
        topic = name or f"t-{uuid.uuid4().hex[:8]}"
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
        made.append(topic)
        return topic

    yield make
    for topic in set(made):
        admin.delete_topics([topic], raise_errors=False)
    admin.close()


def send(kafka: str, topic: str, *records: tuple[bytes | None, Any], partition: int | None = None) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=kafka)
    for key, value in records:
        raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        producer.send(topic, key=key, value=raw, partition=partition)
    producer.flush()
    producer.close()


def test_brokers_are_reached_or_not(transport: KafkaTransport) -> None:
    """What the Test button of a connection asks."""
    transport.reach()
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:1\b"):
        KafkaTransport(KafkaEndpoint("127.0.0.1:1", timeout=2)).reach()


def test_states_hold_id_and_both_ends_of_every_partition(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    topic = topics(partitions=3)
    send(kafka, topic, *[(None, {"n": n}) for n in range(5)], partition=1)
    state = transport.topic_states([topic])[topic]
    assert state.partitions == {0: (0, 0), 1: (0, 5), 2: (0, 0)}
    assert len(state.id) == 22
    assert transport.end_offsets([topic]) == {topic: {0: 0, 1: 5, 2: 0}}


def test_a_missing_topic_is_absent_and_is_not_created_by_looking(transport: KafkaTransport, topics: Topics) -> None:
    topic = topics()
    assert set(transport.topic_states([topic, "no-such-topic"])) == {topic}
    assert transport.topic_states(["no-such-topic"]) == {}
    assert transport.topic_states([]) == {}


def test_inv_16_a_recreated_topic_has_another_id(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    from kafka import KafkaAdminClient

    topic = topics()
    send(kafka, topic, (None, {"n": 1}))
    before = transport.topic_states([topic])[topic]
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.delete_topics([topic])
    wait_until(lambda: not transport.topic_states([topic]) or None, timeout=20, what="the topic is gone")
    topics(name=topic)
    send(kafka, topic, (None, {"n": 1}))
    after = transport.topic_states([topic])[topic]
    admin.close()
    assert after.partitions == before.partitions
    assert after.id != before.id


def test_first_offsets_follow_deleted_records(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    topic = topics()
    send(kafka, topic, *[(None, {"n": n}) for n in range(10)])
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.delete_records({TopicPartition(topic, 0): 4})
    admin.close()
    assert transport.topic_states([topic])[topic].partitions == {0: (4, 10)}


def test_a_range_whose_first_records_are_deleted_is_an_error_and_not_a_shorter_range(
    transport: KafkaTransport, kafka: str, topics: Topics
) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    topic = topics()
    send(kafka, topic, *((None, number) for number in range(6)), partition=0)
    whole = read_all(transport.endpoint, topic, {0: (1, 6)})
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    admin.delete_records({TopicPartition(topic, 0): 4})
    admin.close()
    assert [record.offset for record in whole] == [1, 2, 3, 4, 5]
    assert [record.offset for record in read_all(transport.endpoint, topic, {0: (4, 6)})] == [4, 5]
    with pytest.raises(TransportError, match="has deleted these records"):
        read_all(transport.endpoint, topic, {0: (1, 6)})


def test_inv_35_the_first_record_that_is_not_older_than_a_time(
    transport: KafkaTransport, kafka: str, topics: Topics
) -> None:
    """By it what waits in a topic is told to be late or not."""
    topic = topics(partitions=3)
    send(kafka, topic, (None, {"n": 1}), (None, {"n": 2}), partition=1)
    between = time.time() + 0.01
    wait_until(lambda: True if time.time() > between else None, timeout=5, interval=0.01, what="a later millisecond")
    send(kafka, topic, (None, {"n": 3}), partition=1)
    send(kafka, topic, (None, {"n": 4}), partition=2)
    young = transport.offsets_since({topic: (0, 1, 2)}, int(between * 1000))
    assert young == {topic: {0: None, 1: 2, 2: 0}}
    assert transport.offsets_since({topic: (0, 1)}, 0) == {topic: {0: None, 1: 0}}
    assert transport.offsets_since({}, 0) == {}


def test_inv_17_a_worker_whose_clock_is_behind_hides_no_tombstones_age(
    transport: KafkaTransport, kafka: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics(partitions=3, **{"cleanup.policy": "compact", "delete.retention.ms": "1000"})
    send(kafka, topic, (b"a", {"n": 1}), partition=0)
    began = time.time()
    wait_until(lambda: True if time.time() > began + 2 else None, timeout=10, interval=0.1, what="two seconds")
    send(kafka, topic, (b"b", {"n": 2}), partition=1)
    monkeypatch.setattr(client, "time", SimpleNamespace(time=lambda: began - 7 * 86400))
    seen = transport.topic_states([topic])[topic].compaction
    assert seen is not None
    assert seen.first == {0: 1, 1: 0, 2: 0}, "the record of partition 0 is older than tombstones are kept"
    assert seen.now_ms - seen.since_ms == 1000
    assert seen.now_ms > began * 1000


def test_raw_offsets_last_value_per_key_wins(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    topic = topics(partitions=4, **{"cleanup.policy": "compact"})
    key = b'["shop",{"server":"shop1"}]'
    send(
        kafka,
        topic,
        (key, {"file": "a.000001", "pos": 4}),
        (b'["other",{"server":"x"}]', {"file": "b.000001", "pos": 4}),
    )
    send(kafka, topic, (key, {"file": "a.000002", "pos": 8}), (b"not json", {"x": 1}))
    found = read_raw_offsets(transport, topic)
    assert {k: v.value for k, v in found.items()} == {
        '["shop",{"server":"shop1"}]': {"file": "a.000002", "pos": 8},
        '["other",{"server":"x"}]': {"file": "b.000001", "pos": 4},
    }
    assert list(read_raw_offsets(transport, topic, "shop")) == ['["shop",{"server":"shop1"}]']


def test_raw_offset_is_written_beside_the_existing_record(
    transport: KafkaTransport, kafka: str, topics: Topics
) -> None:
    topic = topics(partitions=5, **{"cleanup.policy": "compact"})
    key = b'["shop",{"server":"shop1"}]'
    # where Java's default partitioner would not put it: the existing record decides
    for partition in range(5):
        send(kafka, topic, (key, {"file": "a.000001", "pos": partition}), partition=partition)
    old = read_raw_offsets(transport, topic)['["shop",{"server":"shop1"}]']
    new = write_raw_offset(transport, topic, "shop", {"server": "shop1"}, {"file": "a.000009", "pos": 4})
    assert (new.kafka_partition, new.value) == (old.kafka_partition, {"file": "a.000009", "pos": 4})
    assert new.kafka_offset > old.kafka_offset
    gone = write_raw_offset(transport, topic, "shop", {"server": "shop1"}, None)
    assert gone.value is None


def test_a_key_nobody_reads_is_refused(transport: KafkaTransport, topics: Topics) -> None:
    topic = topics(partitions=3)
    with pytest.raises(TransportError, match=r"topic\.prefix"):
        write_raw_offset(transport, topic, "shop", {"server": "shpo"}, {"file": "a.000001", "pos": 4})
    assert read_raw_offsets(transport, topic) == {}
    made = write_raw_offset(transport, topic, "shop", {"server": "shop"}, {"file": "a.000001", "pos": 4}, create=True)
    assert read_raw_offsets(transport, topic)['["shop",{"server":"shop"}]'] == made


def test_a_compacted_or_aborted_tail_does_not_make_the_reader_wait(
    transport: KafkaTransport, kafka: str, topics: Topics
) -> None:
    """The last offset may be a transaction marker, which no consumer is ever given."""
    from kafka import KafkaProducer

    topic = topics()
    send(kafka, topic, (b'["a",{"server":"a"}]', {"pos": 1}))
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=f"tx-{topic}")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, key=b'["a",{"server":"a"}]', value=b'{"pos": 2}')
    producer.abort_transaction()
    producer.close()
    began = time.monotonic()
    found = read_raw_offsets(transport, topic)
    assert found['["a",{"server":"a"}]'].value == {"pos": 1}
    assert time.monotonic() - began < 10


def table(*columns: str) -> dict[str, Any]:
    return {"columns": [{"name": c, "position": n + 1} for n, c in enumerate(columns)], "primaryKeyColumnNames": []}


def change(kind: str, name: str, *columns: str, server: str = "s", **more: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": kind, "id": f'"shop"."{name}"', **more}
    if kind != "DROP":
        entry["table"] = table(*columns)
    return {"source": {"server": server}, "ddl": "", "tableChanges": [entry]}


def test_newest_schema_history(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    topic = topics()
    records = [
        change("CREATE", "a", "id"),
        change("CREATE", "b", "id"),
        change("ALTER", "a", "id", "v"),
        change("DROP", "b"),
        change("CREATE", "c", "id", server="other"),
    ]
    send(kafka, topic, *[(None, record) for record in records])
    found = fold_history(transport.history_records(topic))
    assert [c["name"] for c in found["shop.a"].each("columns")] == ["id", "v"]
    assert set(found) == {"shop.a", "shop.c"}
    assert set(fold_history(transport.history_records(topic), "s")) == {"shop.a"}


def test_a_history_that_is_none_is_an_error(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    topic = topics()
    send(kafka, topic, (None, b"<html>"))
    with pytest.raises(TransportError, match="offset 0 is not a schema history record"):
        fold_history(transport.history_records(topic))
    with pytest.raises(TransportError, match="the topic does not exist"):
        transport.history_records("no-such-topic")


def test_a_history_in_two_partitions_is_refused(transport: KafkaTransport, kafka: str, topics: Topics) -> None:
    topic = topics(partitions=2)
    for partition in (0, 1):
        send(kafka, topic, (None, change("CREATE", "a", "id")), partition=partition)
    with pytest.raises(TransportError, match="several partitions"):
        fold_history(transport.history_records(topic))


def test_an_unreachable_broker_is_one_error_in_time() -> None:
    nobody = KafkaTransport(KafkaEndpoint("127.0.0.1:1", timeout=2))
    began = time.monotonic()
    with pytest.raises(TransportError, match="could not reach a broker") as caught:
        nobody.topic_states(["t"])
    assert time.monotonic() - began < 10
    assert "127.0.0.1:1" in str(caught.value)


def test_a_silent_broker_is_one_error_in_time() -> None:
    """It accepts the connection and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []
    thread = threading.Thread(target=lambda: held.append(listener.accept()[0]), daemon=True)
    thread.start()
    silent = KafkaTransport(KafkaEndpoint(f"127.0.0.1:{listener.getsockname()[1]}", timeout=2))
    began = time.monotonic()
    with pytest.raises(TransportError, match="could not reach a broker"):
        silent.topic_states(["t"])
    assert time.monotonic() - began < 15
    for sock in (*held, listener):
        sock.close()
