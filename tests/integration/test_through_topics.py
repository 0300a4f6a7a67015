"""Tables that nobody here writes are put right through their topics, on real servers (INV 23, 47).

The consumer is the test's own (tests/systems/debezium_topics.py): it knows nothing but the topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import ConnectorError, SchemaError, TransportError, VerificationError
from airflow_cdc.core.topics import Outgoing
from airflow_cdc.flows import reset_offset, resting
from airflow_cdc.flows.abandon import abandon
from airflow_cdc.flows.close import close, let_go
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.recovery import current
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.snapshot.corrections import Correcting
from airflow_cdc.spark_apps.stages import repair_topics
from airflow_cdc.spark_apps.verify import verify
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.producer import KafkaProducer
from airflow_cdc.transports.kafka.wire import producer
from stack.process import wait_until
from tests.integration.recovering import resume, up_to_watermark
from tests.integration.rig import Rig
from tests.on_demand import on_demand
from tests.systems.debezium_topics import PARTITIONS, WRAPPED, IntoTopics

if TYPE_CHECKING:
    from stack.connect import ConnectWorker
    from stack.mysql import MySqlServer

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# a name for each test: a connector that is made again under an old one continues from the old offset, in the old topics
NUMBERS = count(1)
TABLES = ("first", "second")
COLUMNS = "(id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(12,2))"


@pytest.fixture
def followed(
    mysql: MySqlServer, rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path
) -> Iterator[IntoTopics]:
    """Two tables of 300 rows, whose connector is stopped; in the gap rows were deleted, changed and inserted."""
    name = f"through_topics_{next(NUMBERS)}"
    mysql.execute(f"CREATE DATABASE {name}")
    made = IntoTopics(mysql, rig.spark, rig.lake, kafka, connect_worker.url, tmp_path, name, TABLES, WRAPPED)
    numbers = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300)"
    made.execute(*(f"CREATE TABLE {table} {COLUMNS}" for table in TABLES))
    made.follow(
        {"heartbeat.interval.ms": "500", "connect.keep.alive.interval.ms": "2000"}
    )  # a quiet server moves no offset
    made.execute(*(f"INSERT INTO {table} {numbers} SELECT n, CONCAT('ü', n), n / 4 FROM s" for table in TABLES))
    made.apply("before")
    made.connector.stop(name)
    for table in TABLES:
        made.execute(
            f"DELETE FROM {table} WHERE id <= 40",
            f"UPDATE {table} SET v = 'changed', n = NULL WHERE id BETWEEN 41 AND 50",
            f"INSERT INTO {table} VALUES (1001, 'new 😀', -0.01)",
        )
    made.purge()
    yield made
    connect_worker.call("DELETE", f"/connectors/{name}")


def begun(followed: IntoTopics) -> Run:
    """A run as far as its watermark."""
    run = replace(followed.base, run_id="recovery")
    up_to_watermark(run)
    return run


def ended(followed: IntoTopics, run: Run) -> str:
    resume(run)
    with on_demand(followed.spark) as spark:
        compared = verify(run, spark)
    publish(run)
    close(run)
    return str(compared["verdict"])


def same(followed: IntoTopics, table: str, level: str = "read_committed") -> bool:
    source = {row[0]: row for row in followed.execute(f"SELECT id, v, n FROM {table}")}
    rebuilt = {row["id"]: (row["id"], row["v"], row["n"]) for row in followed.consumed(table, level).rows.values()}
    return source == rebuilt


def test_inv_47_killed_between_two_tables_it_compares_again_and_writes_only_what_still_differs(
    followed: IntoTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(followed)
    each = Correcting.table

    def killed(self: Correcting, table: Any) -> Any:
        if table.name == "second":
            raise KeyboardInterrupt
        return each(self, table)

    monkeypatch.setattr(Correcting, "table", killed)
    with on_demand(followed.spark) as spark, pytest.raises(KeyboardInterrupt):
        recover(run, spark)
    with pytest.raises(VerificationError, match=f"{followed.database}.second"):
        reset_offset.reset_offset(run)
    monkeypatch.setattr(Correcting, "table", each)
    with on_demand(followed.spark) as spark:
        again = recover(run, spark)
    assert again["corrections"] == {
        f"{followed.database}.first": {"rows": 0, "deletes": 0},
        f"{followed.database}.second": {"rows": 11, "deletes": 40},
    }
    sent = current(run).corrections
    assert {table: (one.rows, one.deletes) for table, one in sent.items()} == dict.fromkeys(sent, (11, 40))
    assert all(one.since != one.until for one in sent.values())
    assert ended(followed, run) == "MATCH"
    for table in TABLES:
        assert same(followed, table)
        operations = followed.consumed(table).operations
        assert (operations.count("d"), operations.count("tombstone"), operations.count("r")) == (40, 40, 11)


def test_inv_23_a_connector_that_runs_again_before_the_corrections_ends_the_step(followed: IntoTopics) -> None:
    run = begun(followed)
    before = followed.consumed("first").operations
    followed.connector.resume(followed.database)
    with on_demand(followed.spark) as spark, pytest.raises(ConnectorError, match="not STOPPED"):
        recover(run, spark)
    assert current(run).corrections == {}
    assert followed.consumed("first").operations[: len(before)] == before
    assert "r" not in followed.consumed("first").operations


def test_inv_47_a_key_in_another_partition_than_kafka_s_own_partitioner_gives_it_is_refused(
    followed: IntoTopics,
) -> None:
    """As a custom partitioner, or a topic that got partitions later, leaves them."""
    topic = f"{followed.database}.{followed.database}.first"
    known = followed.consumed("first")
    own = known.places['{"id": 200}']
    key, value = _last(followed, topic, 200)
    endpoint = KafkaEndpoint(followed.kafka)
    KafkaTransport(endpoint).send(topic, key, None, own)
    KafkaTransport(endpoint).send(
        topic, key.replace(b":200}", b":20000}"), value.replace(b":200,", b":20000,"), (own + 1) % 4
    )
    run = begun(followed)
    with on_demand(followed.spark) as spark, pytest.raises(TransportError, match="partition"):
        recover(run, spark)
    assert current(run).corrections == {}


def _last(followed: IntoTopics, topic: str, number: int) -> tuple[bytes, bytes]:
    records = KafkaTransport(KafkaEndpoint(followed.kafka)).records(topic)
    return next((one.key or b"", one.value or b"") for one in records if f":{number}}}".encode() in (one.key or b""))


def test_inv_47_records_of_a_killed_transaction_are_in_no_fold_and_leave_no_reader_with_other_rows(
    followed: IntoTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try that was killed lives on, its transaction open behind all its records."""
    run, alive = begun(followed), list[Any]()

    def killed(self: KafkaProducer, id_: str, topic: str, records: Sequence[Outgoing]) -> Any:
        made = alive_for(producer(self.endpoint, transactional_id=id_))
        made.init_transactions()
        made.begin_transaction()
        for one in records:
            made.send(topic, key=one.key, value=one.value, partition=one.partition).get(30)
        raise KeyboardInterrupt

    with ExitStack() as ends:

        def alive_for(made: Any) -> Any:
            alive.append(ends.enter_context(made))
            return alive[-1]

        with monkeypatch.context() as patched, on_demand(followed.spark) as spark:
            patched.setattr(KafkaProducer, "transaction", killed)
            with pytest.raises(KeyboardInterrupt):
                recover(run, spark)
        with on_demand(followed.spark) as spark:
            again = recover(run, spark)
        with pytest.raises(Exception, match=r"(?i)fenced|epoch|abort"):
            alive[0].commit_transaction()
    assert again["corrections"] == {
        f"{followed.database}.{table}": {"rows": 11, "deletes": 40} for table in TABLES
    }  # what was aborted is in no fold
    twice = followed.consumed("first", "read_uncommitted").operations.count("tombstone")
    assert (twice, followed.consumed("first").operations.count("tombstone")) == (80, 40)
    assert ended(followed, run) == "MATCH"
    for level in ("read_committed", "read_uncommitted"):
        assert all(same(followed, table, level) for table in TABLES), level


