"""The application on a real broker and a real source: from the stamp to the topic's end, published, once."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, create_autospec

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.core.errors import (
    LeaseHeldError,
    SchemaError,
    SinkError,
    SourceError,
    StaleHeadError,
    TransportError,
    UnreadableEventsError,
)
from airflow_cdc.core.observation import ConnectorState
from airflow_cdc.core.pipeline import MaintenancePolicy
from airflow_cdc.decisions.apply.schema_change import DEFINITION
from airflow_cdc.flows.abandon import abandon
from airflow_cdc.sinks.iceberg import dead_letters, small_files
from airflow_cdc.sinks.iceberg.catalog import EmbeddedCatalog
from airflow_cdc.sinks.iceberg.row_positions import live_files
from airflow_cdc.spark_apps import apply_changes as application
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.adapters.kafka import kafka_options, read_topics
from airflow_cdc.spark_apps.apply.batch import apply_table
from airflow_cdc.spark_apps.stages import waiting
from airflow_cdc.spark_apps.stages.waiting import UNRESOLVED
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from tests.integration.apply_scene import Scene, delete_before
from tests.integration.rig import Rig
from tests.recoveries import advance_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(40), qty INT)"
NAMES = "CREATE TABLE names (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)"
EVENTS = "CREATE TABLE events (kind VARCHAR(20), n INT)"


@pytest.fixture
def scene(rig: Rig, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(waiting, "wait_past", lambda *_: None)  # topics made by hand hold all that will come
    return Scene(rig, kafka, tmp_path)


def test_applies_publishes_mirrors_and_does_nothing_twice(scene: Scene) -> None:
    orders, events = scene.table(ORDERS, (9, "nine", 9), partitions=3), scene.table(EVENTS)
    orders.event("c", None, {"id": 1, "name": "a😀", "qty": 1}, partition=0)
    orders.event("c", None, {"id": 2, "name": "b", "qty": 2}, partition=2)
    orders.event("d", {"id": 9}, None, partition=2)
    events.create(kind="x", n=1)
    scene.send(orders)
    scene.send(events)
    done = scene.apply()
    assert done["orders"]["published"]
    assert scene.rows("orders") == [(1, "a😀", 1), (2, "b", 2)]
    assert scene.rows("events") == [("x", 1)]
    head = scene.rig.lake.head(scene.rig.schema, "orders")
    stamp = scene.rig.lake.stamp(scene.rig.schema, "orders")
    assert stamp is not None
    assert stamp.offsets[orders.name].next == {0: 1, 1: 0, 2: 2}
    mirrored = scene.run().clients.control.mirrored_stamp(f"{scene.rig.schema}.orders")
    assert mirrored is not None
    assert mirrored.offsets == stamp.offsets
    assert DEFINITION in scene.rig.lake.table(scene.rig.schema, "orders").properties
    assert scene.stages() == []
    assert scene.run().clients.control.facts().lease is None

    again = scene.apply(run_id="run-2")
    assert (again["orders"]["records"], again["orders"]["published"]) == (0, False)
    assert scene.rig.lake.head(scene.rig.schema, "orders") == head


def test_a_table_more_costs_three_calls_of_the_catalog(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small batch reads the table, commits to it (the embedded catalog reads it once more then), and mirrors its stamp."""
    topics = [scene.table(f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, name VARCHAR(40))") for number in range(4)]
    loads: list[object] = []
    real = EmbeddedCatalog.load_table

    def counted(self: EmbeddedCatalog, identifier: Any) -> Any:
        loads.append(identifier)
        return real(self, identifier)

    def applied(number: int, *, changed: int) -> int:
        for topic in topics[:changed]:
            topic.create(id=number, name="a")
            scene.send(topic)
        loads.clear()
        done = scene.apply(run_id=f"run-{number}")
        assert [done[topic.table.name]["published"] for topic in topics] == [at < changed for at in range(4)]
        return len(loads)

    applied(0, changed=4)
    monkeypatch.setattr(EmbeddedCatalog, "load_table", counted)
    one, four = applied(1, changed=1), applied(2, changed=4)
    assert four - one <= 3 * (3 - 1)  # a table without changes is read once
    assert [identifier for identifier in loads if "cdc_stage" in str(identifier)] == []
    assert scene.rows("t3") == [(0, "a"), (2, "a")]


def test_small_files_are_merged_as_the_policy_has_it(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """And whatever becomes of that, the batch is published."""
    caplog.set_level("INFO", "airflow_cdc")
    topic = scene.table(ORDERS)
    run = scene.run()
    policy = run.pipeline.policy
    files: list[int] = []

    def applied(number: int, maintenance: MaintenancePolicy) -> None:
        topic.create(id=number, name="a", qty=1)
        scene.send(topic)
        merging = replace(policy, maintenance=maintenance)
        one = replace(run, pipeline=replace(run.pipeline, policy=merging), run_id=f"run-{number}")
        (result,) = application.apply_changes(one, scene.rig.spark)["tables"].values()
        assert (result["records"], result["published"]) == (1, True)
        assert sorted(scene.rows("orders")) == [(at, "a", 1) for at in range(number + 1)]
        live = live_files(scene.rig.lake.table(scene.rig.schema, "orders"))
        assert live is not None
        files.append(len(live.data))

    for number in range(5):
        applied(number, MaintenancePolicy(compact=False, small_files=3))
    for number in range(5, 10):
        applied(number, MaintenancePolicy(small_files=3))
    assert files == [1, 2, 3, 4, 5, 1, 2, 1, 2, 1]
    errors = {
        "committed": StaleHeadError("main moved", where="table orders"),
        "_read": FileNotFoundError("gone.parquet"),
    }
    for place, error in errors.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(small_files, place, Mock(side_effect=error))
            for _ in range(2):
                applied(len(files), MaintenancePolicy(small_files=3))
    assert files[-4:] == [2, 3, 4, 5]
    assert "are left as they are: main moved" in caplog.text
    assert "gone.parquet" in caplog.text


def test_a_head_that_moved_meanwhile_is_left_to_the_next_run(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = scene.table(ORDERS)
    orders.create(id=1, name="a", qty=1)
    scene.send(orders)
    real = apply_table

    def meddled(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        scene.rig.spark.sql(f"INSERT INTO {scene.name(orders.table)} VALUES (50, 'by hand', 0)")
        return result

    monkeypatch.setattr(waiting, "apply_table", meddled)
    done = scene.apply()
    assert not done["orders"]["published"]
    assert scene.rows("orders") == [(50, "by hand", 0)]
    monkeypatch.setattr(waiting, "apply_table", real)
    assert scene.apply(run_id="run-2")["orders"]["published"]
    assert scene.rows("orders") == [(1, "a", 1), (50, "by hand", 0)]


def test_inv_20_a_dead_letter_is_put_right_by_reading_its_key_again(scene: Scene) -> None:
    names = scene.table(NAMES, ("old", 0), ("gone", 0))
    scene.rig.run("INSERT INTO names VALUES ('Old', 7), ('kept', 3)")
    names.raw(b'{"code":"old"}', b"broken")  # in the source it is written Old now: another row for the sink
    names.raw(b'{"code":"gone"}', b"broken")
    names.raw(b'{"code":"kept"}', b'{"op":"u","after":{"code":"kept","n":"many"}}')
    names.raw(b"no key at all", b"broken")
    for number in range(5):
        names.create(code=f"n{number}", n=number)
    scene.send(names)
    done = scene.apply()["names"]
    assert (done["dead_letters"], done["replayed"], done["unresolved"]) == (4, 3, 1)
    assert scene.rows("names") == [("Old", 7), ("kept", 3), ("n0", 0), ("n1", 1), ("n2", 2), ("n3", 3), ("n4", 4)]
    (left,) = dead_letters.unresolved(scene.rig.lake, scene.run().pipeline.name)
    assert (left.key, left.attempts) == (b"no key at all", 2)


def test_inv_42_records_most_of_which_cannot_be_read_stop_the_table_and_are_a_problem_at_once(scene: Scene) -> None:
    """Main stays right as of its stamp, nothing becomes a letter, and the diagnosis asks for the table to be read again."""
    names, orders = scene.table(NAMES, ("old", 0)), scene.table(ORDERS)
    for _ in range(2):
        names.raw(b'{"code":"old"}', b"Struct{after=Struct{code=old,n=1},op=u}")
    names.create(code="x", n=1)
    orders.create(id=1, name="a", qty=1)
    scene.send(names)
    scene.send(orders)
    with pytest.raises(
        UnreadableEventsError, match=r"2 of 3 records cannot be read \(the value is not JSON\).*converter"
    ):
        scene.apply()
    assert (scene.rows("names"), scene.rows("orders")) == ([("old", 0)], [(1, "a", 1)])
    assert dead_letters.unresolved(scene.rig.lake, scene.run().pipeline.name) == ()
    noted = scene.run().clients.control.facts().refused
    assert noted.keys() == {f"{scene.rig.schema}.names"}
    assert "the converter" in noted[f"{scene.rig.schema}.names"].why.lower()


def test_inv_42_one_record_without_a_readable_key_is_a_problem_at_the_first_batch(scene: Scene) -> None:
    """Its row stays wrong, whatever is tried again: HEALTHY would be said of a table that nobody can put right."""
    names = scene.table(NAMES)
    names.raw(b"no key", b"broken")
    for number in range(3):
        names.create(code=f"n{number}", n=number)
    scene.send(names)
    assert scene.apply()["names"]["unresolved"] == 1
    for number in range(2):
        noted = scene.run().clients.control.facts().refused[f"{scene.rig.schema}.names"]
        stamp = scene.rig.lake.stamp(scene.rig.schema, "names")
        assert stamp is not None
        assert noted.stamp == stamp.to_json()
        names.create(code=f"later{number}", n=number)  # applied as ever, and the note holds for the new stamp
        scene.send(names)
        assert scene.apply(run_id=f"later-{number}")["names"]["published"]


def test_unresolved_letters_are_tried_again_up_to_a_cap_and_then_on_request(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_ATTEMPTS", 2)
    names = scene.table(NAMES)
    names.raw(b"no key", b"broken")
    scene.send(names)
    attempts = []
    for number, asked in enumerate((False, False, True)):
        scene.apply(run_id=f"run-{number}", replay=asked)
        (letter,) = dead_letters.unresolved(scene.rig.lake, scene.run().pipeline.name)
        attempts.append(letter.attempts)
    assert attempts == [2, 2, 3]


def test_inv_31_the_diagnosis_is_told_of_a_letter_that_no_apply_puts_right(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """A table without a key has no key to read again: it differs until it is recovered, whatever else is applied."""
    events, names = scene.table(EVENTS, ("x", 1), ("y", 2)), scene.table(NAMES)
    events.raw(None, b"broken")
    names.raw(b'{"code":"a"}', b"broken")
    scene.send(events)
    scene.send(names)
    done = scene.apply()
    assert (done["events"]["unresolved"], done["names"]["unresolved"]) == (1, 0)
    for number in (1, 2):
        noted = scene.run().clients.control.facts().refused
        stamp = scene.rig.lake.stamp(scene.rig.schema, "events")
        assert stamp is not None
        assert noted.keys() == {f"{scene.rig.schema}.events"}
        (note,) = noted.values()
        assert note.stamp == stamp.to_json()
        assert "1 records could not be read, the first for" in note.why
        events.create(kind="z", n=number)  # applied as ever, and the note holds for the new stamp
        scene.send(events)
        assert scene.apply(run_id=f"later-{number}")["events"]["published"]
    with caplog.at_level("WARNING", logger="airflow_cdc.apply_changes"):
        quiet = scene.apply(run_id="nothing came")["events"]
    assert (quiet["records"], quiet["unresolved"]) == (0, 1), "after the last try, each apply still says so"
    assert UNRESOLVED % (f"{scene.rig.schema}.events", 1) in caplog.messages


def test_a_stopped_table_is_named_and_the_others_are_published(scene: Scene) -> None:
    orders, names = scene.table(ORDERS), scene.table(NAMES)
    orders.create(id=1, name="a", qty=1, colour="red")
    names.create(code="x", n=1)
    scene.send(orders)
    scene.send(names)
    with pytest.raises(SchemaError, match="colour"):
        scene.apply()
    assert scene.rows("names") == [("x", 1)]
    assert scene.rows("orders") == []
    assert scene.stages() == []


def test_a_table_dropped_at_the_source_stops_no_other_table(scene: Scene) -> None:
    """Before, during and after a recovery of it: which is given up, and says so."""
    orders, names = scene.table(ORDERS), scene.table(NAMES)
    scene.rig.run("DROP TABLE orders")
    names.create(code="x", n=1)
    scene.send(names)
    with pytest.raises(SourceError, match=r"the source has no table \S+orders.*airflow cdc abandon"):
        scene.apply()
    assert scene.rows("names") == [("x", 1)]

    run, dropped = scene.run(), f"{scene.rig.schema}.{orders.table.name}"
    run.clients.control.open_recovery("recovery", tables=[dropped, f"{scene.rig.schema}.names"])
    with pytest.raises(SinkError, match="airflow cdc abandon"):
        scene.apply(run_id="run-2")
    proven = f"{scene.rig.schema}.names"
    advance_to(run.clients.control, "recovery", published={proven: 1}, verified={proven: {"verdict": "MATCH"}})
    connector = create_autospec(DebeziumConnector, instance=True)
    connector.state.return_value = ConnectorState("RUNNING")
    abandon(replace(run, clients=replace(run.clients, connector=connector)), who="ada", reason="it was dropped")

    # as the recovery left it
    stamp = scene.rig.lake.stamp(scene.rig.schema, "names")
    assert stamp is not None
    append_nothing(scene.rig.spark, scene.name(names.table), replace(stamp, epoch=1).to_summary())
    names.create(code="y", n=2)
    scene.send(names)
    assert list(scene.apply(run_id="run-3")) == ["names"]
    assert scene.rows("names") == [("x", 1), ("y", 2)]


def test_inv_13_a_column_added_at_the_source_reaches_readers_with_its_rows(scene: Scene) -> None:
    orders = scene.table(ORDERS, (1, "a", 1))
    orders.update({"id": 1}, id=1, name="a2", qty=1)
    scene.send(orders)
    scene.apply()
    scene.alter("orders", "ALTER TABLE orders ADD COLUMN note VARCHAR(20)")
    orders.create(id=2, name="b", qty=2, note="new")
    scene.send(orders)
    assert scene.apply(run_id="run-2")["orders"]["added"] == ["note"]
    assert scene.rows("orders") == [(1, "a2", 1, None), (2, "b", 2, "new")]
    scene.alter("orders", "ALTER TABLE orders ADD COLUMN level INT DEFAULT 5")
    orders.create(id=3, name="c", qty=3, note=None, level=5)
    scene.send(orders)
    with pytest.raises(SchemaError, match="level was added with a default"):
        scene.apply(run_id="run-3")


def test_inv_30_a_column_renamed_behind_a_connector_that_reports_no_ddl(scene: Scene) -> None:
    orders = scene.table(ORDERS)
    orders.create(id=1, name="a", qty=1)
    scene.send(orders)
    scene.apply()
    scene.rig.run("ALTER TABLE orders RENAME COLUMN name TO title")
    orders.create(id=2, title="b", qty=2)
    scene.send(orders)
    with pytest.raises(SchemaError, match=r"column title: varchar.*policy says schema_change: stop"):
        scene.apply(run_id="run-2")
    assert scene.rows("orders") == [(1, "a", 1)]


def test_inv_31_an_update_that_the_log_holds_in_part_stops_the_table_until_it_is_read_again(scene: Scene) -> None:
    """No event tells of it. It is looked for in the log since the last apply, also if a table has no event at all."""
    scene.table("CREATE TABLE documents (id INT PRIMARY KEY, j JSON)")
    scene.table("CREATE TABLE plain (id INT PRIMARY KEY, v INT)")
    scene.rig.run("INSERT INTO documents VALUES (1, JSON_OBJECT('a', REPEAT('x', 99)))")
    scene.apply()
    scene.rig.run(
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'", "UPDATE documents SET j = JSON_SET(j, '$.a', 'y')"
    )
    for _ in range(2):  # nothing has read it again, so it is named again
        with pytest.raises(SchemaError, match="binlog_row_value_options=PARTIAL_JSON") as stopped:
            scene.apply()
        assert stopped.value.where == f"table {scene.rig.schema}.documents"


def test_inv_01_nothing_is_applied_while_a_recovery_is_open(scene: Scene) -> None:
    orders = scene.table(ORDERS)
    orders.create(id=1, name="a", qty=1)
    scene.send(orders)
    control = scene.run().clients.control
    control.open_recovery("rec-1", tables=[f"{scene.rig.schema}.orders"])
    with pytest.raises(SinkError, match="rec-1"):
        scene.apply()
    control.close_recovery("rec-1")  # abandoned without publishing: the stamp is of a lower epoch now
    with pytest.raises(SinkError, match="epoch 0, the pipeline's is 1"):
        scene.apply()
    assert scene.rows("orders") == []


def test_one_writer_at_a_time(scene: Scene) -> None:
    scene.table(ORDERS)
    scene.run().clients.control.acquire("someone", 60)
    with pytest.raises(LeaseHeldError, match="someone"):
        scene.apply()


def test_offsets_that_the_broker_no_longer_has_are_a_gap(scene: Scene) -> None:
    orders = scene.table(ORDERS)
    orders.create(id=1, name="a", qty=1)
    orders.create(id=2, name="b", qty=2)
    scene.send(orders)
    delete_before(scene.transport.endpoint, orders.name, 1)
    with pytest.raises(TransportError, match="records 0 to 0 were removed"):
        scene.apply()
    assert scene.rows("orders") == []


def test_empty_ranges_ask_no_broker(spark: SparkSession) -> None:
    nowhere = KafkaEndpoint("127.0.0.1:1")
    assert read_topics(spark, nowhere, {f"t-{uuid.uuid4()}": {0: (5, 5), 1: (7, 7)}}).count() == 0


def test_security_settings_reach_sparks_client(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"pem of {name}")
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'us"er',
        "sasl.password": "pass\\word",
        "ssl.cafile": str(tmp_path / "ca"),
        "ssl.certfile": str(tmp_path / "cert"),
        "ssl.keyfile": str(tmp_path / "key"),
        "ssl.check_hostname": "false",
    }
    options = kafka_options(KafkaEndpoint("k:9092", security))
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"].endswith(
        'ScramLoginModule required username="us\\"er" password="pass\\\\word";'
    )
    assert options["kafka.ssl.truststore.certificates"] == "pem of ca"
    assert options["kafka.ssl.keystore.certificate.chain"] == "pem of cert"
    assert options["kafka.ssl.keystore.key"] == "pem of key"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert "sasl.password" not in {key.removeprefix("kafka.") for key in options}