@pytest.mark.slow
def test_after_the_connectors_own_snapshot_only_ghosts_are_left_whatever_columns_came_in_the_gap(
    followed: IntoTopics, connect_worker: ConnectWorker
) -> None:
    """A label with a comma is never written by us, and no ghost has a record with the new column."""
    followed.execute("ALTER TABLE first ADD COLUMN w ENUM('a,b', 'c') NOT NULL DEFAULT 'c'")
    run = begun(followed)
    with on_demand(followed.spark) as spark, pytest.raises(SchemaError, match=r"snapshot (it|the table) again"):
        recover(run, spark)
    assert current(run).corrections == {}
    let_go(run)  # as at the end of its DAG run
    abandon(run, who="ada", reason="the connector will snapshot the tables")
    name = followed.database
    config = connect_worker.call("GET", f"/connectors/{name}/config")
    connect_worker.call("PUT", f"/connectors/{name}/config", {**config, "snapshot.mode": "when_needed"})
    followed.connector.resume(name)
    followed.execute("INSERT INTO second VALUES (2001, 'after', 1)")
    followed.apply("snapshotted")
    assert len(followed.consumed("first").rows) == 301  # with 40 ghosts
    assert recovered(followed, "ghosts", "full_snapshot") == dict.fromkeys(TABLES, (0, 40))
    assert all(same(followed, table) for table in TABLES)


@pytest.mark.slow
def test_rows_of_which_no_record_has_a_column_that_was_added_are_written_again(followed: IntoTopics) -> None:
    recovered(followed, "recovery")
    followed.execute("ALTER TABLE second ADD COLUMN m INT NOT NULL DEFAULT 5", "UPDATE second SET m = 6 WHERE id = 200")
    followed.apply("altered")
    with on_demand(followed.spark) as spark:
        assert nightly(replace(followed.base, run_id="night"), spark)["verdict"] == "INCONCLUSIVE"
    assert recovered(followed, "again", "full_snapshot") == {"first": (0, 0), "second": (260, 0)}
    rows = followed.consumed("second").rows.values()
    assert sorted((row["id"], row["m"]) for row in rows) == list(
        followed.execute("SELECT id, m FROM second ORDER BY id")
    )


def recovered(followed: IntoTopics, run_id: str, asked: str | None = None) -> dict[str, tuple[int, int]]:
    """A recovery to MATCH: how many rows and deletes it wrote for each table."""
    run = replace(followed.base, run_id=run_id)
    up_to_watermark(run, asked)
    with on_demand(followed.spark) as spark:
        sent = recover(run, spark)["corrections"]
    assert ended(followed, run) == "MATCH"
    return {table: (one["rows"], one["deletes"]) for table in TABLES if (one := sent[f"{followed.database}.{table}"])}


@pytest.mark.slow
def test_a_night_reads_what_the_topics_say_and_writes_nothing(followed: IntoTopics) -> None:
    recovered(followed, "recovery")
    with on_demand(followed.spark) as spark:
        assert nightly(replace(followed.base, run_id="quiet"), spark)["verdict"] == "MATCH"
    topic = f"{followed.database}.{followed.database}.first"
    own = followed.consumed("first").places['{"id": 200}']
    key, value = _last(followed, topic, 200)
    ghost = key.replace(b":200}", b":20000}"), value.replace(b":200,", b":20000,")
    KafkaTransport(KafkaEndpoint(followed.kafka)).send(topic, *ghost, own)
    before = followed.consumed("first").operations
    with on_demand(followed.spark) as spark:
        night = nightly(replace(followed.base, run_id="with-a-ghost"), spark)
    assert (night["verdict"], night["plans"], night["needs_approval"]) == ("MISMATCH", {}, False)
    assert followed.consumed("first").operations == before


def spoil(followed: IntoTopics) -> None:
    """A ghost and a row that is another, in the topic of the first table, as somebody's own producer leaves them."""
    topic = f"{followed.database}.{followed.database}.first"
    own = followed.consumed("first").places['{"id": 200}']
    key, value = _last(followed, topic, 200)
    transport = KafkaTransport(KafkaEndpoint(followed.kafka))
    transport.send(topic, key, value.replace("ü200".encode(), b"spoilt"), own)
    ghost = KafkaProducer(transport.endpoint).partition_of(key.replace(b":200}", b":20000}"), PARTITIONS)
    transport.send(topic, key.replace(b":200}", b":20000}"), value.replace(b":200,", b":20000,"), ghost)


@pytest.mark.slow
def test_inv_47_a_repair_writes_what_differs_while_the_connector_rests_for_it(
    followed: IntoTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With changes that come meanwhile. A first try is killed while it writes, and the next starts the connector."""
    recovered(followed, "recovery")
    spoil(followed)
    run = replace(followed.base, run_id="repair")
    with on_demand(followed.spark) as spark:
        asked = repair(replace(run, options=replace(run.options, dry_run=True)), spark)
    (name,) = asked["plans"]
    plan = asked["plans"][name]
    assert (name, plan["writes"], plan["deletes"]) == (f"{followed.database}.first", 1, 1)
    assert not same(followed, "first")

    def killed(_self: Correcting, _table: Any) -> Any:
        assert followed.connector.state(followed.database).state == "STOPPED"
        followed.execute("UPDATE first SET v = 'meanwhile' WHERE id IN (200, 201)", "DELETE FROM first WHERE id = 202")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, on_demand(followed.spark) as spark:
        patched.setattr(Correcting, "table", killed)
        # nothing that comes behind the block is done by a process that was killed
        patched.setattr(resting, "started_again", lambda _run: False)
        patched.setattr(repair_topics, "started_again", lambda _run: False)
        with pytest.raises(KeyboardInterrupt):
            repair(run, spark)
    assert followed.connector.state(followed.database).state == "STOPPED"
    with on_demand(followed.spark) as spark:
        assert repair(run, spark)["verdict"] == "MATCH"
    assert followed.connector.state(followed.database).running
    noted = run.clients.control.ledger_get("repair")["corrections"][name]
    assert (noted["deletes"], noted["since"] != noted["until"]) == (1, True)
    followed.wait_read()
    assert all(same(followed, table) for table in TABLES)


def test_inv_23_a_topic_that_is_compacted_meanwhile_says_the_same(followed: IntoTopics) -> None:
    """Its offsets still begin at 0; records between have gone."""
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType

    topic = f"{followed.database}.{followed.database}.first"
    transport = KafkaTransport(KafkaEndpoint(followed.kafka))
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "100"}
    with closing(KafkaAdminClient(bootstrap_servers=followed.kafka)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=compacted)])
    known = transport.records(topic)
    ends = {number: [one for one in known if one.partition == number][-1] for number in range(PARTITIONS)}

    def gone() -> bool | None:
        """Each record again lets the broker close a segment, of which it keeps the last of each key."""
        for number, last in ends.items():
            transport.send(topic, last.key or b"", last.value, number)
        records = transport.records(topic)
        end = sum(transport.end_offsets([topic])[topic].values())
        return len(records) < end - PARTITIONS or None

    wait_until(gone, timeout=180, interval=1.0, what="the topic to be compacted")
    assert all(first == 0 for first, _ in transport.topic_states([topic])[topic].partitions.values())
    run = begun(followed)
    with on_demand(followed.spark) as spark:
        again = recover(run, spark)
    assert again["corrections"][f"{followed.database}.first"] == {"rows": 11, "deletes": 40}
    assert ended(followed, run) == "MATCH"
    assert all(same(followed, table) for table in TABLES)


def test_inv_47_readers_of_committed_records_see_all_corrections_of_a_table_or_none(kafka: str) -> None:
    """A writer that is killed leaves records that nobody reads, and the next of its id ends its transaction."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    topic, endpoint = "corrections-fenced", KafkaEndpoint(kafka)
    with closing(KafkaAdminClient(bootstrap_servers=kafka)) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    with producer(endpoint, transactional_id="airflow-cdc-p-t") as killed:
        killed.init_transactions()
        killed.begin_transaction()
        killed.send(topic, key=b"k", value=b"half", partition=0).get(30)
        KafkaProducer(endpoint).fence("airflow-cdc-p-t")
        ends = KafkaTransport(endpoint).end_offsets([topic])[topic]
        ranges = KafkaProducer(endpoint).transaction(
            "airflow-cdc-p-t", topic, [Outgoing(0, b"k", b"whole"), Outgoing(0, b"k", None), Outgoing(2, b"l", b"x")]
        )
        with pytest.raises(Exception, match=r"(?i)fenced|epoch|abort"):
            killed.commit_transaction()
    transport = KafkaTransport(endpoint)
    read = [(one.partition, one.key, one.value) for one in transport.records(topic)]
    assert sorted(read, key=lambda one: one[0]) == [(0, b"k", b"whole"), (0, b"k", None), (2, b"l", b"x")]
    # behind the killed record and the mark of its end there is nothing but ours
    assert ends == {0: 2, 1: 0, 2: 0, 3: 0}
    assert ranges == {0: (2, 4), 2: (0, 1)}
